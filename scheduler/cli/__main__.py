"""`python -m scheduler.cli` is the `pagestate` command."""

from scheduler.cli import entry_point

entry_point()

"""Asking for the payloads of a page, each under its budget."""

"""One error tree: every error has a `kind`, which is also the column value, the metric label and the log field.

    PagestateError
    ├── UsageError            what the user gave cannot be used; exit code 2
    │   ├── SeedError         a seed file or a seed line
    │   ├── SettingError      a setting or an option
    │   ├── BrokerError       the broker does not answer, or refuses
    │   ├── DiskFull          this machine's disk has no room for what is in the making
    │   └── StoreError        the store cannot be used as asked
    │       ├── StoreLocked   another crawl is at work in this store
    │       ├── StoreMismatch another crawl, other settings, or a newer schema
    │       ├── StoreUnavailable  the place does not answer or is busy; the same call may succeed later
    │       └── StoreDamaged  a file is not what its marker says
    ├── BrowserMissing        no Chromium was found; exit code 2
    ├── PageFailed            one page ended in an outcome other than a capture
    ├── BrowserLost           the browser or a connection to it is gone
    ├── PageUnreadable        a stored capture makes no sense
    ├── MessageRefused        a message is not one that this version can carry out
    ├── RecordRefused         a record does not fit its batch, or a row its table; a defect of the program
    └── ChannelError          a CDP call failed
        ├── CommandFailed     the browser answered with an error
        └── ReplyTooLarge     a reply exceeded its cap

Messages are one sentence: what, where and what to do. All of them survive pickling.
"""

from __future__ import annotations

from typing import ClassVar

from schemas.outcomes import Outcome


class PagestateError(Exception):
    """The root of the tree."""

    kind: ClassVar[str] = "error"


class UsageError(PagestateError):
    """What the user gave cannot be used."""

    kind = "usage"


class SeedError(UsageError):
    """A seed file cannot be read or holds nothing."""

    kind = "seed"


class SettingError(UsageError):
    """A setting is unknown or out of its range."""

    kind = "setting"


class StoreError(UsageError):
    """A store cannot be used as asked."""

    kind = "store"


class StoreLocked(StoreError):
    """Another process is at work in this store."""

    kind = "store_locked"


class StoreMismatch(StoreError):
    """A store belongs to another crawl, other settings or a newer schema."""

    kind = "store_mismatch"


class StoreUnavailable(StoreError):
    """The place a store lies in does not answer or is busy; the same call may succeed later."""

    kind = "store_unavailable"


class StoreDamaged(StoreError):
    """A file of a store is not what its marker says."""

    kind = "store_damaged"


class BrokerError(UsageError):
    """The broker does not answer, or refuses."""

    kind = "broker"


class DiskFull(UsageError):
    """This machine's disk has no room for what is in the making; nothing of the batch was committed."""

    kind = "disk_full"


class BrowserMissing(PagestateError):
    """No Chromium was found."""

    kind = "browser_missing"


class BrowserLost(PagestateError):
    """The browser, or a connection to it, is gone."""

    kind = "browser_lost"


class PageFailed(PagestateError):
    """A page ended without a capture; `outcome` says how, `detail` in whose words."""

    kind = "page_failed"

    def __init__(self, outcome: Outcome, detail: str = "") -> None:
        super().__init__(outcome, detail)
        self.outcome = outcome
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.outcome}: {self.detail}" if self.detail else self.outcome


class PageUnreadable(PagestateError):
    """A stored capture cannot be merged: a payload of it makes no sense."""

    kind = "page_unreadable"


class MessageRefused(PagestateError):
    """A message is not one that this version can carry out; sending it again changes nothing."""

    kind = "message_refused"


class RecordRefused(PagestateError):
    """A record does not fit its batch, or a row does not fit its table; nothing of the batch was committed."""

    kind = "record_refused"


class ChannelError(PagestateError):
    """A CDP call could not be completed."""

    kind = "channel"


class CommandFailed(ChannelError):
    """The browser answered a CDP call with an error."""

    kind = "command_failed"

    def __init__(self, method: str, code: int, message: str) -> None:
        super().__init__(method, code, message)
        self.method = method
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.method} failed: {self.message} ({self.code})"


class ReplyTooLarge(ChannelError):
    """A CDP reply exceeded its cap in bytes."""

    kind = "reply_too_large"

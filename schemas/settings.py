"""Settings are one frozen object, read once at start-up; durations are timedeltas, sizes carry their unit in the name.

`CrawlSettings` shapes rows: it is stored in `crawl.json`, hashed into every row, and cannot change within a crawl.
`RunSettings` shapes only how a run goes: it may differ from run to run.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias, cast

from schemas.errors import SettingError
from schemas.identifiers import settings_hash
from schemas.policy import NO_POLICY, Policy
from schemas.profiles import DESKTOP, Profile

RobotsMode: TypeAlias = Literal["remote", "always"]
PictureArea: TypeAlias = Literal["off", "viewport", "full"]
PictureFormat: TypeAlias = Literal["png", "webp"]


@dataclass(frozen=True, slots=True)
class Budgets:
    """How long each stage of a page may take before it degrades or ends; ARCHITECTURE section 5 gives the defaults."""

    permission: timedelta = timedelta(seconds=10)
    context: timedelta = timedelta(seconds=10)
    navigate: timedelta = timedelta(seconds=30)
    """Until the document is committed."""
    load: timedelta = timedelta(seconds=10)
    """From the commit to the load event; a page that misses it is captured all the same, `unsettled`."""
    settle: timedelta = timedelta(seconds=3)
    """From the load event to the end of the quiet window."""
    quiet: timedelta = timedelta(seconds=0.15)
    """How long the DOM must not change to count as quiet."""
    payload: timedelta = timedelta(seconds=10)
    """Each CDP payload; the three trees are asked for together."""
    retry: timedelta = timedelta(seconds=2)
    """One more try of a payload that failed."""
    needed: timedelta = timedelta(seconds=60)
    """How long the two trees that a page cannot do without (snapshot, document) are waited for when they are late:
    nothing is thrown away for being late while the page's other budgets hold."""
    screenshot: timedelta = timedelta(seconds=15)
    """Taking the picture, and once more for drawing on it; a late one costs the page nothing else."""
    process: timedelta = timedelta(seconds=120)
    """Merge and serializers together."""
    page: timedelta = timedelta(seconds=120)
    """From the navigation to the last payload, whatever the stages' own budgets would still allow."""
    close: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class ListingSettings:
    """What the listing includes; the defaults are those of browser-use 0.13.14.

    Raises SettingError for a value that no listing can be made with.
    """

    include_attributes: tuple[str, ...] = ()
    """Names that may print on an element's line, in this order; empty means browser-use's own list."""
    paint_order_filtering: bool = True
    """Elements that later painted opaque ones cover get no index."""
    bbox_filtering: bool = True
    """Elements that fill a link or button around them are folded into it."""
    max_iframes: int = 100
    """Documents of one snapshot, and frames in processes of their own; what is beyond is left out."""
    max_iframe_depth: int = 5
    """Levels of frames in processes of their own."""
    viewport_threshold: int | None = 1000
    """CSS pixels above and below the viewport that still count as visible; None: the whole page."""
    max_chars: int = 40_000
    """Characters of the listing in a page state; the listing itself is stored whole."""

    def __post_init__(self) -> None:
        for name in ("max_iframes", "max_iframe_depth", "max_chars", "viewport_threshold"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MAX_LISTING_NUMBER:
                raise SettingError(f"The setting listing.{name} is {value}; give 0 to {MAX_LISTING_NUMBER}.")
        for name in self.include_attributes:
            if not name or any(c.isspace() or c in "\"'>/=" for c in name):
                raise SettingError(
                    f"The setting listing.include_attributes holds {name!r}, which is no attribute name;"
                    " give names as they stand in HTML."
                )


@dataclass(frozen=True, slots=True)
class OutlineSettings:
    """What the outline's maps include. Raises SettingError for a value that no outline can be made with."""

    max_xpath_chars: int = 4096
    """A longer XPath is replaced by that of the nearest ancestor that fits, and flagged."""

    def __post_init__(self) -> None:
        if not 0 <= self.max_xpath_chars <= MAX_LISTING_NUMBER:
            raise SettingError(
                f"The setting outline.max_xpath_chars is {self.max_xpath_chars}; give 0 to {MAX_LISTING_NUMBER}."
            )


MAX_LISTING_NUMBER: Final = 10**9
"""Beyond any page, and small enough for every column."""


@dataclass(frozen=True, slots=True)
class Caps:
    """How much one page may bring along. Raises SettingError for one that no page could hold to."""

    document_bytes: int = 32 * 1024 * 1024
    """Decoded bytes of the document; a bigger one is `too_large`. The biggest of 66 real pages has 6 MB."""
    response_bytes: int = 256 * 1024 * 1024
    """Decoded bytes of all responses; beyond it the page's further requests are refused."""
    requests: int = 1000
    """Requests of a page; further ones are refused."""
    client_redirects: int = 5
    """Documents by which the page may replace itself (script, meta refresh); the next one is refused."""
    dialogs: int = 10
    """Dialogs that cost nothing; a page that goes on to three times as many is closed."""
    popups: int = 10
    """Popups that are closed; at each further one the script that opens it is ended too."""
    elements: int = 1_000_000
    """Elements of the document; one with more is `too_large`."""
    text_chars: int = 10_000_000
    """Characters of a listing or an outline, or of a text in a row of their maps; a longer one is cut."""
    attribute_chars: int = 65_536
    """Characters of an attribute's value in the selector map; a longer one is cut."""

    def __post_init__(self) -> None:
        for name in ("document_bytes", "response_bytes", "requests", "elements", "text_chars", "attribute_chars"):
            if getattr(self, name) < 1:
                raise SettingError(f"The setting caps.{name} is {getattr(self, name)}; give 1 or more.")
        for name in ("client_redirects", "dialogs", "popups"):
            if getattr(self, name) < 0:
                raise SettingError(f"The setting caps.{name} is {getattr(self, name)}; give 0 or more.")


MAX_PICTURE_SIDE: Final = 16_383
"""Pixels; no WebP is larger (RFC 9649, section 2.7)."""
MAX_PICTURE_PIXELS: Final = 64_000_000
"""A quarter of a GiB while it is drawn on."""


@dataclass(frozen=True, slots=True)
class ScreenshotSettings:
    """What the picture of a page shows, and how large it may be. Raises SettingError for what no picture can have."""

    area: PictureArea = "off"
    """`full` is the whole page as far as `max_page_height`, as it is laid out without scrollbars."""
    format: PictureFormat = "webp"
    boxes: bool = False
    """Whether the elements of the listing are framed, with their numbers."""
    max_page_height: int = 10_000
    """CSS pixels; what is below is not in the picture of a full page."""
    max_width: int = 1280
    """Pixels of the picture, which is made smaller to fit; it is never made larger than the profile shows the page."""
    max_pixels: int = 4_000_000
    """Of the picture, width times height; likewise."""
    max_bytes: int = 4 * 1024 * 1024
    """Of the encoded picture; likewise."""

    def __post_init__(self) -> None:
        for name, most in (
            ("max_page_height", MAX_LISTING_NUMBER),
            ("max_width", MAX_PICTURE_SIDE),
            ("max_pixels", MAX_PICTURE_PIXELS),
            ("max_bytes", MAX_LISTING_NUMBER),
        ):
            if not 1 <= getattr(self, name) <= most:
                raise SettingError(f"The setting screenshot.{name} is {getattr(self, name)}; give 1 to {most}.")


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    """What shapes the rows of a crawl."""

    profiles: tuple[Profile, ...] = (DESKTOP,)
    """Each URL is captured under every one of them; their names differ."""
    budgets: Budgets = field(default_factory=Budgets)
    listing: ListingSettings = field(default_factory=ListingSettings)
    outline: OutlineSettings = field(default_factory=OutlineSettings)
    caps: Caps = field(default_factory=Caps)
    screenshot: ScreenshotSettings = field(default_factory=ScreenshotSettings)
    lanes: int = 64
    batch_size: int = 25
    batch_deadline: timedelta = timedelta(seconds=120)
    robots: RobotsMode = "remote"
    """`remote` asks robots.txt of every host but this machine's own; `always` asks it there too."""
    store_captures: bool = True
    site_per_process: bool = False
    """Frames of other sites in processes of their own, as desktop browsers have them; the headless shell has not."""
    max_reply_bytes: int = 512 * 1024 * 1024

    def as_json(self) -> dict[str, object]:
        """A JSON object: durations as seconds, nested objects as objects.

        A crawl without pictures says nothing of them, as those from before there were any.
        """
        plain: dict[str, Any] = _plain(asdict(self))
        if self.screenshot.area == "off":
            del plain["screenshot"], plain["budgets"]["screenshot"]
        return plain

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> CrawlSettings:
        """The settings that `as_json` gave, here or in an older version. Raises SettingError for unknown ones."""
        given = dict(stored)
        if "profile" in given:  # before there could be several
            given.setdefault("profiles", [given.pop("profile")])
        made: CrawlSettings = _shaped(cls(), given, "")
        return made

    def hash(self) -> str:
        """The settings hash, recorded in every row."""
        return settings_hash(self.as_json())


@dataclass(frozen=True, slots=True)
class BrowserLimits:
    """How much a browser is used before another takes its place, and how much a page process may take."""

    pages: int = 500
    age: timedelta = timedelta(hours=1)
    memory_mib: int = 6144
    """Resident memory of all its processes together; shared pages count once for each."""
    crash_score: float = 3.0
    """A crash of a page process or a context that does not close counts 1, a page that came too late 0.5; every other
    page takes off 0.1."""
    renderer_memory_mib: int = 4096
    """Private memory of one page process; beyond it its allocations fail."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What shapes one run, but not its rows."""

    concurrency: int = 4
    host_concurrency: int = 1
    """Pages of one host in flight at a time; hosts of this machine are limited by `concurrency` only."""
    host_delay: timedelta = timedelta(seconds=1)
    """Between the starts of two navigations to one host; none for hosts of this machine."""
    browser_path: str = ""
    processes: int = 2
    policy: Policy = NO_POLICY
    """Which sites may be captured, and how; every row records which policy it was made under."""
    allow_private: bool = False
    """Whether pages may reach loopback, private and link-local addresses; the policy opens single networks."""
    closed: tuple[tuple[str, int], ...] = ()
    """(host, port) that no page may reach, whatever else is open: the broker, the metrics; host "" is this machine."""
    wedged_after: timedelta = timedelta(seconds=60)
    """A process whose event loop stands still for so long ends itself."""
    limits: BrowserLimits = field(default_factory=BrowserLimits)


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value


def _shaped(default: Any, stored: Any, path: str) -> Any:
    """A stored value in the shape of the default that stands in its place; a setting that is not stored keeps it."""
    if isinstance(default, timedelta):
        return timedelta(seconds=stored)
    if isinstance(default, tuple):
        if default and is_dataclass(default[0]):
            return tuple(_shaped(default[0], item, path) for item in stored)
        return tuple(stored)
    if not is_dataclass(default):
        return stored
    known = {f.name for f in fields(default)}
    for name in stored:
        if name not in known:
            raise SettingError(f"There is no setting named {path}{name} in this version; use the one that stored it.")
    changes = {name: _shaped(getattr(default, name), value, f"{path}{name}.") for name, value in stored.items()}
    return replace(cast(Any, default), **changes)


MIN_BUDGET_SECONDS = 0.001
MAX_BUDGET_SECONDS = 3600


def budgets_from(overrides: Mapping[str, float]) -> Budgets:
    """The default budgets with some replaced, in seconds; an unknown name is an error that suggests the nearest."""
    known = [f.name for f in fields(Budgets)]
    for name, seconds in overrides.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}."
            raise SettingError(f"There is no budget named {name}; {hint}")
        if not MIN_BUDGET_SECONDS <= seconds <= MAX_BUDGET_SECONDS:
            raise SettingError(
                f"The budget {name} is {seconds} s; give {MIN_BUDGET_SECONDS} to {MAX_BUDGET_SECONDS} seconds."
            )
    return Budgets(**{name: timedelta(seconds=s) for name, s in overrides.items()})


def caps_from(overrides: Mapping[str, int]) -> Caps:
    """The default caps with some replaced; an unknown name is an error that tells those that there are."""
    known = [f.name for f in fields(Caps)]
    for name in overrides:
        if name not in known:
            raise SettingError(f"There is no cap named {name}; known are {', '.join(known)}.")
    return Caps(**overrides)

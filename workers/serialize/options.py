"""The options of the listing carry browser-use's names and its profile's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.settings import ListingSettings

INCLUDE_ATTRIBUTES: tuple[str, ...] = (
    "title", "type", "checked", "id", "name", "role", "value", "placeholder", "data-date-format", "alt", "aria-label",
    "aria-expanded", "data-state", "aria-checked", "aria-valuemin", "aria-valuemax", "aria-valuenow",
    "aria-placeholder", "pattern", "min", "max", "minlength", "maxlength", "step", "accept", "multiple",
    "inputmode", "autocomplete", "aria-autocomplete", "list", "data-mask", "data-inputmask", "data-datepicker",
    "format", "expected_format",
    "contenteditable", "pseudo", "checked", "selected", "expanded", "pressed", "disabled", "invalid", "valuemin",
    "valuemax", "valuenow", "keyshortcuts", "haspopup", "multiselectable", "required", "valuetext", "level", "busy",
    "live", "ax_name",
)  # fmt: skip
"""The attributes that print, in this order and with the one duplicate (browser-use 0.13.14, dom/views.py)."""


@dataclass(frozen=True, slots=True)
class ListingOptions:
    """What the listing includes; the defaults are those of browser-use 0.13.14.

    include_attributes       names that may print on an element's line; empty means the default
    paint_order_filtering    elements covered by later painted opaque ones get no index
    bbox_filtering           elements that fill a link or button are folded into it
    max_iframes              documents of one snapshot, and out-of-process frames, beyond this number are left out
    max_iframe_depth         levels of out-of-process frames
    viewport_threshold       CSS pixels above and below the viewport that still count as visible; None: everything
    session_id               names the attribute `data-browser-use-exclude-<session id>`; "" means no such attribute
    """

    include_attributes: tuple[str, ...] = ()
    paint_order_filtering: bool = True
    bbox_filtering: bool = True
    max_iframes: int = 100
    max_iframe_depth: int = 5
    viewport_threshold: int | None = 1000
    session_id: str = ""

    @classmethod
    def of(cls, settings: ListingSettings) -> ListingOptions:
        """The options that a crawl's settings ask for."""
        return cls(
            include_attributes=settings.include_attributes,
            paint_order_filtering=settings.paint_order_filtering,
            bbox_filtering=settings.bbox_filtering,
            max_iframes=settings.max_iframes,
            max_iframe_depth=settings.max_iframe_depth,
            viewport_threshold=settings.viewport_threshold,
        )

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """The names in force."""
        return self.include_attributes or INCLUDE_ATTRIBUTES

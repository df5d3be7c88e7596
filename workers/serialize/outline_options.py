"""What an outline can be asked for; the defaults are Stagehand's, its faults excepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OutlineOptions:
    """Settings of an outline.

    include_frames   False leaves every frame but the main one out
    focus            an XPath (`xpath=...` or `/...`) or a CSS selector, `>>` between frames: the outline of the first
                     element that matches
    ignore           selectors; the outline is without the elements that match, and what is in them
    ordinals         frame id -> the number that its ids start with; frames that it does not name get the next free
                     ones. Without it the main frame is 0 and the others count breadth first: Stagehand numbers them
                     as they attach, which differs from run to run
    owners           frame id -> backend node id of the element that shows it, as DOM.getFrameOwner said, for a frame
                     of which the document does not tell
    max_xpath_chars  a longer XPath is replaced by that of the nearest ancestor that fits, and flagged; None is no
                     limit. In a page of depth d the XPaths of a map have d * d letters
    original_faults  True repeats what Stagehand 3.7.3 does wrong, so that it can be compared with: a frame whose
                     owner is gone shows its session's root document again, a focus that finds nothing yields the
                     whole page, a focus in a nested frame maps the main document, and CSS through frames maps without
                     the frames' paths
    """

    include_frames: bool = True
    focus: str | None = None
    ignore: tuple[str, ...] = ()
    ordinals: Mapping[str, int] | None = None
    owners: Mapping[str, int] | None = None
    max_xpath_chars: int | None = 4096
    original_faults: bool = False


OUTLINE_OPTIONS = OutlineOptions()

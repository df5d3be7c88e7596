"""A payload that a page can do without is left out where it makes no sense, and the page is said to be without it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from schemas.capture import Capture, PayloadKind
from schemas.outcomes import Degradation
from workers.merge.errors import PayloadError
from workers.merge.payloads import (
    AX_DECODER,
    LISTENERS_DECODER,
    SNAPSHOT_DECODER,
    SUBTREE_DECODER,
    decode,
)

_DECODERS: Final[Mapping[PayloadKind, msgspec.json.Decoder[Any]]] = MappingProxyType(
    {
        "layout_snapshot": SNAPSHOT_DECODER,
        "ax_tree": AX_DECODER,
        "listeners": LISTENERS_DECODER,
        "dom_subtree": SUBTREE_DECODER,
    }
)
_DEGRADATIONS: Final[Mapping[PayloadKind, Degradation]] = MappingProxyType(
    {
        "layout_snapshot": "snapshot_failed",
        "listeners": "listeners_skipped",
        "dom_subtree": "depth_limited",
    }
)


def without_senseless(capture: Capture, kind: PayloadKind) -> tuple[Capture, Degradation] | None:
    """The capture without those payloads of a kind that make no sense, and how that is called.

    Where each of them looks right and one is wrong further in, all of them go. None for a kind that is needed.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        return None
    kept = []
    for payload in capture.payloads:
        if payload.kind == kind:
            try:
                decode(decoder, payload)
            except PayloadError:
                continue
        kept.append(payload)
    if len(kept) == len(capture.payloads):
        kept = [payload for payload in kept if payload.kind != kind]
    if kind == "ax_tree":
        return Capture(tuple(kept)), "ax_partial" if any(payload.kind == kind for payload in kept) else "ax_failed"
    return Capture(tuple(kept)), _DEGRADATIONS[kind]

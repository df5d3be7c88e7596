"""An outline and its agreement with the listing as columns of `listings` and rows of `outline_maps`."""

from __future__ import annotations

from hashlib import sha256

from schemas.outcomes import Degradation
from schemas.records import Row
from workers.serialize import outline as serializer
from workers.serialize.agreement import Agreement
from workers.serialize.outline import Outline


def outline_columns(outline: Outline) -> Row:
    """The columns of `listings` that come from the outline."""
    return {
        "outline": outline.text,
        "outline_sha256": sha256(outline.text.encode()).hexdigest(),
        "outline_serializer": serializer.NAME,
        "outline_serializer_version": serializer.VERSION,
    }


def agreement_columns(agreement: Agreement) -> Row:
    """The columns of `listings` that come from the agreement."""
    return {
        "agreement": agreement.score,
        "agreement_elements": agreement.actionable,
        "agreement_only_listing": agreement.only_listing,
        "agreement_only_outline": agreement.only_outline,
    }


def outline_map_rows(outline: Outline) -> tuple[list[Row], frozenset[Degradation]]:
    """The rows of `outline_maps`, one for each line of the outline, and what the outline did without."""
    rows, frames = outline.rows, outline.frames
    frame_ids = [frame.frame_id for frame in frames]
    targets = [frame.target for frame in frames]
    paths = [outline.xpath(row) for row in range(len(rows))]
    urls = outline.url_map
    made: list[Row] = [
        {
            "encoded_id": id_,
            "backend_node_id": backend_node_id,
            "target": targets[frame],
            "frame_id": frame_ids[frame],
            "depth": depth,
            "role": role,
            "name": name,
            "selected": selected,
            "checked": checked,
            "xpath": path,
            "xpath_truncated": truncated,
            "url": urls.get(id_),
        }
        for id_, backend_node_id, frame, depth, role, name, selected, checked, (path, truncated) in zip(
            rows.id,
            rows.backend_node_id,
            rows.frame,
            rows.depth,
            rows.role,
            rows.name,
            rows.selected,
            rows.checked,
            paths,
            strict=True,
        )
    ]
    without: set[Degradation] = set()
    if any(truncated for _, truncated in paths):
        without.add("xpath_truncated")
    if any(frame.status in ("owner_missing", "document_missing") for frame in frames):
        without.add("frame_lost")
    return made, frozenset(without)

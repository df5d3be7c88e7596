"""Everything that is made of a capture, as one text: for tests that compare captures, processes and orders."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys

from schemas.capture import Capture, Payload
from workers.merge import mask_secrets, merge
from workers.serialize.eval_listing import serialize_eval_listing
from workers.serialize.forged import looks_like_a_line
from workers.serialize.indices import final_tree
from workers.serialize.listing import serialize_listing
from workers.serialize.page_state import serialize_page_state
from workers.serialize.rows import listing_rows, text_of
from workers.serialize.why import FATES, Why


def everything(capture: Capture) -> str:
    """All texts, the selector map and every element's story. Raises PayloadError."""
    masked, fields = mask_secrets(capture)
    tree = merge(masked)
    final = final_tree(tree)
    listing = serialize_listing(tree, final=final)
    rows = listing_rows(final)
    assert text_of(rows) == listing.text
    look_alikes = sum(row.kind == "text" and looks_like_a_line(row.text) for row in rows)
    breaks = len(f"{listing.text}.".splitlines()) - 1
    assert listing.forged_lines == breaks - max(len(rows) - 1, 0) + look_alikes >= look_alikes
    why = Why(final, 40_000)
    nodes = (tree.kind == 1).nonzero()[0].tolist()
    stories = [why.story(node) for node in nodes]
    assert {story.fate for story in stories} <= set(FATES)
    covered = [node for node, story in zip(nodes, stories, strict=True) if story.fate == "covered"]
    assert all(final.painting.ignores(node) for node in covered)
    parts = [
        listing.text,
        repr(dataclasses.asdict(listing.selector_map)),
        repr(listing.stats),
        serialize_eval_listing(tree, final=final),
        serialize_page_state(tree, listing),
        json.dumps([row.as_json() for row in rows]),
        repr(stories),
        str(fields),
    ]
    return "\0".join(parts)


def digest_of(payloads: list[list[object]]) -> str:
    """The hash of everything about payloads given as [kind, target, text]."""
    capture = Capture(tuple(Payload(kind, str(text).encode(), target) for kind, target, text in payloads))  # type: ignore[arg-type]
    return hashlib.sha256(everything(capture).encode()).hexdigest()


if __name__ == "__main__":
    print(json.dumps([digest_of(payloads) for payloads in json.load(sys.stdin)]))

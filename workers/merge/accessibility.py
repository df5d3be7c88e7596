"""Accessibility nodes are decoded once, for the listing and the outline, and found by backend node id."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.capture import Capture, Payload
from workers.merge.columns import int64_column
from workers.merge.errors import PayloadError
from workers.merge.payloads import AX_DECODER, RAW_AX_DECODER, AxNode, RawAxNode, decode


@dataclass(frozen=True, slots=True)
class AxTree:
    """The accessibility nodes of one frame, and their backend node ids, NO_ID without."""

    nodes: list[AxNode]
    backend_node_id: NDArray[np.int64]


class AxTrees:
    """The accessibility nodes of a page, all frames of a target one after the other.

    whole      True decodes all that the outline needs of a node at once, False what the listing does; what the other
               one needs is there all the same, for a second decoding
    replaced   lone surrogates that were replaced
    """

    def __init__(self, capture: Capture, *, whole: bool) -> None:
        self.nodes: list[AxNode | RawAxNode] = []
        self.replaced = 0
        self._capture = capture
        self._whole = whole
        self._trees: dict[int, tuple[Payload, AxTree | None]] = {}

    def add(self, target: int) -> NDArray[np.int64]:
        """Decode the nodes of a target; their backend node ids, NO_ID without."""
        columns = [np.zeros(0, np.int64)]
        for payload in self._capture.of("ax_tree", target):
            tree, count = self._decode(payload) if self._whole else (None, 0)
            if tree is not None:
                self.nodes += tree.nodes
                columns.append(tree.backend_node_id)
            else:
                raw, count = decode(RAW_AX_DECODER, payload)
                self.nodes += raw.nodes
                columns.append(int64_column([node.backendDOMNodeId for node in raw.nodes]))
            self.replaced += count
        return np.concatenate(columns)

    def of(self, payload: Payload) -> AxTree | None:
        """The tree of a payload; None if something in it makes no sense to the outline."""
        known = self._trees.get(id(payload))
        return self._decode(payload)[0] if known is None else known[1]

    def _decode(self, payload: Payload) -> tuple[AxTree | None, int]:
        tree, count = None, 0
        with suppress(PayloadError):
            decoded, count = decode(AX_DECODER, payload)
            tree = AxTree(decoded.nodes, int64_column([node.backendDOMNodeId for node in decoded.nodes]))
        # with the payload, so that no other one gets its identity
        self._trees[id(payload)] = payload, tree
        return tree, count

"""Accessibility nodes are decoded once, for the listing and the outline, and found by backend node id."""

from __future__ import annotations

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

    replaced     lone surrogates that were replaced
    """

    def __init__(self, capture: Capture) -> None:
        self.nodes: list[AxNode | RawAxNode] = []
        self.replaced = 0
        self._trees: dict[int, tuple[Payload, AxTree | None]] = {}
        self._capture = capture

    def add(self, target: int) -> NDArray[np.int64]:
        """Decode the nodes of a target; their backend node ids, NO_ID without."""
        columns = [np.zeros(0, np.int64)]
        for payload in self._capture.of("ax_tree", target):
            found: list[AxNode] | list[RawAxNode]
            tree = None
            try:
                decoded, count = decode(AX_DECODER, payload)
                found = decoded.nodes
                columns.append(int64_column([node.backendDOMNodeId for node in found]))
                tree = AxTree(decoded.nodes, columns[-1])
            except PayloadError:
                raw, count = decode(RAW_AX_DECODER, payload)
                found = raw.nodes
                columns.append(int64_column([node.backendDOMNodeId for node in found]))
            self._trees[id(payload)] = payload, tree
            self.nodes += found
            self.replaced += count
        return np.concatenate(columns)

    def of(self, payload: Payload) -> AxTree | None:
        """The tree of a payload; None where something makes no sense in it, or it is none of this page."""
        known = self._trees.get(id(payload))
        return None if known is None else known[1]

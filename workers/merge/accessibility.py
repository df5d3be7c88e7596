"""Accessibility nodes are found by backend node id; what they say is decoded only when somebody asks for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from schemas.capture import Capture
from workers.merge.columns import int64_column
from workers.merge.payloads import AX_DECODER, RawAxNode, decode


def ax_nodes(capture: Capture, target: int) -> tuple[list[RawAxNode], NDArray[np.int64], int]:
    """The nodes of all frames of a target, their backend node ids (0 without), surrogates replaced."""
    nodes: list[RawAxNode] = []
    replaced = 0
    for payload in capture.of("ax_tree", target):
        decoded, count = decode(AX_DECODER, payload)
        nodes += decoded.nodes
        replaced += count
    return nodes, int64_column([node.backendDOMNodeId for node in nodes]), replaced

"""Accessibility nodes are found by backend node id; one is decoded only when somebody asks for it."""

from __future__ import annotations

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from schemas.capture import Capture
from workers.merge.errors import PayloadError
from workers.merge.payloads import AX_DECODER, AX_HEAD_DECODER, decode


def ax_nodes(capture: Capture, target: int) -> tuple[list[Raw], NDArray[np.int64], int]:
    """The undecoded nodes of all frames of a target, their backend node ids (0 without), surrogates replaced."""
    nodes: list[Raw] = []
    replaced = 0
    for payload in capture.of("ax_tree", target):
        decoded, count = decode(AX_DECODER, payload)
        nodes += decoded.nodes
        replaced += count
    head = AX_HEAD_DECODER.decode
    try:
        ids = np.fromiter((head(node).backendDOMNodeId for node in nodes), np.int64, len(nodes))
    except ValueError as error:  # msgspec's errors are ValueErrors
        raise PayloadError("ax_tree", "nodes[].backendDOMNodeId", str(error)) from error
    return nodes, ids, replaced

"""Lists of numbers become NumPy columns by way of `array`, which converts them several times faster."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray


def int32_column(values: list[int]) -> NDArray[np.int32]:
    """A column of numbers that are known to fit."""
    return np.frombuffer(array("i", values), np.int32)


def int64_column(values: list[int]) -> NDArray[np.int64]:
    """A column of 64-bit numbers; OverflowError if one does not fit."""
    return np.frombuffer(array("q", values), np.int64)


def float_column(values: list[float]) -> NDArray[np.float64]:
    """A column of floats."""
    return np.frombuffer(array("d", values), np.float64)

"""Arrays of bfloat16, which numpy does not have."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from atcpy.ir.tensor import Array

BF16 = ml_dtypes.bfloat16


def rounded(array: Array, dtype: type = np.float32) -> Array:
    """The nearest numbers that bfloat16 holds, halves to even, in a wider type."""
    result: Array = array.astype(BF16).astype(dtype)
    return result

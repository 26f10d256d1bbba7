"""Powers by constants of every type: what is made cheaper, and what is left as it is."""

from __future__ import annotations

import numpy as np
import pytest

import atcpy
from atcpy.ir import DType
from tests.models_in_text import package

X = np.array([0.5, 1.0, 2.0, 4.0], np.float32)


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64, DType.INT8, DType.INT32])
@pytest.mark.parametrize("power", [0, 1, 2, 3])
def test_a_power_of_an_integer_type(dtype: DType, power: int) -> None:
    compiled = package(f"m (float[4] x) => (float[4] y) <{dtype.long}[1] p = {{{power}}}> {{ y = Pow(x, p) }}")
    (y,) = atcpy.InferenceSession(compiled).run(None, {"x": X})
    np.testing.assert_allclose(y, X**power, rtol=1e-6)


def test_a_power_below_zero_is_a_reciprocal() -> None:
    compiled = package("m (float[4] x) => (float[4] y) <int32[1] p = {-1}> { y = Pow(x, p) }")
    (y,) = atcpy.InferenceSession(compiled).run(None, {"x": X})
    np.testing.assert_array_equal(y, 1 / X)

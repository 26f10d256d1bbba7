"""TopK against the ONNX reference, which sorts: NaN is the largest, and ties keep their order."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import LOOP_ISAS
from tests.ops.exact import assert_same

NUMBERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32,
           np.float64, ml_dtypes.bfloat16]  # fmt: skip


def run(x: Array, k: int, axis: int, largest: bool, isa: str | None = None) -> None:
    arrays = [x, np.array([k])]
    node = make_node("TopK", arrays, {"axis": axis, "largest": int(largest)}, constants=(1,), outputs=2)
    assert_same(run_op(node, arrays, isa=isa, threads=2), reference_op(node, arrays))


@pytest.mark.parametrize("isa", LOOP_ISAS)
@settings(max_examples=trials(100))
@given(shape=st.lists(st.integers(1, 9), min_size=1, max_size=4), axis=st.integers(-4, 3), k=st.integers(0, 9),
       largest=st.booleans(), dtype=st.sampled_from(NUMBERS), few=st.booleans(), seed=st.integers(0, 999))  # fmt: skip
def test_agrees_with_the_reference(
    isa: str, shape: list[int], axis: int, k: int, largest: bool, dtype: type, few: bool, seed: int
) -> None:
    axis = axis % len(shape) - len(shape)
    x = np.random.default_rng(seed).integers(-2 if few else -100, 3 if few else 100, shape).astype(dtype)
    run(x, min(k, shape[axis]), axis, largest, isa)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_zeros_and_infinities(dtype: type, largest: bool) -> None:
    x = np.array([0.0, np.nan, -0.0, np.inf, -np.inf, 0.0, np.nan, 1e-7, -1.0], dtype)
    for k in (1, 3, 9):
        run(x, k, 0, largest)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("values", ["random", "few", "ascending", "nan"])
@pytest.mark.parametrize("k", [1, 50, 156, 157, 1250, 1251, 4999, 5000])
def test_long_lanes(k: int, values: str, largest: bool, isa: str) -> None:
    """Runs whose largest element is not good enough are passed over, if there are k of them; all is sorted for many."""
    x = np.random.default_rng(1).standard_normal((3, 5000)).astype(np.float32)
    if values == "few":
        x = np.round(x)
    elif values == "ascending":
        x = np.sort(x, 1)
    elif values == "nan":
        x[:, ::97] = np.nan
    run(x, k, 1, largest, isa)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_long_lanes_of_every_type(dtype: type, axis: int, largest: bool, isa: str) -> None:
    """Above 4096 elements keys are computed as they are needed."""
    rng = np.random.default_rng(3)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, (2, 4133), dtype, endpoint=True)
    else:
        x = rng.standard_normal((2, 4133)).astype(dtype)
        x[:, 5:8] = np.array([-0.0, -np.inf, np.inf]).astype(dtype)
        if dtype is not ml_dtypes.bfloat16:  # whose NaN numpy does not sort
            x[:, 8] = np.nan
    run(x if axis == 1 else x.T.copy(), 40, axis, largest, isa)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.uint64])
def test_lanes_side_by_side(dtype: type, largest: bool, isa: str) -> None:
    """Few elements of lanes that lie side by side, of more than one block of lanes, with ties and both ends."""
    x = np.random.default_rng(4).integers(0, 9, (2, 20, 77)).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        x[x == 8] = np.iinfo(dtype).max
    else:
        x[x == 8], x[x == 7], x[:, 3] = np.nan, -np.inf, -0.0
    for k in range(1, 10):
        run(x, k, 1, largest, isa)
    for columns in (7, 8, 33):
        run(x[0, :, :columns].copy(), 5, 0, largest, isa)

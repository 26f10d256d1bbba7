"""Clip with constant, absent and computed bounds."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.ir.tensor import Array
from tests.harness import make_node, reference_op, run_op
from tests.isa import ISAS

X = np.array([[-3, -1, 0, 1, 2, 3, 5, 9, -7, 4, 4, 4, 1, 0, 7, 8, 6, -2, 3]], np.float32)
BOUNDS = [(-1, 4), (None, 2), (0, None), (None, None), (5, 2)]


def as_bound(value: int | None, dtype: type) -> Array | None:
    return None if value is None else np.array(value, dtype)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_bounds(low: int | None, high: int | None, dtype: type, constant: bool, isa: str) -> None:
    arrays = [X.astype(dtype), as_bound(low, dtype), as_bound(high, dtype)]
    node = make_node("Clip", arrays, constants=[1, 2] if constant else [])
    np.testing.assert_array_equal(run_op(node, arrays, isa=isa)[0], reference_op(node, arrays)[0])


def test_large_unsigned_bounds() -> None:
    x = np.array([0, 5, 2**63, 2**64 - 1], np.uint64)
    arrays = [x, np.array(1, np.uint64), np.array(2**63 + 1, np.uint64)]
    node = make_node("Clip", arrays, constants=[1, 2])
    np.testing.assert_array_equal(run_op(node, arrays)[0], np.array([1, 5, 2**63, 2**63 + 1], np.uint64))


@pytest.mark.parametrize("isa", ISAS)
def test_nan_propagates(isa: str) -> None:
    arrays = [np.full(17, np.nan, np.float32), as_bound(0, np.float32), as_bound(6, np.float32)]
    assert np.isnan(run_op(make_node("Clip", arrays, constants=[1, 2]), arrays, isa=isa)[0]).all()


@pytest.mark.parametrize("constant", [True, False])
def test_blocks_of_channels(constant: bool) -> None:
    x = np.random.default_rng(0).normal(0, 3, (1, 5, 2, 3)).astype(np.float32)
    arrays = [x, as_bound(0, np.float32), as_bound(6, np.float32)]
    node = make_node("Clip", arrays, constants=[1, 2] if constant else [])
    np.testing.assert_array_equal(run_op(node, arrays, blocked=True)[0], x.clip(0, 6))
    assert node.output.desc.storage_shape == (1, 1, 2, 3, 16)

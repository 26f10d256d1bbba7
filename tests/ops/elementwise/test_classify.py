"""IsNaN and IsInf on every bit pattern of the small dtypes and on the edge cases of the large ones."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.ir import DType
from atcpy.ir.tensor import Array
from tests.harness import make_node, rejections, run_op
from tests.isa import LOOP_ISAS

DTYPES = [
    DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ,
    DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ,
]  # fmt: skip


def samples(dtype: DType) -> Array:
    if dtype.bits <= 16:
        return np.arange(1 << dtype.bits, dtype=f"u{dtype.bits // 8}").view(dtype.numpy)
    limits = np.finfo(dtype.numpy)
    special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, limits.max, limits.min, limits.tiny, 1.5]
    signalling = (np.array(special[2:4], dtype.numpy).view(f"u{dtype.bits // 8}") + 1).view(dtype.numpy)
    return np.concatenate([np.array(special * 5, dtype.numpy), signalling])


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.short)
def test_each_bit_pattern(dtype: DType, isa: str) -> None:
    x = samples(dtype)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    np.testing.assert_array_equal(run_op(make_node("IsNaN", [x]), [x], isa=isa)[0], np.isnan(wide))
    for negative in (0, 1):
        for positive in (0, 1):
            node = make_node("IsInf", [x], {"detect_negative": negative, "detect_positive": positive})
            expected = ((wide == -np.inf) & bool(negative)) | ((wide == np.inf) & bool(positive))
            np.testing.assert_array_equal(run_op(node, [x], isa=isa)[0], expected)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (3 * (1 << 14) + 5,)], ids=str)
def test_sizes(shape: tuple[int, ...], isa: str) -> None:
    x = np.full(shape, np.nan, np.float32)
    node = make_node("IsNaN", [x])
    assert node.output.desc.dtype is DType.BOOL
    np.testing.assert_array_equal(run_op(node, [x], isa=isa, threads=2)[0], np.ones(shape, np.bool_))


def test_blocks_of_channels() -> None:
    x = np.random.default_rng(0).choice([np.nan, 1.0, np.inf], (2, 5, 3, 2)).astype(np.float32)
    node = make_node("IsNaN", [x])
    np.testing.assert_array_equal(run_op(node, [x], blocked=True)[0], np.isnan(x))
    assert node.output.desc.storage_shape == (2, 1, 3, 2, 16)


def test_integers_are_never_nan_or_infinite() -> None:
    node = make_node("IsNaN", [np.zeros(3, np.float32)])
    node.operand(0).desc = node.operand(0).desc.plain(DType.INT32, (3,))
    assert rejections(node) == ["dtype"]

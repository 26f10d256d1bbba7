"""QLinearAdd and QLinearMul against DequantizeLinear, the op and QuantizeLinear in numpy; ByteTable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir import Node, Reject
from atcpy.ir.tensor import Array
from atcpy.ops.quant.qelementwise import supports_qbinary, supports_table
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import ISAS, LOOP_ISAS

TYPES = st.sampled_from(["u1", "i1"])
SHAPES = [
    ((3, 5), (3, 5)), ((2, 3, 17), (3, 1)), ((65,), ()), ((4, 1), (1, 33)), ((1, 20, 3, 3), (1, 20, 3, 3)),
    ((0,), (1,)),
    # Rows that one operand has again and again, side by side or, from 513 bytes on, by themselves.
    ((2, 20, 9, 11), (1, 20, 1, 1)), ((1, 40, 1, 1), (1, 40, 5, 5)), ((1, 16, 1, 1), (2, 16, 1, 3)), ((70, 3), (3,)),
    ((5, 512), (512,)), ((513,), (5, 513)), ((1024, 2), (2,)), ((4, 16), (4, 1)),
]  # fmt: skip


def microsoft(op_type: str, arrays: list[Array | None]) -> Node:
    """A node of ONNX Runtime's domain."""
    return make_node(op_type, arrays, domain="com.microsoft")


def every_byte(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@settings(max_examples=trials(60), deadline=None)
@given(
    shapes=st.sampled_from(SHAPES),
    types=st.tuples(TYPES, TYPES, TYPES), op=st.sampled_from(["Add", "Mul"]), zeros=st.booleans(),
    step=st.sampled_from([0.25, 2.0, 0.3]), blocked=st.booleans(), threads=st.sampled_from([1, 3]),
)  # fmt: skip
def test_rounds_as_the_unfused_ops(
    isa: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], types: tuple[str, str, str], op: str, zeros: bool,
    step: float, blocked: bool, threads: int,
) -> None:  # fmt: skip
    a, b = (every_byte(shape, dtype, seed) for seed, (shape, dtype) in enumerate(zip(shapes, types, strict=False)))
    a_scale, b_scale, y_scale = np.float32(0.5), np.float32(0.25), np.float32(step)
    a_zero, b_zero, y_zero = (np.array(zero, dtype) for zero, dtype in zip((100, 3, 77), types, strict=True))
    arrays: list[Array | None] = [
        a, np.asarray(a_scale), a_zero if zeros else None, b, np.asarray(b_scale), b_zero, np.asarray(y_scale), y_zero,
    ]  # fmt: skip
    left = (a.astype(np.int32) - (a_zero if zeros else 0)).astype(np.float32) * a_scale
    right = (b.astype(np.int32) - b_zero).astype(np.float32) * b_scale
    total = left + right if op == "Add" else left * right
    info = np.iinfo(types[2])
    expected = np.clip(np.rint(total / y_scale) + y_zero.astype(np.float32), info.min, info.max).astype(types[2])
    node = microsoft(f"QLinear{op}", arrays)
    ours = run_op(node, arrays, isa=isa, blocked=blocked and a.ndim == 4, threads=threads)[0]
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("dtype", ["u1", "i1"])
@pytest.mark.parametrize("op", ["Add", "Mul"])
@pytest.mark.parametrize("y_scale", [1e-42, 1e-30, 1e-3, -0.5, 1e30, np.inf, np.nan, 0.0])
def test_saturates_as_the_scalar_row(y_scale: float, op: str, dtype: str, isa: str) -> None:
    zero = np.array(100, dtype)
    for n, single in ((31, False), (32, True), (97, False), (97, True)):
        a, b = every_byte((n,), dtype, 1), every_byte((1 if single else n,), dtype, 2)
        for scale in (0.5, 3e38):
            step = np.array(scale, np.float32)
            arrays: list[Array | None] = [a, step, zero, b, step, None, np.array(y_scale, np.float32), zero]
            node = microsoft(f"QLinear{op}", arrays)
            expected = run_op(node, arrays, isa="scalar")[0]
            np.testing.assert_array_equal(run_op(node, arrays, isa=isa)[0], expected)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["u1", "i1"])
@pytest.mark.parametrize("n", [1, 31, 32, 63, 64, 129, 21000])
def test_byte_table_maps_every_byte(isa: str, dtype: str, n: int) -> None:
    x = every_byte((n,), dtype, 1)
    table = np.random.default_rng(2).permutation(256).astype(np.uint8)
    ours = run_op(make_node("ByteTable", [x, table], constants=[1]), [x, table], isa=isa, threads=2)[0]
    np.testing.assert_array_equal(ours, table[x.view(np.uint8)])


def test_each_rejection_has_its_reason() -> None:
    one, zero, x = np.ones((), np.float32), np.zeros((), np.uint8), np.zeros((2, 2), np.uint8)
    scales = np.ones(2, np.float32)
    node = microsoft("QLinearAdd", [x, scales, zero, x.astype(np.int16), one, None, one.astype(np.float16), zero])
    reasons = [reject.reason for reject in supports_qbinary(node)]
    assert reasons == ["dtype", "not-per-tensor", "scale-dtype"]
    wide = make_node("ByteTable", [x.astype(np.uint16), np.zeros(256, np.uint8)])
    assert list(supports_table(wide)) == [Reject("dtype", "ByteTable", "uint16")]

"""Elementwise ops with broadcasting: each row against the ONNX reference, plain and in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import AtcError, ModelInvalid
from atcpy.ir import NC1HWC0, ND, DType, Reject, Sym, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.ops import find_opdef
from atcpy.ops.core.broadcast import collapse, memory_strides
from atcpy.ops.core.reference import infer_by_onnx, known_constant
from atcpy.ops.core.shape_values import UNNAMED
from atcpy.ops.elementwise.binary import infer_prelu
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import ISAS

ARITHMETIC = ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "PRelu"]
COMPARISONS = ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]
DIVISION_BY_ZERO = 2  # FAULT_DIVISION_BY_ZERO of csrc/core/kernel.h
SIZES = [0, 1, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33]


@st.composite
def broadcasts(draw: st.DrawFn, *, one_way: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast, the second to the first if `one_way`."""
    target = draw(st.lists(st.sampled_from(SIZES), max_size=4))

    def narrowed() -> tuple[int, ...]:
        dims = [dim if draw(st.booleans()) else 1 for dim in target]
        return tuple(dims[draw(st.integers(0, len(dims))) if all(dim == 1 for dim in dims) else 0 :])

    return tuple(target) if one_way or draw(st.booleans()) else narrowed(), narrowed()


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> Array:
    if dtype is np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        return rng.normal(0, 2, shape).round(1).astype(dtype)
    low = 0 if np.dtype(dtype).kind == "u" else -6
    return rng.integers(low, 7, shape).astype(dtype)


def check(op: str, arrays: list[Array], isa: str, **attrs: object) -> None:
    node = make_node(op, arrays, attrs)
    with np.errstate(all="ignore"):
        expected = reference_op(node, arrays)[0]
    ours = run_op(node, arrays, isa=isa, threads=2)[0]
    assert ours.shape == expected.shape
    np.testing.assert_allclose(ours, expected, rtol=3e-7, atol=0)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS)
@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float32, np.float64]), seed=st.integers(0, 2**32))
@settings(max_examples=trials(15))
def test_floats(op: str, isa: str, data: st.DataObject, dtype: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = data.draw(broadcasts(one_way=op == "PRelu"))
    check(op, [values(rng, shape, dtype) for shape in shapes], isa)


INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", *COMPARISONS, "BitwiseAnd"])
@given(shapes=broadcasts(), dtype=st.sampled_from(INTEGERS), seed=st.integers(0, 2**32))
@settings(max_examples=trials(10))
def test_integers(op: str, shapes: tuple[tuple[int, ...], ...], dtype: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (values(rng, shape, dtype) for shape in shapes)
    if op in {"Div", "Mod"}:
        b = np.where(b == 0, b.dtype.type(3), b)
    check(op, [a, b], "scalar")


@pytest.mark.parametrize("op", ["And", "Or", "Xor", "Equal"])
@given(shapes=broadcasts(), seed=st.integers(0, 2**32))
@settings(max_examples=trials(8))
def test_logical_ops(op: str, shapes: tuple[tuple[int, ...], ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    check(op, [values(rng, shape, np.bool_) for shape in shapes], "scalar")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64], ids=lambda dtype: dtype.__name__)
def test_fmod_has_the_sign_of_the_dividend(dtype: type) -> None:
    a, b = np.array([7, -7, 7, -7], dtype), np.array([3, 3, -3, -3], dtype)
    node = make_node("Mod", [a, b], {"fmod": 1})
    np.testing.assert_array_equal(run_op(node, [a, b])[0], np.array([1, -1, 1, -1], dtype))


def test_fmod_is_exact_whatever_the_quotient() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, (2, 20_000), dtype=np.uint32).view(np.float32)  # all magnitudes, NaN and infinities
    near = (rng.integers(-9999, 9999, 20_000) * 0.1).astype(np.float32)  # quotients close to whole numbers
    a = np.concatenate([bits[0], near, np.array([2**27, -(2**27), 5, -5, 0.0, -0.0, 5], np.float32)])
    b = np.concatenate(
        [bits[1], np.full(20_000, 0.1, np.float32), np.array([0.75, 1.25, np.inf, -np.inf, 2, 2, 0], "f4")]
    )
    with np.errstate(invalid="ignore"):
        expected = np.fmod(a, b)
    (ours,) = run_op(make_node("Mod", [a, b], {"fmod": 1}), [a, b])
    np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(np.signbit(ours), np.signbit(np.where(np.isnan(ours), ours, expected)))


@pytest.mark.parametrize("dtype", INTEGERS[:4], ids=lambda dtype: dtype.__name__)
def test_the_lowest_integer_divided_by_minus_one_wraps(dtype: type) -> None:
    a, b = np.array([np.iinfo(dtype).min], dtype), np.array([-1], dtype)
    np.testing.assert_array_equal(run_op(make_node("Div", [a, b]), [a, b])[0], a)
    np.testing.assert_array_equal(run_op(make_node("Mod", [a, b]), [a, b])[0], [0])


@pytest.mark.parametrize(("op", "a", "b"), [("Div", 5, 0), ("Mod", 5, 0)])
def test_division_by_zero_is_reported(op: str, a: int, b: int) -> None:
    arrays = [np.array([1, a], np.int32), np.array([2, b], np.int32)]
    with pytest.raises(_kernels.Fault) as caught:
        run_op(make_node(op, arrays), arrays)
    assert caught.value.args[1] == DIVISION_BY_ZERO


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@given(shapes=broadcasts(), dtype=st.sampled_from(INTEGERS), seed=st.integers(0, 2**32))
@settings(max_examples=trials(40))
def test_shifts(direction: str, shapes: tuple[tuple[int, ...], ...], dtype: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    a = rng.integers(limits.min, limits.max, shapes[0], dtype, endpoint=True)
    b = rng.integers(max(-3, limits.min), limits.bits + 3, shapes[1]).astype(dtype)
    check("BitShift", [a, b], "scalar", direction=direction)


def test_a_shift_without_direction_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="direction"):
        run_op(make_node("BitShift", [np.array([1], np.uint8)] * 2), [np.array([1], np.uint8)] * 2)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0, 1e-40], np.float32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", *COMPARISONS])
def test_special_values(op: str, isa: str) -> None:
    check(op, [SPECIAL.reshape(-1, 1).repeat(9, 1)[:, :8], SPECIAL], isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("op", ["Sum", "Max", "Min"])
def test_variadic_ops(op: str, count: int, isa: str) -> None:
    rng = np.random.default_rng(count)
    shapes = [(3, 1), (2, 1, 5), (5,), (3, 5), ()]
    arrays = [values(rng, shape, np.float32) for shape in shapes[:count]]
    check(op, arrays, isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_mean(count: int, isa: str) -> None:
    rng = np.random.default_rng(count)
    arrays = [values(rng, shape, np.float32) for shape in [(3, 1), (2, 1, 5), (5,)][:count]]
    ours = run_op(make_node("Mean", arrays), arrays, isa=isa)[0]
    np.testing.assert_allclose(ours, sum(arrays) / count, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("isa", ISAS)
def test_long_rows_in_several_work_items(isa: str) -> None:
    rng = np.random.default_rng(1)
    arrays = [values(rng, (3, 20001), np.float32), values(rng, (3, 1), np.float32)]
    check("Mul", arrays, isa)
    check("Less", arrays, isa)
    check("Add", [values(rng, (2000, 1, 9), np.float32), values(rng, (2, 9), np.float32)], isa)


C_SHAPES = [(2, 19, 3, 5), (2, 19, 1, 1), (1, 19, 1, 1), (1, 19, 3, 5), (1, 1, 1, 1)]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op", ["Sub", "PRelu", "Less"])
@pytest.mark.parametrize("cols", [1, 2, 3, 7, 8, 15, 16, 31, 32])
def test_many_short_rows(cols: int, op: str, isa: str) -> None:
    """Rows of few elements beside one that is repeated, one number a row, or others that lie together."""
    whole, rng = (5, 300, cols), np.random.default_rng(cols)
    for shape in [whole, (cols,), (300, 1), (5, 1, cols), (5, 300, 1), (5, 1, 1), ()]:
        arrays = [values(rng, whole, np.float32), values(rng, shape, np.float32)]
        arrays[0][1, :3] = np.nan
        check(op, arrays, isa)
        if op != "PRelu":
            check(op, arrays[::-1], isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op", ["Add", "PRelu", "Less"])
@pytest.mark.parametrize("shape", C_SHAPES, ids=str)
def test_blocks_of_channels(shape: tuple[int, ...], op: str, isa: str) -> None:
    rng = np.random.default_rng(5)
    arrays = [values(rng, (2, 19, 3, 5), np.float32), values(rng, shape, np.float32)]
    node = make_node(op, arrays)
    ours = run_op(node, arrays, blocked=True, isa=isa)[0]
    assert node.output.desc.storage_shape == (2, 2, 3, 5, 16)
    np.testing.assert_array_equal(ours, reference_op(node, arrays)[0])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", [(), (1,), (19, 1, 1), (1, 19, 1, 1), (19, 3, 5), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("input_index", [0, 1])
def test_constants_beside_blocks(shape: tuple[int, ...], input_index: int, isa: str) -> None:
    rng = np.random.default_rng(6)
    arrays = [values(rng, (2, 19, 3, 5), np.float32)]
    arrays.insert(input_index, values(rng, shape, np.float32))
    node = make_node("Sub", arrays, constants=[input_index])
    ours = run_op(node, arrays, blocked=True, isa=isa)[0]
    assert node.output.desc.storage_shape == (2, 2, 3, 5, 16)
    np.testing.assert_array_equal(ours, reference_op(node, arrays)[0])


@pytest.mark.parametrize(
    ("op", "shape", "dtype", "reason"),
    [
        ("Add", (2, 1, 3, 5), np.float32, "channel-axis"),
        ("Add", (3, 5), np.float32, "channel-axis"),
        ("Div", (2, 19, 3, 5), np.int32, "integer-division"),
    ],
)
def test_reasons_against_blocks(op: str, shape: tuple[int, ...], dtype: type, reason: str) -> None:
    node = make_node(op, [np.ones((2, 19, 3, 5), dtype), np.ones(shape, dtype)])
    opdef = find_opdef(node)
    assert opdef is not None and opdef.layout is not None
    layout = opdef.layout(node, (NC1HWC0, ND))
    assert isinstance(layout, Reject) and layout.reason == reason


def test_an_op_without_blocked_inputs_stays_plain() -> None:
    node = make_node("Add", [np.ones((2, 19, 3, 5), np.float32)] * 2)
    opdef = find_opdef(node)
    assert opdef is not None and opdef.layout is not None
    layout = opdef.layout(node, (ND, ND))
    assert isinstance(layout, Reject) and layout.reason == "no-blocked-input"


def test_dims_collapse() -> None:
    full, vector = (2, 3, 4, 5, 16), (3, 1, 1, 16)
    strides = [memory_strides(full, full), memory_strides(vector, full)]
    assert collapse(full, strides) == ([2, 3, 20, 16], [[960, 320, 16, 1], [0, 16, 0, 1]])
    assert collapse((1, 1), [[0, 0], [0, 0]]) == ([1], [[0], [0]])


BOTH: list[Dim] = [1, 4, Sym("n")]


@pytest.mark.parametrize("a", BOTH, ids=str)
@pytest.mark.parametrize("b", BOTH, ids=str)
@pytest.mark.parametrize("op", ["Add", "Less", "Max"])
def test_supported_types_are_those_of_onnx(op: str, a: Dim, b: Dim) -> None:
    node = make_node(op, [np.zeros((2, 1)), np.zeros((3, 1, 4))])
    node.operand(0).desc = TensorDesc.plain(DType.FLOAT64, (2, a))
    node.operand(1).desc = TensorDesc.plain(DType.FLOAT64, (3, 1, b))
    opdef = find_opdef(node)
    assert opdef is not None and opdef.infer is not None
    assert opdef.infer(node, known_constant) == infer_by_onnx(node, known_constant)


@pytest.mark.parametrize(
    ("op", "shapes", "dtypes"),
    [
        ("Add", [(2, 3), (2, 4)], [np.float32, np.float32]),
        ("Add", [(2, 3), (2, 3)], [np.float32, np.float64]),
        ("PRelu", [(3,), (2, 3)], [np.float32, np.float32]),
        ("PRelu", [(2, 1), (2, 3)], [np.float32, np.float32]),
    ],
)
def test_operands_that_do_not_broadcast_are_refused(op: str, shapes: list[tuple[int, ...]], dtypes: list[type]) -> None:
    with pytest.raises(ModelInvalid) as caught:
        make_node(op, [np.zeros(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)])
    assert isinstance(caught.value, AtcError) and caught.value.code == "EZ8888"


def test_a_slope_of_symbolic_sizes() -> None:
    """A symbolic dim that is 1 in the input may also be 1 in the slope."""
    node = make_node("PRelu", [np.zeros((1, 3)), np.zeros((1, 3))])
    node.operand(1).desc = TensorDesc.plain(DType.FLOAT64, (Sym("n"), Sym("m")))
    assert infer_prelu(node, known_constant)[0].shape == (1, 3)


BATCH = Sym("batch")


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("Add", (BATCH, 2), (1, 3), (Sym("(batch+1)"), 5)),
        ("Add", (BATCH,), (0,), (BATCH,)),
        ("Sub", (BATCH, 9), (BATCH, 4), (0, 5)),
        ("Mul", (BATCH, 3), (1,), (BATCH, 3)),
        ("Mul", (BATCH,), (4,), (Sym("(batch*4)"),)),
        ("Div", (BATCH, -7), (1, 2), (BATCH, -3)),
        ("Div", (BATCH,), (0,), (UNNAMED,)),
        ("Equal", (BATCH, 3, -1), (-1, 3, -1), (0, 1, 1)),
        ("Max", (BATCH, 4), (5,), (UNNAMED, 5)),
        ("Less", (2, 3), (3,), (1, 0)),
    ],
)
def test_shape_arithmetic(op: str, a: tuple[Dim, ...], b: tuple[Dim, ...], expected: tuple[Dim, ...] | None) -> None:
    node = make_node(op, [np.zeros(len(a), np.int64), np.zeros(len(b), np.int64)])
    opdef = find_opdef(node)
    assert opdef is not None and opdef.propagate is not None
    elements = dict(zip(node.operands, (a, b), strict=True))
    assert opdef.propagate(node, lambda value: None if value is None else elements[value]) == expected


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_an_integer_division_by_a_constant_zero_is_refused(op: str) -> None:
    with pytest.raises(ModelInvalid, match="zero"):
        make_node(op, [np.array([1, 2]), np.array([1, 0])], constants=[1])


def test_folded_integer_division_truncates() -> None:
    node = make_node("Div", [np.array([-7]), np.array([2])], constants=[0, 1])
    opdef = find_opdef(node)
    assert opdef is not None and opdef.evaluate is not None
    np.testing.assert_array_equal(opdef.evaluate(node, [np.array([-7]), np.array([2])])[0], [-3])

"""Reductions, ArgMax, ArgMin and the global pools: every row against the ONNX reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, TensorDesc
from atcpy.ir.shape import Sym
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.core.reference import infer_by_onnx, known_constant
from atcpy.ops.reduce.reduce import GLOBAL_POOLS, REDUCTIONS, MergedDims, merge_dims
from tests.effort import trials
from tests.harness import make_node, reference_op, rejections, run_op
from tests.isa import ISAS

FLOAT_ONLY = {"ReduceLogSum", "ReduceLogSumExp"}
DIMS = st.sampled_from([1, 2, 3, 5, 7, 15, 16, 17, 33, 70])
FEW = st.sampled_from([1, 2, 3])


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape of up to six dims, and some of its axes."""
    rank = draw(st.integers(0, 6))
    large = draw(st.sets(st.integers(0, 5), max_size=2))
    shape = tuple(draw(DIMS if axis in large else FEW) for axis in range(rank))
    axes = draw(st.sets(st.integers(0, rank - 1))) if rank else set()
    signed = tuple(axis - rank if draw(st.booleans()) else axis for axis in sorted(axes))
    return shape, signed


SIGNS = st.sampled_from([(1,), (-1,), (-1, 1)])


def inputs(
    shape: tuple[int, ...], axes: tuple[int, ...] | None, dtype: str, signs: tuple[int, ...] = (1,)
) -> list[Array | None]:
    """Numbers around 1, by default positive, so that logarithms of their sums are defined."""
    rng = np.random.default_rng(0)
    x = (
        (rng.uniform(0.5, 1.5, shape) * rng.choice(signs, shape)).astype(dtype)
        if dtype[0] == "f"
        else rng.integers(0 if dtype[0] == "u" else -9, 9, shape).astype(dtype)
    )
    return [np.asarray(x), None if axes is None else np.array(axes, np.int64)]


def check(op_type: str, arrays: list[Array | None], attrs: dict[str, object], isa: str, *, blocked: bool) -> None:
    """Assert that our result agrees with the reference in float64."""
    node = make_node(op_type, arrays, attrs, constants=(1,))
    x = arrays[0]
    assert x is not None
    exact = np.asarray(x, "f8") if x.dtype.kind == "f" else x
    expected = reference_op(make_node(op_type, [exact, *arrays[1:]], attrs), [exact, *arrays[1:]])[0]
    ours = run_op(node, arrays, isa=isa, threads=2, blocked=blocked)[0]
    assert ours.dtype == (np.int64 if op_type.startswith("Arg") else x.dtype)
    eps = 1e-6 if x.dtype == np.float32 else 1e-13
    scale = 1.0  # results that cancel: logarithms near 0, and sums of both signs
    if op_type in {"ReduceSum", "ReduceMean"} and (exact < 0).any():
        sums = reference_op(make_node(op_type, [np.abs(exact), *arrays[1:]], attrs), [np.abs(exact), *arrays[1:]])[0]
        scale = max(1.0, float(np.max(sums, initial=0)))
    np.testing.assert_allclose(ours, expected, rtol=eps, atol=eps * scale)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(200))
@given(
    op_type=st.sampled_from(sorted(REDUCTIONS)), case=shapes(), keepdims=st.integers(0, 1), noop=st.integers(0, 1),
    dtype=st.sampled_from(["f4", "f4", "f4", "f8", "i4", "i8", "u4", "u8"]), signs=SIGNS,
)  # fmt: skip
def test_agrees_with_the_reference(
    isa: str, op_type: str, case: tuple[tuple[int, ...], tuple[int, ...]], keepdims: int, noop: int, dtype: str,
    signs: tuple[int, ...],
) -> None:  # fmt: skip
    shape, axes = case
    if dtype[0] in "iu" and op_type in FLOAT_ONLY:
        dtype = "f4"
    if op_type == "ReduceLogSumExp":
        shape = shape or (1,)  # the reference does not support scalars
    arrays = inputs(shape, axes or None, dtype, (1,) if op_type == "ReduceLogSum" else signs)
    if dtype[0] == "f" and op_type == "ReduceProd" and (x := arrays[0]) is not None:
        arrays[0] = (np.sign(x) * np.exp((np.abs(x) - 1) / max(1, x.size) ** 0.5)).astype(dtype)
    check(op_type, arrays, {"keepdims": keepdims, "noop_with_empty_axes": noop}, isa, blocked=False)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60))
@given(
    op_type=st.sampled_from(sorted(REDUCTIONS)), axes=st.sampled_from([(2, 3), (0, 2, 3), (-1,), (2,), (0,), (0, 3)]),
    shape=st.tuples(FEW, st.sampled_from([1, 15, 16, 17, 40]), st.integers(1, 9), st.integers(1, 9)), signs=SIGNS,
)  # fmt: skip
def test_agrees_in_blocks(
    isa: str, op_type: str, axes: tuple[int, ...], shape: tuple[int, ...], signs: tuple[int, ...]
) -> None:
    arrays = inputs(shape, axes, "f4", (1,) if op_type == "ReduceLogSum" else signs)
    check(op_type, arrays, {}, isa, blocked=True)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op_type", sorted(GLOBAL_POOLS))
@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("signs", [(-1,), (-1, 1)])
def test_global_pools_agree(isa: str, op_type: str, blocked: bool, signs: tuple[int, ...]) -> None:
    check(op_type, inputs((2, 19, 7, 9), None, "f4", signs)[:1], {}, isa, blocked=blocked)


@pytest.mark.parametrize(("op_type", "expected"), [("GlobalAveragePool", 1.5), ("GlobalMaxPool", 3)])
def test_global_pools_take_any_rank(op_type: str, expected: float) -> None:
    for shape in ((1, 1, 4), (1, 1, 2, 2, 1)):
        x = np.arange(4, dtype=np.float32).reshape(shape)
        ours = run_op(make_node(op_type, [x]), [x])[0]
        np.testing.assert_array_equal(ours, np.full((1, 1, *[1] * (len(shape) - 2)), expected, np.float32))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("shape", "axes"), [((100_003,), (0,)), ((100_003, 3), (0,)), ((40, 2503, 17), (0, 1))])
def test_long_sums_keep_their_precision(isa: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    arrays = inputs(shape, axes, "f4")
    x = arrays[0]
    assert x is not None
    ours = run_op(make_node("ReduceSum", arrays, {"keepdims": 0}, constants=(1,)), arrays, isa=isa)[0]
    np.testing.assert_allclose(ours, x.astype("f8").sum(axes), rtol=2e-7)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin", "ReduceSum"])
def test_nan_and_infinity_propagate(isa: str, axis: int, op_type: str) -> None:
    x = np.random.default_rng(0).standard_normal((70, 70), np.float32)
    for index in range(70):
        x[index, index] = [np.nan, np.inf, -np.inf, 1][index % 4]
    arrays = [x, np.array([axis])]
    ours = run_op(make_node(op_type, arrays, {"keepdims": 0}, constants=(1,)), arrays, isa=isa)[0]
    numpy_op = {"ReduceMax": np.max, "ReduceMin": np.min, "ReduceSum": np.sum}[op_type]
    np.testing.assert_allclose(ours, numpy_op(x, axis), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op_type", sorted(REDUCTIONS))
@pytest.mark.parametrize(("shape", "axis"), [((3, 0), 1), ((0, 3), 1), ((2, 0, 20), 1), ((0,), 0)])
def test_empty_reductions_follow_onnx(isa: str, op_type: str, shape: tuple[int, ...], axis: int) -> None:
    arrays = [np.zeros(shape, np.float32), np.array([axis])]
    none = {
        "ReduceMean": np.nan, "ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceProd": 1, "ReduceLogSum": -np.inf,
        "ReduceLogSumExp": -np.inf,
    }  # fmt: skip
    ours = run_op(make_node(op_type, arrays, {"keepdims": 0}, constants=(1,)), arrays, isa=isa)[0]
    expected = np.full(np.delete(shape, axis), none.get(op_type, 0), np.float32)
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("dtype", ["i1", "u1", "?", "i4", "u4", "i8", "u8", "f8"])
def test_empty_reductions_of_every_dtype(dtype: str) -> None:
    arrays = [np.zeros((3, 0), dtype), np.array([1])]
    for op_type in sorted(REDUCTIONS):
        if np.dtype(dtype) in {np.dtype(numpy.numpy) for numpy in REDUCTIONS[op_type].dtypes} and (
            op_type != "ReduceMean" or dtype == "f8"
        ):
            node = make_node(op_type, arrays, constants=(1,))
            expected = reference_op(node, arrays)[0]
            np.testing.assert_array_equal(run_op(node, arrays)[0], expected, err_msg=op_type)


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
def test_roots_of_large_integers(dtype: str) -> None:
    largest = np.iinfo(dtype).max
    arrays = [np.array([[3, 4], [0, largest], [largest, largest]], dtype), np.array([1])]
    ours = run_op(make_node("ReduceL2", arrays, {"keepdims": 0}, constants=(1,)), arrays)[0]
    np.testing.assert_array_equal(ours, [5, largest, largest])


@pytest.mark.parametrize("dtype", ["i1", "u1", "?"])
def test_min_and_max_of_small_dtypes(dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 2, (5, 3)).astype(dtype)
    for op_type, expected in (("ReduceMax", x.max(0)), ("ReduceMin", x.min(0))):
        arrays = [x, np.array([0])]
        ours = run_op(make_node(op_type, arrays, {"keepdims": 0}, constants=(1,)), arrays)[0]
        np.testing.assert_array_equal(ours, expected)


def test_integer_sums_wrap_around() -> None:
    arrays = [np.array([2**31 - 1, 1], np.int32), np.array([0])]
    assert run_op(make_node("ReduceSum", arrays, constants=(1,)), arrays)[0] == -(2**31)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(150))
@given(
    op_type=st.sampled_from(["ArgMax", "ArgMin"]), shape=st.lists(DIMS, min_size=1, max_size=3), axis=st.integers(0, 2),
    keepdims=st.integers(0, 1), last=st.integers(0, 1),
    dtype=st.sampled_from(["f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]),
)  # fmt: skip
def test_arg_agrees_with_the_reference(
    isa: str, op_type: str, shape: list[int], axis: int, keepdims: int, last: int, dtype: str
) -> None:
    arrays = [np.random.default_rng(len(shape)).integers(0, 5, shape).astype(dtype)]
    attrs: dict[str, object] = {"axis": axis % len(shape), "keepdims": keepdims, "select_last_index": last}
    node = make_node(op_type, arrays, attrs)
    assert node.output.desc == infer_by_onnx(node, known_constant)[0]
    np.testing.assert_array_equal(run_op(node, arrays, threads=2, isa=isa)[0], reference_op(node, arrays)[0])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("op_type", "last", "index"), [("ArgMax", 0, 1), ("ArgMax", 1, 43), ("ArgMin", 0, 1)])
def test_arg_finds_nan(op_type: str, last: int, index: int, axis: int, isa: str) -> None:
    x = np.random.default_rng(0).standard_normal((50, 50), np.float32)
    x[[1, 20, 43]] = np.nan
    x = x if axis == 0 else np.ascontiguousarray(x.T)
    attrs: dict[str, object] = {"axis": axis, "select_last_index": last, "keepdims": 0}
    np.testing.assert_array_equal(run_op(make_node(op_type, [x], attrs), [x], isa=isa)[0], np.full(50, index))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("n", [255, 256, 257, 1000, 2**16 + 300])
def test_arg_of_long_rows_of_integers(n: int, op_type: str, dtype: str) -> None:
    """The best element stands several times in a row, or is all of it."""
    info, random = np.iinfo(dtype), np.random.default_rng(n)
    x = random.integers(info.min, info.max, (12, n), dtype, endpoint=True)
    for row in x[1:]:
        row[random.integers(0, n, 3)] = info.max if op_type == "ArgMax" else info.min
    x[0] = 7
    find = np.argmax if op_type == "ArgMax" else np.argmin
    for last, expected in enumerate((find(x, axis=1), n - 1 - find(x[:, ::-1], axis=1))):
        node = make_node(op_type, [x], {"axis": 1, "select_last_index": last, "keepdims": 0})
        np.testing.assert_array_equal(run_op(node, [x])[0], expected)


@settings(max_examples=trials(100))
@given(case=shapes(), keepdims=st.integers(0, 1), noop=st.integers(0, 1))
def test_inference_agrees_with_onnx(case: tuple[tuple[int, ...], tuple[int, ...]], keepdims: int, noop: int) -> None:
    attrs: dict[str, object] = {"keepdims": keepdims, "noop_with_empty_axes": noop}
    node = make_node("ReduceSum", inputs(case[0], case[1], "f4"), attrs, constants=(1,))
    assert node.output.desc == infer_by_onnx(node, known_constant)[0]


def test_computed_axes_keep_the_rank_with_keepdims() -> None:
    node = make_node("ReduceSum", inputs((2, 3), (1,), "f4"))
    assert node.output.desc == TensorDesc.plain(DType.FLOAT32, (Sym(f"{node.name}.0"), Sym(f"{node.name}.1")))
    assert make_node("ReduceSum", inputs((2, 3), (1,), "f4"), {"keepdims": 0}).output.desc.shape is None


def test_shape_arithmetic_is_propagated() -> None:
    sizes = np.array([2, 3, 4])
    node = make_node("ReduceProd", [sizes], constants=(0,))
    opdef = find_opdef(node)
    assert opdef is not None
    assert opdef.propagate is not None
    assert opdef.propagate(node, known_constant) == (24,)


def test_an_axis_beyond_the_rank_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="axis = 2 is outside a tensor of rank 2"):
        make_node("ReduceSum", inputs((2, 3), (2,), "f4"), constants=(1,))


def test_each_unsupported_variant_is_rejected_with_its_reason() -> None:
    def reasons(op_type: str, arrays: list[Array | None], constants: tuple[int, ...] = (1,)) -> list[str]:
        return rejections(make_node(op_type, arrays, constants=constants))

    assert reasons("ReduceSum", inputs((2, 3), (1,), "f4")) == []
    assert reasons("ReduceSum", inputs((2, 3), (1,), "f4"), constants=()) == ["axes-not-constant"]
    assert reasons("ReduceLogSum", inputs((2, 3), (1,), "i4")) == ["dtype"]
    assert reasons("ReduceMean", inputs((2, 0), (1,), "i4")) == ["empty"]
    assert reasons("ReduceSum", inputs((2,) * 10, (1, 3, 5, 7, 9), "f4")) == ["rank"]
    assert reasons("ArgMax", [np.zeros((2, 0), np.float32)]) == ["empty"]


def test_neighbouring_dims_are_merged() -> None:
    assert merge_dims((2, 3, 4, 5), {2, 3}) == MergedDims(((6, 20),), ((20, 1),), 1)
    assert merge_dims((2, 3, 1, 4, 5), {0, 3}) == MergedDims(((3, 20),), ((2, 60), (4, 5)), 5)
    assert merge_dims((1, 1), {0}) == MergedDims((), (), 1)


@pytest.mark.parametrize("op_type", sorted(GLOBAL_POOLS))
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 2)])
def test_global_pools_evaluate_over_any_spatial_dims(op_type: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).random(shape)
    node = make_node(op_type, [x])
    opdef = find_opdef(node)
    assert opdef is not None and opdef.evaluate is not None
    result = opdef.evaluate(node, [x])[0]
    assert result.shape == (*shape[:2], *[1] * (len(shape) - 2))
    np.testing.assert_allclose(result, run_op(node, [x])[0], rtol=1e-12)

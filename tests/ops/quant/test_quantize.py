"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear against the ONNX reference and ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import atcpy
from atcpy.ir import Reject
from atcpy.ir.tensor import Array
from atcpy.ops.quant.quantize import supports_quantization
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import LOOP_ISAS

PACKED: list[DTypeLike] = [ml_dtypes.uint4, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.int2]
FLOAT8: list[DTypeLike] = [
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
]  # fmt: skip
STEPS = [0.5, 0.1, 3.0]
SHAPES = st.lists(st.sampled_from([1, 2, 3, 6, 17]), min_size=1, max_size=3).map(tuple)


def limits(dtype: DTypeLike) -> tuple[int, int]:
    """The lowest and the highest number of an integer type."""
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


@st.composite
def scaled(draw: st.DrawFn, dtype: DTypeLike) -> tuple[tuple[int, ...], Array, Array | None, dict[str, int]]:
    """A shape, its scales and zero points, and the attributes: per tensor, per axis, or per block."""
    shape = draw(SHAPES)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    kind = draw(st.sampled_from(["tensor", "axis", "blocks"]))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    attrs, dims = {"axis": axis}, ()
    if kind == "axis":
        dims = (shape[axis],)
    elif kind == "blocks":
        block = draw(st.integers(1, 4))
        attrs["block_size"] = block
        dims = tuple(-(-size // block) if at == axis % len(shape) else size for at, size in enumerate(shape))
    scale = rng.choice(STEPS, dims).astype(np.float32)
    zero = None
    if draw(st.booleans()):
        low, high = limits(dtype)
        zero = np.asarray(rng.integers(max(-5, low), min(20, high + 1), dims)).astype(dtype)
        zero = np.zeros_like(zero) if dtype == "i4" else zero
    return shape, np.asarray(scale), None if zero is None else np.asarray(zero), attrs


@pytest.mark.parametrize("isa", LOOP_ISAS)
@settings(max_examples=trials(25), deadline=None)
@given(data=st.data(), dtype=st.sampled_from(["u1", "i1", "u2", "i2", *PACKED]))
def test_quantises_as_the_reference(isa: str, data: st.DataObject, dtype: DTypeLike) -> None:
    shape, scale, zero, attrs = data.draw(scaled(dtype))
    zero = np.zeros(scale.shape, dtype) if zero is None else zero
    rng = np.random.default_rng(1)
    x = (rng.integers(-400, 400, shape) * 0.25).astype(np.float32)  # many ties
    x.reshape(-1)[:2] = [np.inf, -np.inf][: x.size]
    node = make_node("QuantizeLinear", [x, scale, zero], attrs)
    scales, zeros = per_element(scale, shape, attrs), per_element(zero, shape, attrs).astype(np.float32)
    expected = np.clip(np.rint(x / scales) + zeros, *limits(dtype)).astype(dtype)
    np.testing.assert_array_equal(run_op(node, [x, scale, zero], isa=isa)[0], expected)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@settings(max_examples=trials(25), deadline=None)
@given(data=st.data(), dtype=st.sampled_from(["u1", "i1", "u2", "i2", "i4", *PACKED]))
def test_dequantises_as_the_reference(isa: str, data: st.DataObject, dtype: DTypeLike) -> None:
    shape, scale, zero, attrs = data.draw(scaled(dtype))
    low, high = limits(dtype)
    x = np.random.default_rng(1).integers(low, high + 1, shape).astype(dtype)
    node = make_node("DequantizeLinear", [x, scale, zero], attrs)
    scales = per_element(scale, shape, attrs)
    offset = 0 if zero is None else per_element(zero, shape, attrs).astype(np.int64)
    expected = (x.astype(np.int64) - offset).astype(np.float32) * scales
    np.testing.assert_array_equal(run_op(node, [x, scale, zero], isa=isa)[0], expected)


# Runs of one scale that are short, or not; scales that repeat after 1024 elements or fewer, or not; parts of items.
@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i4", ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize(
    ("shape", "block"),
    [
        ((7, 40, 3), 0), ((3, 256, 4), 0), ((2, 205, 5), 0), ((2, 700, 31), 0), ((3, 5, 32), 0), ((3, 5, 33), 0),
        ((1, 9000, 2), 0), ((200, 3, 29), 0), ((300, 6, 2), 4), ((5, 40, 2), 3),
    ],
)  # fmt: skip
def test_short_runs_have_scales_of_their_own(isa: str, dtype: DTypeLike, shape: tuple[int, ...], block: int) -> None:
    rng, attrs = np.random.default_rng(3), {"axis": 1}
    dims: tuple[int, ...] = (shape[1],)
    if block:
        attrs["block_size"], dims = block, (shape[0], -(-shape[1] // block), shape[2])
    scale = rng.uniform(0.1, 2, dims).astype(np.float32)
    is_float8 = not isinstance(dtype, str)
    zero = (np.zeros(dims) if is_float8 or dtype == "i4" else rng.integers(0, 100, dims)).astype(dtype)
    x = rng.integers(-50 if is_float8 else 0, 100, shape).astype(dtype)
    node = make_node("DequantizeLinear", [x, scale, zero], attrs)
    scales, zeros = (per_element(each, shape, attrs) for each in (scale, zero.astype(np.float32)))
    expected = (x.astype(np.float32) - zeros) * scales
    for threads in (1, 3):
        np.testing.assert_array_equal(run_op(node, [x, scale, zero], isa=isa, threads=threads)[0], expected)
    if is_float8 or dtype == "i4":
        return
    node = make_node("QuantizeLinear", [expected, scale, zero], attrs)
    for threads in (1, 3):
        np.testing.assert_array_equal(run_op(node, [expected, scale, zero], isa=isa, threads=threads)[0], x)


def per_element(values: Array, shape: tuple[int, ...], attrs: dict[str, int]) -> Array:
    """Broadcast per-tensor, per-axis or per-block values to one value per element."""
    axis = attrs["axis"] % len(shape)
    if values.size == 1 and values.ndim <= 1:
        return np.broadcast_to(values.reshape(()), shape)
    if values.ndim == 1 and "block_size" not in attrs:
        return np.broadcast_to(values.reshape([-1 if at == axis else 1 for at in range(len(shape))]), shape)
    return np.repeat(values, attrs["block_size"], axis).take(range(shape[axis]), axis)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 20000])
def test_lengths(isa: str, n: int) -> None:
    x = np.linspace(-3, 3, n, dtype=np.float32)
    arrays: list[Array | None] = [x, np.asarray(np.float32(0.02)), np.array(3, np.int8)]
    node = make_node("QuantizeLinear", arrays)
    q = run_op(node, arrays, isa=isa, threads=2)[0]
    np.testing.assert_array_equal(q, reference_op(node, arrays)[0])
    back: list[Array | None] = [q, *arrays[1:]]
    node = make_node("DequantizeLinear", back)
    np.testing.assert_array_equal(run_op(node, back, isa=isa, threads=2)[0], reference_op(node, back)[0])


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("dtype", PACKED, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("n", [0, 1, 1023, 1027, 2 * 8192 + 5])
def test_packed_lengths(isa: str, dtype: DTypeLike, n: int) -> None:
    low, high = limits(dtype)
    q = np.random.default_rng(2).integers(low, high + 1, n).astype(dtype)
    arrays: list[Array | None] = [q, np.asarray(np.float32(0.5)), np.array(1, dtype)]
    x = run_op(make_node("DequantizeLinear", arrays), arrays, isa=isa, threads=2)[0]
    np.testing.assert_array_equal(x, (q.astype(np.float32) - 1) * 0.5)
    back: list[Array | None] = [x, *arrays[1:]]
    np.testing.assert_array_equal(run_op(make_node("QuantizeLinear", back), back, isa=isa, threads=2)[0], q)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("dtype", FLOAT8, ids=lambda dtype: dtype.__name__)
def test_every_float8(isa: str, dtype: DTypeLike) -> None:
    x = np.arange(256, dtype=np.uint8).view(dtype)
    arrays: list[Array | None] = [x, np.asarray(np.float32(0.5)), np.zeros((), dtype)]
    node = make_node("DequantizeLinear", arrays)
    with np.errstate(all="ignore"):
        expected = x.astype(np.float32) * np.float32(0.5)
    np.testing.assert_array_equal(run_op(node, arrays, isa=isa)[0], expected)


@pytest.mark.parametrize("isa", LOOP_ISAS)
def test_nan_quantizes_to_the_lowest_number(isa: str) -> None:
    arrays: list[Array | None] = [np.full(40, np.nan, np.float32), np.asarray(np.float32(1)), np.array(9, np.uint8)]
    assert not run_op(make_node("QuantizeLinear", arrays), arrays, isa=isa)[0].any()


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [((2, 19, 3, 5), -1, 2), ((1, 16, 2, 2), 1, 3), ((1, 3, 9, 9), -4, -1), ((1, 1, 1, 1), 0, 0)],
)
def test_dynamic_ranges(isa: str, blocked: bool, shape: tuple[int, ...], low: float, high: float) -> None:
    x = np.random.default_rng(3).uniform(low, high, shape).astype(np.float32)
    node = make_node("DynamicQuantizeLinear", [x], outputs=3)
    y, scale, zero = run_op(node, [x], isa=isa, blocked=blocked)
    smallest, largest = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    step = (largest - smallest) / np.float32(255) if largest > smallest else np.float32(1)
    assert scale == step
    assert zero == np.rint(-smallest / step)
    np.testing.assert_array_equal(y, np.clip(np.rint(x / step) + zero.astype(np.float32), 0, 255).astype(np.uint8))


def test_each_rejection_has_its_reason() -> None:
    half = np.zeros(3, np.float16), np.ones((), np.float16), np.zeros((), np.uint8)
    assert Reject("dtype", "QuantizeLinear", "float16") in list(
        supports_quantization(make_node("QuantizeLinear", half))
    )


BLOCKS = {"axis": 1, "block_size": 2}


@pytest.mark.parametrize(
    ("dtype", "saturate", "dims", "attrs"),
    [
        (FLOAT8[0], 1, (), {}),
        (FLOAT8[1], 1, (1,), {}),
        (FLOAT8[2], 1, (6,), {"axis": 1}),
        (FLOAT8[3], 1, (5,), {"axis": -1}),
        (FLOAT8[0], 0, (4, 3, 5), BLOCKS),
        (FLOAT8[1], 0, (4,), {"axis": 0}),
        (FLOAT8[2], 0, (), {}),
        (FLOAT8[3], 0, (4, 3, 5), BLOCKS),
    ],
)
def test_quantises_to_float8_in_a_kernel(
    dtype: DTypeLike, saturate: int, dims: tuple[int, ...], attrs: dict[str, int], tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    x = (rng.normal(size=(4, 6, 5)) * rng.choice([1e-3, 1, 300, 1e5], (4, 6, 5))).astype(np.float32)
    x.reshape(-1)[:5] = [np.inf, -np.inf, np.nan, -0.0, 448]
    scale, zero = rng.choice(STEPS, dims).astype(np.float32), np.zeros(dims, dtype)
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"], saturate=saturate, **attrs)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, x.shape), helper.make_tensor_value_info("scale", 1, dims)],
        [helper.make_tensor_value_info("y", kind, x.shape)],
        [numpy_helper.from_array(zero, "zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert not atcpy.convert(model, tmp_path / "m.om").host_cpu_ops
    feeds = {"x": x, "scale": scale}
    (own,) = atcpy.InferenceSession(tmp_path / "m.om").run(None, feeds)
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_array_equal(own.view(np.uint8), expected.view(np.uint8))

"""Normalizations: every row against the ONNX reference in float64, in both layouts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import atcpy.backend
from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.core.reference import infer_by_onnx, known_constant
from atcpy.ops.norm.norm import evaluate_lrn
from tests.effort import trials
from tests.harness import make_node, reference_op, rejections, run_op
from tests.isa import ISAS

CHANNELS = st.sampled_from([1, 3, 8, 15, 16, 17, 24, 40])
ROWS = st.lists(st.sampled_from([2, 3, 16, 17, 70, 600]), min_size=1, max_size=2).filter(
    lambda dims: bool(np.prod(dims) < 2000)
)
SIZES = st.sampled_from([1, 2, 3, 7, 8, 15, 16, 17, 33])
EPSILON = float(np.float32(1e-5))  # the default, in the type of attributes


def random(shape: tuple[int, ...], seed: int = 0) -> Array:
    """Numbers whose mean is far from 0, as after a Relu."""
    return np.random.default_rng(seed).normal(2, 1, shape).astype("f4")


def vectors(channels: int, count: int) -> list[Array | None]:
    return [np.random.default_rng(index).uniform(0.5, 2, channels).astype("f4") for index in range(count)]


def check(
    op_type: str, arrays: list[Array | None], attrs: dict[str, object], isa: str, *, blocked: bool = False
) -> None:
    """Assert agreement with the ONNX reference in float64.

    A large epsilon bounds how much a nearly constant row amplifies the rounding error of its mean.
    """
    exact = [None if array is None else array.astype("f8") for array in arrays]
    check_against(
        reference_op(make_node(op_type, exact, attrs), exact)[0], op_type, arrays, attrs, isa, blocked=blocked
    )


def check_against(
    expected: Array, op_type: str, arrays: list[Array | None], attrs: dict[str, object], isa: str, *,
    blocked: bool = False,
) -> None:  # fmt: skip
    """Assert that our result and its type are as expected."""
    node = make_node(op_type, arrays, attrs, constants=range(1, len(arrays)))
    stated = infer_by_onnx(node, known_constant)[0]
    assert stated.dtype is node.output.desc.dtype
    assert stated.shape in (None, node.output.desc.shape)  # None for GroupNormalization
    ours = run_op(node, arrays, isa=isa, threads=2, blocked=blocked)[0]
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, expected, rtol=0, atol=3e-6 * max(1, float(np.abs(expected).max())))


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60))
@given(n=st.integers(1, 2), c=CHANNELS, h=SIZES, w=SIZES, blocked=st.booleans())
def test_batch_agrees(isa: str, n: int, c: int, h: int, w: int, blocked: bool) -> None:
    check("BatchNormalization", [random((n, c, h, w)), *vectors(c, 4)], {"epsilon": 1e-3}, isa, blocked=blocked)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", [(3, 17), (2, 5, 9), (1, 4, 2, 3, 2)])
def test_batch_takes_any_rank(isa: str, shape: tuple[int, ...]) -> None:
    check("BatchNormalization", [random(shape), *vectors(shape[1], 4)], {}, isa)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60))
@given(n=st.integers(1, 2), c=CHANNELS, h=SIZES, w=SIZES, blocked=st.booleans())
def test_instance_agrees(isa: str, n: int, c: int, h: int, w: int, blocked: bool) -> None:
    arrays = [random((n, c, h, w + 1)), *vectors(c, 2)]
    check("InstanceNormalization", arrays, {"epsilon": 1e-2}, isa, blocked=blocked)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60))
@given(
    op_type=st.sampled_from(["LayerNormalization", "RMSNormalization"]), outer=st.lists(SIZES, max_size=2),
    inner=ROWS, bias=st.booleans(),
)  # fmt: skip
def test_layer_agrees(isa: str, op_type: str, outer: list[int], inner: list[int], bias: bool) -> None:
    outer = outer[: 1 + (np.prod(inner) < 300)]
    arrays: list[Array | None] = [random((*outer, *inner)), random(tuple(inner), 1)]
    if bias and op_type == "LayerNormalization":
        arrays.append(random(tuple(inner), 2))
    check(op_type, arrays, {"axis": -len(inner), "epsilon": 1e-1}, isa)


@pytest.mark.parametrize("isa", ISAS)
def test_layer_keeps_its_precision_far_from_zero(isa: str) -> None:
    x = random((2, 100_003)) + np.float32(1000)
    scale = np.ones(100_003, "f4")
    ours = run_op(make_node("LayerNormalization", [x, scale]), [x, scale], isa=isa)[0]
    exact = x.astype("f8")
    expected = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-4)  # half an ulp of the mean is 3e-5


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 12, 5, 7), 3), ((1, 32, 4, 4), 32), ((2, 6, 1), 2), ((1, 34, 3, 11), 1)]
)
def test_group_agrees(isa: str, shape: tuple[int, ...], groups: int) -> None:
    x, (scale, bias) = random(shape), vectors(shape[1], 2)
    assert scale is not None
    assert bias is not None
    rows = x.astype("f8").reshape(shape[0], groups, -1)
    normal = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-2)
    per_channel = (-1, *[1] * (len(shape) - 2))
    expected = normal.reshape(shape) * scale.reshape(per_channel) + bias.reshape(per_channel)
    attrs: dict[str, object] = {"num_groups": groups, "epsilon": 1e-2}
    check_against(expected, "GroupNormalization", [x, scale, bias], attrs, isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 0.6])
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_lrn_agrees(isa: str, beta: float, size: int) -> None:
    attrs: dict[str, object] = {"size": size, "alpha": 0.3, "beta": beta, "bias": 2.0}
    x = random((2, 9, 3, 7))
    squares = np.pad(x.astype("f8") ** 2, ((0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)))
    sums = np.lib.stride_tricks.sliding_window_view(squares, size, 1).sum(-1)  # type: ignore[call-overload]
    expected = x / (2 + 0.3 / size * sums) ** beta
    check_against(expected, "LRN", [x], attrs, isa)
    node = make_node("LRN", [x], attrs)
    opdef = find_opdef(node)
    assert opdef is not None
    assert opdef.evaluate is not None
    np.testing.assert_allclose(opdef.evaluate(node, [x])[0], expected, rtol=1e-5)


@pytest.mark.parametrize("isa", ISAS)
def test_nan_stays_in_its_row_and_channel(isa: str) -> None:
    x = random((2, 17, 5, 5))
    x[1, 16, 2, 3] = np.nan
    arrays = [x, *vectors(17, 2)]
    for blocked in (False, True):
        ours = run_op(make_node("InstanceNormalization", arrays), arrays, isa=isa, blocked=blocked)[0]
        assert np.argwhere(np.isnan(ours).all((2, 3))).tolist() == [[1, 16]]
        assert np.isnan(ours).sum() == 25
    rows = x.reshape(34, 25)
    ours = run_op(make_node("LayerNormalization", [rows, rows[0]]), [rows, rows[0]], isa=isa)[0]
    assert np.argwhere(np.isnan(ours).all(1)).tolist() == [[33]]


def test_statistics_have_the_dims_before_the_axis() -> None:
    arrays = [random((2, 3, 4)), random((3, 4))]
    node = make_node("LayerNormalization", arrays, {"axis": 1}, outputs=3)
    assert [value.desc for value in node.outputs] == infer_by_onnx(node, known_constant)


def normalized(arrays: list[Array], groups: object) -> Array:
    """LayerNormalization over the last axis, or GroupNormalization, in float64."""
    x, scale, bias = arrays
    rows = x if groups is None else x.reshape(len(x), int(str(groups)), -1)
    centred = rows - rows.mean(-1, keepdims=True)
    y = (centred / np.sqrt(rows.var(-1, keepdims=True) + EPSILON)).reshape(x.shape)
    column = (-1, *[1] * (x.ndim - 2)) if groups is not None else (-1,)
    return np.asarray(y * scale.reshape(column) + bias.reshape(column))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("op_type", "vectors_of", "attrs"),
    [
        ("BatchNormalization", (6,) * 4, {}), ("InstanceNormalization", (6,) * 2, {}),
        ("LayerNormalization", (5,) * 2, {}), ("RMSNormalization", (5,), {}),
        ("GroupNormalization", (6,) * 2, {"num_groups": 2}), ("LRN", (), {"size": 3, "beta": 0.6}),
    ],
)  # fmt: skip
def test_float64_inputs_are_computed_in_float64(
    isa: str, op_type: str, vectors_of: tuple[int, ...], attrs: dict[str, object]
) -> None:
    rng = np.random.default_rng(5)
    arrays = [rng.normal(2, 1, (2, 6, 4, 5)), *[rng.uniform(0.5, 2, count) for count in vectors_of]]
    node = make_node(op_type, arrays, attrs)
    opdef = find_opdef(node)
    assert opdef is not None
    assert rejections(node) == []
    (ours,) = run_op(node, arrays, isa=isa, threads=2)
    if op_type == "LRN":
        expected = evaluate_lrn(node, arrays)[0]
    elif op_type in {"LayerNormalization", "GroupNormalization"}:  # the reference computes statistics in float32
        expected = normalized(arrays, groups=attrs.get("num_groups"))
    else:
        expected = reference_op(node, arrays)[0]
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("op_type", "arrays", "attrs", "outputs", "reasons"),
    [
        ("BatchNormalization", [random((1, 3, 2)), *vectors(3, 4)], {}, 1, []),
        ("BatchNormalization", [random((1, 3, 2)), *vectors(3, 4)], {"training_mode": 1}, 3, ["training-mode"]),
        ("BatchNormalization", [random((0, 3, 2)), *vectors(3, 4)], {}, 1, ["empty"]),
        ("LayerNormalization", [random((2, 3)), random((1, 3))], {}, 1, []),
        ("LayerNormalization", [random((2, 3)), random((1,))], {}, 1, ["broadcast"]),
        ("LayerNormalization", [random((2, 3)), random((3,))], {}, 2, ["statistics-used"]),
        ("LayerNormalization", [random((2, 3)).astype("f8"), random((3,)).astype("f8")], {}, 1, []),
        ("LayerNormalization", [random((2, 3)).astype("f2"), random((3,)).astype("f2")], {}, 1, ["dtype"]),
        ("BatchNormalization", [random((1, 3, 2)).astype("f8"), *vectors(3, 4)], {}, 1, ["mixed-types"]),
        ("LayerNormalization", [random((2, 3)), random((3,))], {"stash_type": 11}, 1, ["stash-type"]),
        ("LRN", [random((3,))], {"size": 3}, 1, ["rank"]),
    ],
)
def test_each_unsupported_variant_is_rejected_with_its_reason(
    op_type: str, arrays: list[Array | None], attrs: dict[str, object], outputs: int, reasons: list[str]
) -> None:
    assert rejections(make_node(op_type, arrays, attrs, outputs=outputs)) == reasons


@pytest.mark.parametrize(
    ("op_type", "arrays", "attrs", "part"),
    [
        ("BatchNormalization", [random((1, 3, 2)), *vectors(4, 4)], {}, "input 1 has shape"),
        ("InstanceNormalization", [random((3,)), *vectors(3, 2)], {}, "no channels"),
        ("LayerNormalization", [random((2, 3)), random((3,))], {"axis": 2}, "axis = 2"),
        ("GroupNormalization", [random((1, 6, 2)), *vectors(6, 2)], {"num_groups": 4}, "does not divide"),
        ("GroupNormalization", [random((1, 6, 2)), *vectors(6, 2)], {}, "num_groups = 0"),
        ("LRN", [random((1, 6, 2))], {}, "size = 0"),
    ],
)
def test_what_onnx_forbids_is_refused(
    op_type: str, arrays: list[Array | None], attrs: dict[str, object], part: str
) -> None:
    with pytest.raises(ModelInvalid, match=part):
        make_node(op_type, arrays, attrs)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_mean_and_variance_in_each_type(dtype: int) -> None:
    ports = [helper.make_tensor_value_info(name, dtype, [2, 3, 4, 5]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MeanVarianceNormalization", ["x"], ["y"])], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = random((2, 3, 4, 5)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    x[:, 1] = 3  # a constant channel
    (y,) = atcpy.backend.prepare(model, "CPU").run([x])
    wide = x.astype("f8")
    expected = (wide - wide.mean((0, 2, 3), keepdims=True)) / (wide.std((0, 2, 3), keepdims=True) + 1e-9)
    assert y.dtype == x.dtype
    np.testing.assert_allclose(y.astype("f8"), expected, rtol=1e-5, atol=2e-3 if dtype == TensorProto.FLOAT16 else 1e-5)

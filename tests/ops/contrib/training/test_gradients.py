"""Gradient ops of ONNX Runtime training against finite differences of the forward function in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import atcpy
from tests.ops.contrib.cases import expanded, floats, make_model
from tests.parsers.onnx.canonical import Array, ops_of

erf = np.vectorize(math.erf)


def ours(
    op: str, arrays: Sequence[Array | None], attrs: dict[str, object] | None = None, outputs: int = 1, **options: object
) -> list[Array]:
    """Outputs of one node, converted and run."""
    model = make_model(op, arrays, attrs, outputs=outputs, **options)  # type: ignore[arg-type]
    constants = options.get("constants", ())
    assert isinstance(constants, tuple)
    fed = [array for index, array in enumerate(arrays) if array is not None and index not in constants]
    return list(atcpy.backend.run_model(model, fed))


def slope(function: Callable[[Array], Array], x: Array, dy: Array) -> Array:
    """The gradient with respect to x by finite differences; `dy` is the gradient of the function's result."""
    step, found = 1e-6, np.zeros(x.shape)
    wide = x.astype(np.float64)
    for index in np.ndindex(x.shape):
        moved = [wide.copy(), wide.copy()]
        moved[0][index] += step
        moved[1][index] -= step
        found[index] = ((function(moved[0]) - function(moved[1])) * dy).sum() / (2 * step)
    return found


def close(have: Array, want: Array) -> None:
    assert have.shape == want.shape
    np.testing.assert_allclose(have, want, rtol=2e-4, atol=2e-5)


def softmax(x: Array, axis: int | tuple[int, ...]) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    y: Array = powers / powers.sum(axis, keepdims=True)
    return y


# --- elementwise ----------------------------------------------------------------------------------

X = floats(3, 5) + np.float32(0.01)
DY = floats(3, 5, seed=2)
ROOT = math.sqrt(2 / math.pi)


def fast_gelu(x: Array) -> Array:
    y: Array = x * 0.5 * (1 + np.tanh(ROOT * (x + 0.044715 * x**3)))
    return y


# op, whether it reads the result, attributes, domain, forward function
ELEMENTWISE: list[tuple[str, bool, dict[str, object], str, Callable[[Array], Array]]] = [
    ("ReluGrad", False, {}, "com.microsoft", lambda x: np.maximum(x, 0)),
    ("ReluGrad", True, {}, "com.microsoft", lambda x: np.maximum(x, 0)),
    ("SigmoidGrad", True, {}, "com.microsoft", lambda x: 1 / (1 + np.exp(-x))),
    ("TanhGrad", True, {}, "com.microsoft", np.tanh),
    ("SinGrad", False, {}, "", np.sin),
    ("LeakyReluGrad", True, {"alpha": 0.3}, "com.microsoft", lambda x: np.where(x > 0, x, 0.3 * x)),
    ("GeluGrad", False, {}, "com.microsoft", lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))),
    ("FastGeluGrad", False, {}, "com.microsoft", fast_gelu),
    ("QuickGeluGrad", False, {}, "com.microsoft", lambda x: x / (1 + np.exp(-1.702 * x))),
    ("QuickGeluGrad", False, {"alpha": 0.5}, "com.microsoft", lambda x: x / (1 + np.exp(-0.5 * x))),
]


@pytest.mark.parametrize(("op", "is_result", "attrs", "domain", "forward"), ELEMENTWISE)
def test_an_elementwise_gradient_agrees_with_finite_differences(
    op: str, is_result: bool, attrs: dict[str, object], domain: str, forward: Callable[[Array], Array]
) -> None:
    read = forward(X).astype(np.float32) if is_result else X
    close(ours(op, [DY, read], attrs, domain=domain)[0], slope(forward, X, DY))


def test_relu_gradient_is_zero_for_inactive_elements_even_if_dy_is_nan() -> None:
    (dx,) = ours("ReluGrad", [np.array([np.nan, np.inf, 2], np.float32), np.array([-1, 0, 1], np.float32)])
    assert dx.tolist() == [0, 0, 2]


@pytest.mark.parametrize(
    ("op", "forward"),
    [("BiasGeluGrad_dX", lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))), ("BiasFastGeluGrad_dX", fast_gelu)],
)
def test_a_bias_in_front_of_gelu(op: str, forward: Callable[[Array], Array]) -> None:
    bias = floats(5, seed=3)
    close(ours(op, [DY, X, bias])[0], slope(forward, X + bias, DY))


@pytest.mark.parametrize("shapes", [((3, 5), (3, 5)), ((3, 5), (5,)), ((1,), (3, 5)), ((3, 1), (1, 5))])
def test_the_gradients_of_a_quotient(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = floats(*shapes[0]), np.abs(floats(*shapes[1])) + 1
    da, db = ours("DivGrad", [DY, a, b], outputs=2)
    close(da, slope(lambda a: a / b, a, DY))
    close(db, slope(lambda b: a / b, b, DY))


@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [
        ([2, 3], [2, 3], ([], [])), ([2, 3], [3], ([], [0])), ([1, 3], [4, 2, 1], ([1, 0], [2])),
        ([], [2, 1], ([1, 0], [])), ([0, 1], [1, 3], ([1], [0])),
    ],
)  # fmt: skip
def test_the_axes_of_a_broadcast(a: list[int], b: list[int], axes: tuple[list[int], list[int]]) -> None:
    shapes: list[Array | None] = [np.array(shape, np.int64) for shape in (a, b)]
    for symbolic in (False, True):
        got = ours("BroadcastGradientArgs", shapes, outputs=2, symbolic=symbolic)
        assert [list(found) for found in got] == list(axes)


def test_sums_for_training() -> None:
    (y,) = ours("ReduceSumTraining", [X, np.array([0])], {"keepdims": 0})
    close(y, X.sum(0))
    (y,) = ours("ReduceSumTraining", [X, np.zeros(0, np.int64)], {"noop_with_empty_axes": 1})
    close(y, X)


# --- softmax and dropout --------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "axis", "axes"), [("", 1, (1, 2)), ("", -1, (2,)), ("_13", 1, (1,)), ("", 2, (2,))])
def test_the_gradients_of_softmax(suffix: str, axis: int, axes: tuple[int, ...]) -> None:
    x, dy = floats(2, 3, 4), floats(2, 3, 4, seed=3)
    (dx,) = ours(f"SoftmaxGrad{suffix}", [dy, softmax(x, axes)], {"axis": axis})
    close(dx, slope(lambda x: softmax(x, axes), x, dy))
    (dx,) = ours(f"LogSoftmaxGrad{suffix}", [dy, np.log(softmax(x, axes))], {"axis": axis})
    close(dx, slope(lambda x: np.log(softmax(x, axes)), x, dy))


def test_dropout_gradient_is_masked_like_the_output() -> None:
    mask, half = X > 0, np.array(0.25, np.float32)
    close(ours("DropoutGrad", [DY, mask, half])[0], np.where(mask, DY / 0.75, 0))
    close(ours("DropoutGrad", [DY, mask])[0], np.where(mask, DY / 0.5, 0))
    close(ours("DropoutGrad", [DY, mask, half, np.array(True)])[0], np.where(mask, DY / 0.75, 0))
    close(ours("DropoutGrad", [DY, np.ones_like(mask), half, np.array(False)])[0], DY)
    close(ours("TrainableDropoutGrad", [DY, mask, half.astype(np.float64)])[0], np.where(mask, DY / 0.75, 0))
    y = softmax(X, 1)
    (dx,) = ours("SoftmaxDropoutGrad", [DY, mask, y, half], {"axis": 1})
    close(dx, slope(lambda x: softmax(x, 1), X, np.where(mask, DY / 0.75, 0)))


# --- normalization --------------------------------------------------------------------------------


def normalized(x: Array, axes: tuple[int, ...]) -> Array:
    y: Array = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    return y


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("op", ["LayerNormalizationGrad", "InvertibleLayerNormalizationGrad"])
def test_the_gradients_of_layer_normalization(op: str, axis: int) -> None:
    x, dy = floats(2, 3, 4), floats(2, 3, 4, seed=3)
    axes = tuple(range(axis % 3, 3))
    scale, bias = floats(*x.shape[axis % 3 :]) + np.float32(3), floats(*x.shape[axis % 3 :], seed=2)
    mean = x.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    inputs = [dy, x, scale, mean, inverse]
    if op.startswith("Inv"):
        inputs = [dy, (normalized(x, axes) * scale + bias).astype(np.float32), scale, bias, inverse]
    dx, ds, db = ours(op, inputs, {"axis": axis}, outputs=3)
    close(dx, slope(lambda x: normalized(x, axes) * scale + bias, x, dy))
    close(ds, slope(lambda scale: normalized(x, axes) * scale, scale, dy))
    close(db, slope(lambda bias: np.zeros(x.shape) + bias, bias, dy))


def test_the_gradients_of_rms_normalization() -> None:
    x, dy, scale = floats(2, 3, 4), floats(2, 3, 4, seed=3), floats(4)

    def rms(x: Array) -> Array:
        y: Array = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return y

    dx, ds = ours("SimplifiedLayerNormalizationGrad", [dy, x, scale, rms(x)], {"axis": -1}, outputs=2)
    close(dx, slope(lambda x: x * rms(x) * scale, x, dy))
    close(ds, slope(lambda scale: x * rms(x) * scale, scale, dy))


def test_float16_is_accumulated_in_float32() -> None:
    x, dy, scale = (array.astype(np.float16) for array in (floats(2, 8), floats(2, 8, seed=3), floats(8)))
    wide = x.astype(np.float32)
    inverse = 1 / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    got = ours("LayerNormalizationGrad", [dy, x, scale, wide.mean(-1, keepdims=True), inverse], {}, outputs=3)
    assert [array.dtype for array in got] == [np.float16] * 3
    want = slope(lambda x: normalized(x, (1,)) * scale.astype(np.float64), x, dy.astype(np.float64))
    np.testing.assert_allclose(got[0], want, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("shape", [(4, 3, 2, 3), (6, 3), (2, 3, 4)])
def test_the_gradients_of_batch_normalization(shape: tuple[int, ...]) -> None:
    x, dy, scale, bias = floats(*shape), floats(*shape, seed=3), floats(3), floats(3, seed=2)
    axes, lift = (0, *range(2, len(shape))), (3, *[1] * (len(shape) - 2))
    attrs: dict[str, object] = {"epsilon": 1e-5, "momentum": 0.8}
    old = [floats(3, seed=4), np.abs(floats(3, seed=5))]
    y, *moments, mean, inverse = ours("BatchNormInternal", [x, scale, bias, *old], attrs, outputs=5)
    close(y, normalized(x, axes) * scale.reshape(lift) + bias.reshape(lift))
    close(mean, x.mean(axes))
    close(inverse, 1 / np.sqrt(x.var(axes) + 1e-5))
    for have, before, now in zip(moments, old, (x.mean(axes), x.var(axes)), strict=True):
        close(have, 0.8 * before + 0.2 * now)
    dx, ds, db = ours("BatchNormalizationGrad", [dy, x, scale, mean, inverse], {"epsilon": 1e-5}, outputs=3)
    close(dx, slope(lambda x: normalized(x, axes) * scale.reshape(lift), x, dy))
    close(ds, slope(lambda scale: normalized(x, axes) * scale.reshape(lift), scale, dy))
    close(db, dy.sum(axes))
    (y,) = ours("BatchNormInternal", [x, scale, bias, *old], {**attrs, "training_mode": 0})
    close(
        y, (x - old[0].reshape(lift)) / np.sqrt(old[1] + 1e-5).reshape(lift) * scale.reshape(lift) + bias.reshape(lift)
    )


@pytest.mark.parametrize(("momentum", "adds"), [(0.0, 0), (2.0**-20, 2), (1.0, 2)])
def test_running_moments_without_a_momentum_are_those_of_the_batch(momentum: float, adds: int) -> None:
    x, old = floats(4, 3, 2), [floats(3, seed=4), np.abs(floats(3, seed=5))]
    arrays, attrs = [x, floats(3), floats(3, seed=2), *old], {"momentum": momentum}
    moments = ours("BatchNormInternal", arrays, attrs, outputs=5)[1:3]
    for have, before, now in zip(moments, old, (x.mean((0, 2)), x.var((0, 2))), strict=True):
        close(have, momentum * before + (1 - momentum) * now)
    sums = [
        ops_of(expanded(make_model("BatchNormInternal", arrays, {"momentum": each}, outputs=5))).count("Add")
        for each in (momentum, 0.0)
    ]
    assert sums[0] - sums[1] == adds


# --- data movement --------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("symbolic", [False, True])
def test_gather_gradient_adds_to_the_source_rows(axis: int, symbolic: bool) -> None:
    x, at = floats(3, 4, 5), np.array([[0, 2, 0], [-1, 1, 2]], np.int32)
    dy = floats(*np.take(x, at, axis).shape)
    shape = np.array(x.shape)
    (dx,) = ours("GatherGrad", [shape, at, dy], {"axis": axis}, symbolic=symbolic)
    close(dx, slope(lambda x: np.take(x, at, axis), x, dy))


def test_gather_elements_and_gather_nd_gradients() -> None:
    x, at = floats(3, 4), np.array([[0, 3, 0], [1, 1, -1]])
    dy = floats(2, 3)
    (dx,) = ours("GatherElementsGrad", [dy, np.array([3, 4]), at], {"axis": 1})
    close(dx, slope(lambda x: np.take_along_axis(x[:2], at, 1), x, dy))
    rows = np.array([[0, 1], [2, 0], [0, 1]])
    (dx,) = ours("GatherNDGrad", [np.array([3, 4]), rows, floats(3)])
    close(dx, slope(lambda x: x[rows[:, 0], rows[:, 1]], x, floats(3)))


@pytest.mark.parametrize("batch_dims", [1, 2])
def test_gather_nd_gradient_with_batch_dims(batch_dims: int) -> None:
    x = floats(2, 3, 4, 2)
    at = np.random.default_rng(1).integers(0, 3 if batch_dims == 1 else 4, (2, 3, 5, 1))
    if batch_dims == 1:
        dy, forward = floats(2, 3, 5, 4, 2), lambda x: np.stack([x[b][at[b, ..., 0]] for b in range(2)])
    else:
        dy = floats(2, 3, 5, 2)
        forward = lambda x: np.stack([np.stack([x[b, c][at[b, c, :, 0]] for c in range(3)]) for b in range(2)])  # noqa: E731
    (dx,) = ours("GatherNDGrad", [np.array(x.shape), at, dy], {"batch_dims": batch_dims})
    close(dx, slope(forward, x, dy))


@pytest.mark.parametrize(
    ("slices", "bounds"),
    [
        pytest.param(np.s_[:, 1:3], ([1], [3], [1], None), marks=pytest.mark.slow),
        (np.s_[::-2, 1:100:2], ([100, 1], [-100, 100], [0, 1], [-2, 2])),
        (np.s_[1:, :-1], ([1, 0], [100, -1], None, None)),
    ],
)
def test_slice_gradient_is_zero_outside_the_slice(
    slices: tuple[slice, slice], bounds: Sequence[list[int] | None]
) -> None:
    x = floats(5, 6)
    dy = floats(*x[slices].shape)
    bound_arrays = [None if bound is None else np.array(bound) for bound in bounds]
    (dx,) = ours("SliceGrad", [dy, np.array(x.shape), *bound_arrays])
    close(dx, slope(lambda x: x[slices], x, dy))


def test_concat_and_split_gradients() -> None:
    a, b = floats(2, 3), floats(2, 5)
    joined, lengths = ours("ConcatTraining", [a, b], {"axis": 1}, outputs=2)
    assert lengths.tolist() == [3, 5]
    for symbolic in (False, True):
        parts = ours("SplitTraining", [joined, lengths], {"axis": 1}, outputs=2, symbolic=symbolic, constants=(1,))
        assert [part.tolist() for part in parts] == [a.tolist(), b.tolist()]
    parts = ours("SplitTraining", [joined, np.zeros(0, np.int64)], {"axis": 1}, outputs=2, constants=(1,))
    assert [part.shape for part in parts] == [(2, 4), (2, 4)]
    parts = ours("View", [joined, np.array([3, 4]), np.array([2, 2])], outputs=2, constants=(1, 2))
    assert [part.shape for part in parts] == [(3, 4), (2, 2)]
    close(np.concatenate([part.ravel() for part in parts]), joined.ravel())
    close(ours("ReshapeGrad", [a, floats(6)], domain="")[0], floats(6).reshape(2, 3))

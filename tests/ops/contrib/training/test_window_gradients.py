"""Gradients of convolution and pooling against finite differences of plain loops in float64."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import product

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.errors import ModelInvalid, Unsupported
from atcpy.ops.contrib.training import window_gradients
from tests.ops.contrib.cases import expanded, floats, make_model
from tests.ops.contrib.training.test_gradients import close, ours, slope
from tests.parsers.onnx.canonical import Array

Ints = tuple[int, ...]


def conv(x: Array, w: Array, strides: Ints, dilations: Ints, pads: Ints, group: int) -> Array:
    """Conv by its definition: a sum over the taps of the window."""
    count = x.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:count], pads[count:], strict=True)])
    kernel = w.shape[2:]
    outs = [
        (padded.shape[2 + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(count)
    ]  # fmt: skip
    parts = []
    for g in range(group):
        data = padded[:, g * w.shape[1] : (g + 1) * w.shape[1]]
        filters = w[g * w.shape[0] // group : (g + 1) * w.shape[0] // group]
        total = 0.0
        for tap in product(*map(range, kernel)):
            seen = tuple(
                slice(tap[i] * dilations[i], tap[i] * dilations[i] + (outs[i] - 1) * strides[i] + 1, strides[i])
                for i in range(count)
            )
            window = data[(slice(None), slice(None), *seen)]
            total = total + np.einsum("nc...,mc->nm...", window, filters[(slice(None), slice(None), *tap)])
        parts.append(total)
    return np.concatenate(parts, 1)


# shape of x, shape of w, strides, dilations, pads, group
CONVS: list[tuple[Ints, Ints, Ints, Ints, Ints, int]] = [
    ((2, 3, 6, 5), (4, 3, 3, 3), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((2, 3, 7, 6), (4, 3, 3, 2), (2, 3), (1, 1), (1, 0, 2, 1), 1),
    ((2, 4, 8, 7), (6, 2, 3, 3), (2, 2), (2, 1), (1, 1, 0, 2), 2),
    ((2, 4, 5, 5), (4, 1, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 4),
    ((3, 2, 9), (5, 2, 4), (3,), (1,), (0, 0), 1),
    ((1, 2, 4, 5, 3), (3, 2, 2, 2, 2), (2, 1, 1), (1, 2, 1), (0, 1, 1, 1, 0, 0), 1),
    ((2, 3, 4, 4), (2, 3, 1, 1), (3, 2), (1, 1), (0, 0, 0, 0), 1),
    ((1, 1, 10, 9), (2, 1, 9, 8), (1, 1), (1, 1), (0, 1, 1, 0), 1),
    ((1, 40, 4, 3), (2, 40, 2, 2), (1, 1), (1, 1), (2, 0, 0, 3), 1),
]


@pytest.mark.parametrize("case", CONVS)
def test_the_gradients_of_a_convolution(case: tuple[Ints, Ints, Ints, Ints, Ints, int]) -> None:
    x_shape, w_shape, strides, dilations, pads, group = case
    x, w = floats(*x_shape), floats(*w_shape)

    def forward(x: Array, w: Array) -> Array:
        return conv(x, w, strides, dilations, pads, group)

    dy = floats(*forward(x, w).shape)
    attrs: dict[str, object] = {"strides": strides, "dilations": dilations, "pads": pads, "group": group}
    attrs["kernel_shape"] = w_shape[2:]
    of_data, of_weights = slope(lambda x: forward(x, w), x, dy), slope(lambda w: forward(x, w), w, dy)
    for symbolic in (False, True):
        dx, dw, db = ours("ConvGrad", [dy, x, w], attrs, outputs=3, symbolic=symbolic)
        close(dx, of_data)
        close(dw, of_weights)
        close(db, dy.sum((0, *range(2, dy.ndim))))
    if strides != (3, 2):  # a transposed convolution: forward and backward are swapped
        dx, dw, _ = ours("ConvTransposeGrad", [x, dy, w], attrs, outputs=3)
        close(dx, forward(x, w))
        close(dw, of_weights)


def test_auto_pad_of_a_convolution_gradient() -> None:
    x, w = floats(1, 2, 6, 5), floats(3, 2, 3, 2)
    for auto, pads in (("SAME_UPPER", (0, 0, 1, 1)), ("SAME_LOWER", (1, 1, 0, 0)), ("VALID", (0, 0, 0, 0))):
        strides = (2, 1)

        def forward(x: Array, pads: Ints = pads) -> Array:
            return conv(x, w, (2, 1), (1, 1), pads, 1)

        dy = floats(*forward(x).shape)
        (dx,) = ours("ConvGrad", [dy, x, w], {"auto_pad": auto, "strides": strides})
        close(dx, slope(forward, x, dy))
    x, w, dy = floats(1, 2, 6, 5), floats(3, 2, 3, 2), floats(1, 3, 6, 5)
    attrs: dict[str, object] = {"auto_pad": "SAME_UPPER", "kernel_shape": [3, 2]}
    for symbolic in (False, True):  # with stride 1 the pads do not depend on the input size
        (dx,) = ours("ConvGrad", [dy, x, w], attrs, symbolic=symbolic)
        close(dx, slope(lambda x: conv(x, w, (1, 1), (1, 1), (1, 0, 1, 1), 1), x, dy))
    with pytest.raises(Unsupported, match="SAME_UPPER of unknown sizes"):
        attrs["strides"] = [2, 1]
        expanded(make_model("ConvGrad", [floats(1, 3, 6, 5), x, w], attrs, symbolic=True))


def test_unused_gradients_are_not_computed() -> None:
    x, w, dy = floats(2, 3, 6, 5), floats(4, 3, 3, 3), floats(2, 4, 4, 3)
    model = make_model("ConvGrad", [dy, x, w], {"kernel_shape": [3, 3]}, outputs=("", "dw"))
    (dw,) = atcpy.backend.run_model(model, [dy, x, w])
    close(dw, slope(lambda w: conv(x, w, (1, 1), (1, 1), (0, 0, 0, 0), 1), w, dy))


# --- pooling --------------------------------------------------------------------------------------


def text_of(shape: Ints) -> str:
    return ",".join(map(str, shape))


def pool_model(body: str, x: str, y: Ints) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 19]>
        g (float[{x}] x, float[n,{text_of(y[1:])}] dy) => (y, dx_out) <float[{x}] dx>
          {{ {body} dx_out = Identity(dx) }}"""
    )


def pooled(x: Array, reduce: Callable[..., Array], kernel: Ints, strides: Ints, pads: Ints, filler: float) -> Array:
    padded = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])], constant_values=filler)
    views = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))
    y: Array = reduce(views[:, :, :: strides[0], :: strides[1]], axis=(4, 5))
    return y


POOLS: list[tuple[Ints, Ints, Ints, Ints]] = [
    ((2, 3, 6, 6), (2, 2), (2, 2), (0, 0, 0, 0)),
    ((2, 3, 7, 6), (3, 2), (2, 1), (1, 0, 1, 1)),
    ((1, 2, 5, 7), (3, 3), (3, 2), (0, 1, 1, 0)),
]


@pytest.mark.parametrize(("shape", "kernel", "strides", "pads"), POOLS)
@pytest.mark.parametrize("symbolic", [False, True])
def test_max_pool_gradient_goes_to_the_maximum(
    shape: Ints, kernel: Ints, strides: Ints, pads: Ints, symbolic: bool
) -> None:
    x = floats(*shape)

    def forward(x: Array) -> Array:
        return pooled(x, np.max, kernel, strides, pads, -np.inf)

    dy = floats(*forward(x).shape)
    attrs = f"kernel_shape = {list(kernel)}, strides = {list(strides)}, pads = {list(pads)}"
    body = f"y, at = MaxPool<{attrs}>(x) dx = MaxPoolGrad<{attrs}>(dy, at)"
    model = pool_model(body, "n,c,h,w" if symbolic else text_of(shape), dy.shape)
    y, dx = atcpy.backend.run_model(model, [x, dy])
    close(y, forward(x))
    close(dx, slope(forward, x, dy))


@pytest.mark.parametrize(("shape", "kernel", "strides", "pads"), POOLS)
@pytest.mark.parametrize("with_pads", [0, 1])
def test_average_pool_gradient_is_shared_by_the_window(
    shape: Ints, kernel: Ints, strides: Ints, pads: Ints, with_pads: int
) -> None:
    x = floats(*shape)

    def forward(x: Array) -> Array:
        filled = pooled(x, np.sum, kernel, strides, pads, 0)
        return filled / pooled(np.ones_like(x), np.sum, kernel, strides, pads, with_pads)

    dy = floats(*forward(x).shape)
    attrs = f"kernel_shape = {list(kernel)}, strides = {list(strides)}, pads = {list(pads)}"
    attrs += f", count_include_pad = {with_pads}"
    body = f"y = AveragePool<{attrs}>(x) dx = AveragePoolGrad<{attrs}>(dy)"
    y, dx = atcpy.backend.run_model(pool_model(body, f"n,{text_of(shape[1:])}", dy.shape), [x, dy])
    close(y, forward(x))
    close(dx, slope(forward, x, dy))


@pytest.mark.parametrize("with_pads", [0, 1])
def test_average_pool_gradient_with_ceil_mode(with_pads: int) -> None:
    x = floats(1, 2, 6, 8)
    attrs = (
        f"kernel_shape = [3, 3], strides = [2, 2], pads = [0, 1, 0, 1], ceil_mode = 1, count_include_pad = {with_pads}"
    )
    body = f"y = AveragePool<{attrs}>(x) dx = AveragePoolGrad<{attrs}>(dy)"
    run = atcpy.backend.prepare(pool_model(body, "n,2,6,8", (1, 2, 3, 5))).run
    dy = floats(1, 2, 3, 5)

    def forward(x: Array) -> Array:
        return np.asarray(run([x.astype(np.float32), dy])[0], np.float64)

    _, dx = run([x, dy])
    want = np.stack([  # the op is linear
        (forward(np.eye(96, dtype=np.float32)[at].reshape(x.shape)) * dy).sum() for at in range(96)
    ]).reshape(x.shape)  # fmt: skip
    close(np.asarray(dx), want)


def test_average_pool_gradient_without_a_declared_shape_is_refused() -> None:
    with pytest.raises(Unsupported, match="the shape of its result is not stated"):
        expanded(make_model("AveragePoolGrad", [floats(1, 2, 3, 3)], {"kernel_shape": [2, 2]}, domain=""))


@pytest.mark.parametrize(
    ("shape", "kernel", "pads", "refusal"),
    [((4, 4), (4, 4), (0, 0, 0, 0), ""), ((4, 5), (2, 2), (0, 0, 0, 0), "a result of 20 elements"),
     ((4, 4), (1, 17), (0, 7, 0, 7), "kernel_shape"), ((4, 4), (1, 16), (0, 6, 0, 6), ""),
     ((4, 4), (2, 3), (0, 1, 1, 2), "5 windows along spatial dim 1"), ((4, 4), (2, 3), (0, 1, 1, 1), "")],
)  # fmt: skip
def test_average_pool_gradient_bounds_its_sizes(
    monkeypatch: pytest.MonkeyPatch, shape: Ints, kernel: Ints, pads: Ints, refusal: str
) -> None:
    monkeypatch.setattr(window_gradients, "_MAX_ELEMENTS", 16)
    sizes = [1 + n + pads[axis] + pads[axis + 2] - kernel[axis] for axis, n in enumerate(shape)]
    body = f"y = Identity(dy) dx = AveragePoolGrad<kernel_shape = {list(kernel)}, pads = {list(pads)}>(dy)"
    model = pool_model(body, f"n,2,{text_of(shape)}", (1, 2, *sizes))
    with pytest.raises(ModelInvalid, match=refusal) if refusal else nullcontext():
        expanded(model)


def test_max_pool_gradient_from_indices_needs_a_declared_shape() -> None:
    dy, at = floats(1, 2, 2, 2), np.array([0, 3, 8, 8, 12, 13, 14, 31]).reshape(1, 2, 2, 2)
    model = make_model("MaxPoolGrad", [dy, at], domain="")
    with pytest.raises(Unsupported, match="the shape of its result is not stated"):
        expanded(model)
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("o0", 1, ["n", 2, 4, 4]))
    (dx,) = atcpy.backend.run_model(model, [dy, at])
    want = np.zeros(32)
    np.add.at(want, at.ravel(), dy.ravel())
    close(dx, want.reshape(1, 2, 4, 4))

"""Training graphs as ONNX Runtime's tools write them, against numpy: a CNN is trained, a transformer differentiated."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import onnx
import pytest

import atcpy
from tests.ops.contrib.training.test_gradients import erf, slope
from tests.ops.contrib.training.test_window_gradients import conv, pooled
from tests.parsers.onnx.canonical import Array

STEPS, BATCH, RATE = 30, 12, 0.1
SHAPES = {"w1": (4, 1, 3, 3), "b1": (4,), "w2": (6, 4, 3, 3), "b2": (6,), "u": (3, 54), "c": (3,)}
HEAD = '<ir_version: 8, opset_import: ["" : 14, "com.microsoft" : 1]>'
FIRST = "kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1], dilations = [1, 1], group = 1"
SECOND = "kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2], dilations = [1, 1], group = 1"
POOL = "kernel_shape = [2, 2], strides = [2, 2]"
# The forward pass and, in ONNX Runtime's order, the gradients.
GRADIENTS = f"""
    a1 = Conv<{FIRST}>(x, w1, b1)
    r1 = Relu(a1)
    p, mask = MaxPool<{POOL}>(r1)
    a2 = Conv<{SECOND}>(p, w2, b2)
    r2 = Relu(a2)
    h = Flatten(r2)
    z = Gemm<transB = 1>(h, u, c)
    loss, log_prob = SoftmaxCrossEntropyLoss<reduction = "mean">(z, labels)
    z_grad = com.microsoft.SoftmaxCrossEntropyLossGrad<reduction = "mean">(one, log_prob, labels)
    c_grad = ReduceSum<keepdims = 0>(z_grad, rows)
    u_grad = Gemm<transA = 1, beta = 0.0>(z_grad, h)
    h_grad = Gemm<beta = 0.0>(z_grad, u)
    r2_shape = Shape(r2)
    r2_grad = Reshape(h_grad, r2_shape)
    a2_grad = com.microsoft.ReluGrad(r2_grad, r2)
    p_grad, w2_grad, b2_grad = com.microsoft.ConvGrad<{SECOND}>(a2_grad, p, w2)
    r1_grad = MaxPoolGrad<{POOL}>(p_grad, mask)
    a1_grad = com.microsoft.ReluGrad(r1_grad, r1)
    nothing, w1_grad, b1_grad = com.microsoft.ConvGrad<{FIRST}>(a1_grad, x, w1)
"""


def text_of(shape: tuple[int, ...]) -> str:
    return f"float[{','.join(map(str, shape))}]"


def data() -> tuple[Array, Array]:
    """Pictures with a bright stripe, whose row is the class."""
    rng = np.random.default_rng(5)
    labels = np.arange(BATCH) % 3
    pictures = rng.normal(0, 0.1, (BATCH, 1, 12, 12)).astype(np.float32)
    for picture, label in zip(pictures, labels, strict=True):
        picture[0, 3 * label + 1] += 1
    return pictures, labels.astype(np.int64)


def start() -> dict[str, Array]:
    rng = np.random.default_rng(6)
    return {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in SHAPES.items()}


def gradients(x: Array, labels: Array, p: dict[str, Array]) -> tuple[float, dict[str, Array]]:
    """The loss and the gradients of the parameters."""
    ones = (1, 1)
    a1 = conv(x, p["w1"], ones, ones, (1, 1, 1, 1), 1) + p["b1"][:, None, None]
    r1 = np.maximum(a1, 0)
    seen = pooled(r1, np.max, (2, 2), (2, 2), (0, 0, 0, 0), 0)
    a2 = conv(seen, p["w2"], (2, 2), ones, (1, 1, 1, 1), 1) + p["b2"][:, None, None]
    h = np.maximum(a2, 0).reshape(len(x), -1)
    z = h @ p["u"].T + p["c"]
    logs = z - z.max(1, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(1, keepdims=True))
    z_grad = (np.exp(logs) - np.eye(3)[labels]) / len(x)
    a2_grad = (z_grad @ p["u"]).reshape(a2.shape) * (a2 > 0)
    seen_grad, w2_grad = of_conv(seen, p["w2"], a2_grad, 2)
    r1_grad = np.zeros_like(r1)
    for n, c, i, j in np.ndindex(seen.shape):
        window = r1[n, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        di, dj = divmod(int(window.argmax()), 2)
        r1_grad[n, c, 2 * i + di, 2 * j + dj] += seen_grad[n, c, i, j]
    a1_grad = r1_grad * (a1 > 0)
    axes = (0, 2, 3)
    found = {"w1": of_conv(x, p["w1"], a1_grad, 1)[1], "b1": a1_grad.sum(axes), "w2": w2_grad}
    found |= {"b2": a2_grad.sum(axes), "u": z_grad.T @ h, "c": z_grad.sum(0)}
    return float(-logs[np.arange(len(x)), labels].mean()), found


def of_conv(x: Array, w: Array, dy: Array, step: int) -> tuple[Array, Array]:
    """The gradients of a convolution with one pad around, tap by tap."""
    padded, w_grad = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), np.zeros(w.shape)
    x_grad = np.zeros(padded.shape)
    height, width = dy.shape[2:]
    for i, j in product(range(3), range(3)):
        at = np.s_[:, :, i : i + step * height - step + 1 : step, j : j + step * width - step + 1 : step]
        w_grad[:, :, i, j] = np.einsum("nmyx,ncyx->mc", dy, padded[at])
        x_grad[at] += np.einsum("nmyx,mc->ncyx", dy, w[:, :, i, j])
    return x_grad[:, :, 1:-1, 1:-1], w_grad


@cache
def in_numpy() -> tuple[list[float], dict[str, Array]]:
    """The loss before each step, and the parameters at the end."""
    x, labels = data()
    p = {name: array.astype(np.float64) for name, array in start().items()}
    losses = []
    for _ in range(STEPS):
        loss, grads = gradients(x.astype(np.float64), labels, p)
        p = {name: array - RATE * grads[name] for name, array in p.items()}
        losses.append(loss)
    return losses, p


def assert_trained(state: dict[str, Array], expected_state: dict[str, Array]) -> None:
    for name, array in expected_state.items():
        np.testing.assert_allclose(state[name], array, rtol=2e-3, atol=2e-4)


@pytest.mark.slow
def test_a_single_training_graph_reduces_the_loss() -> None:
    """Forward, backward and SGD together; the batch is open."""
    ins = ", ".join(f"{text_of(shape)} {name}" for name, shape in SHAPES.items())
    outs = ", ".join(f"{text_of(shape)} {name}_new" for name, shape in SHAPES.items())
    update = "\n".join(f"{name}_new = com.microsoft.SGDOptimizer(rate, {name}, {name}_grad)" for name in SHAPES)
    model = onnx.parser.parse_model(
        f"""{HEAD} step (float[n,1,12,12] x, int64[n] labels, {ins}) => (float loss, {outs})
        <float one = {{1.0}}, float[1] rate = {{{RATE}}}, int64[1] rows = {{0}}> {{ {GRADIENTS} {update} }}"""
    )
    step, state, losses = atcpy.backend.prepare(model), start(), []
    expected_losses, expected_state = in_numpy()
    for loss in expected_losses:
        found, *new = step.run([*data(), *state.values()])
        state = dict(zip(state, new, strict=True))
        losses.append(float(found))
        np.testing.assert_allclose(found, loss, rtol=1e-3)
    assert_trained(state, expected_state)
    assert losses[-1] < losses[0] / 4


@pytest.mark.slow
def test_training_artifacts_reduce_the_loss() -> None:
    """Two graphs: one adds the gradients of two halves of the batch, the other moves the sequence of parameters."""
    ins = ", ".join(f"{text_of(shape)} {name}, {text_of(shape)} {name}_buffer" for name, shape in SHAPES.items())
    outs = ", ".join(f"bool[1] {name}_done" for name in SHAPES)
    add = "\n".join(
        f"{name}_done = com.microsoft.InPlaceAccumulatorV2({name}_buffer, {name}_grad, lazy_reset_grad)"
        for name in SHAPES
    )
    training = onnx.parser.parse_model(
        f"""{HEAD}
        training (float[n,1,12,12] x, int64[n] labels, {ins}, bool[1] lazy_reset_grad) => (float loss, {outs})
        <float one = {{0.5}}, int64[1] rows = {{0}}> {{ {GRADIENTS} {add} }}"""
    )
    optimizer = onnx.parser.parse_model(
        f"""{HEAD} optimizer (float[1] learning_rate, seq(float) params, seq(float) gradients) => (bool[1] done)
        {{ done = com.microsoft.SGDOptimizerV2(learning_rate, params, gradients) }}"""
    )
    step, move = atcpy.backend.prepare(training), atcpy.backend.prepare(optimizer)
    x, labels = data()
    buffers = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    state, rate = start(), np.array([RATE], np.float32)
    expected_losses, expected_state = in_numpy()
    for loss in expected_losses:
        losses = []
        for half in range(2):
            own = [array for name in SHAPES for array in (state[name], buffers[name])]
            inputs = [x[half::2], labels[half::2], *own, np.array([half == 0])]
            found, *flags_and_buffers = step.run(inputs)
            losses.append(float(found))
            assert all(flag.tolist() == [True] for flag in flags_and_buffers[: len(SHAPES)])
            buffers = dict(zip(SHAPES, flags_and_buffers[len(SHAPES) :], strict=True))
        np.testing.assert_allclose(np.mean(losses), loss, rtol=1e-3)
        done, params = move.run([rate, list(state.values()), list(buffers.values())])
        assert done.tolist() == [True]
        state = dict(zip(SHAPES, params, strict=True))
    assert_trained(state, expected_state)


TRANSFORMER = """
    h0 = Gather(emb, ids)
    h, mean, inverse = LayerNormalization<axis = -1, epsilon = 0.00001>(h0, s, b)
    q = MatMul(h, wq) k = MatMul(h, wk) v = MatMul(h, wv)
    a = com.microsoft.FusedMatMul<alpha = 0.5, transB = 1>(q, k)
    p = Softmax<axis = -1>(a)
    o = MatMul(p, v)
    r = Add(h, o)
    u = MatMul(r, w1)
    g = com.microsoft.BiasGelu(u, b1)
    z = MatMul(g, w2)
    flat = Reshape(z, classes) target = Reshape(labels, all)
    loss, logs = com.microsoft.SoftmaxCrossEntropyLossInternal(flat, target, , ignored)
    flat_grad = com.microsoft.SoftmaxCrossEntropyLossInternalGrad(one, logs, target, , ignored)
    z_shape = Shape(z)
    z_grad = Reshape(flat_grad, z_shape)
    g_flat = Reshape(g, hidden)
    w2_grad = Gemm<transA = 1>(g_flat, flat_grad)
    g_grad = com.microsoft.FusedMatMul<transB = 1>(z_grad, w2)
    u_grad = com.microsoft.BiasGeluGrad_dX(g_grad, u, b1)
    b1_grad = ReduceSum<keepdims = 0>(u_grad, rows)
    u_flat = Reshape(u_grad, hidden) r_flat = Reshape(r, inner)
    w1_grad = Gemm<transA = 1>(r_flat, u_flat)
    r_grad = com.microsoft.FusedMatMul<transB = 1>(u_grad, w1)
    p_grad = com.microsoft.FusedMatMul<transB = 1>(r_grad, v)
    v_grad = com.microsoft.FusedMatMul<transA = 1>(p, r_grad)
    a_grad = com.microsoft.SoftmaxGrad_13<axis = -1>(p_grad, p)
    q_grad = com.microsoft.FusedMatMul<alpha = 0.5>(a_grad, k)
    k_grad = com.microsoft.FusedMatMul<alpha = 0.5, transA = 1>(a_grad, q)
    h_flat = Reshape(h, inner)
    q_flat = Reshape(q_grad, inner) k_flat = Reshape(k_grad, inner) v_flat = Reshape(v_grad, inner)
    wq_grad = Gemm<transA = 1>(h_flat, q_flat)
    wk_grad = Gemm<transA = 1>(h_flat, k_flat)
    wv_grad = Gemm<transA = 1>(h_flat, v_flat)
    by_q = com.microsoft.FusedMatMul<transB = 1>(q_grad, wq)
    by_k = com.microsoft.FusedMatMul<transB = 1>(k_grad, wk)
    by_v = com.microsoft.FusedMatMul<transB = 1>(v_grad, wv)
    h_grad = Sum(r_grad, by_q, by_k, by_v)
    h0_grad, s_grad, b_grad = com.microsoft.LayerNormalizationGrad<axis = -1>(h_grad, h0, s, mean, inverse)
    emb_shape = Shape(emb)
    emb_grad = com.microsoft.GatherGrad<axis = 0>(emb_shape, ids, h0_grad)
"""


def transformer_loss(p: dict[str, Array], ids: Array, labels: Array) -> Array:
    """One attention head and an MLP; labels of 0 are ignored."""
    h = p["emb"][ids]
    h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5) * p["s"] + p["b"]
    weights = np.exp(0.5 * (h @ p["wq"]) @ (h @ p["wk"]).transpose(0, 2, 1))
    u = (h + weights / weights.sum(-1, keepdims=True) @ (h @ p["wv"])) @ p["w1"] + p["b1"]
    logs = u * 0.5 * (1 + erf(u / np.sqrt(2))) @ p["w2"]
    logs = logs - np.log(np.exp(logs).sum(-1, keepdims=True))
    picked = np.take_along_axis(logs, labels[..., None], -1)[..., 0]
    return np.asarray(-picked[labels != 0].mean())


def test_the_gradients_of_a_transformer() -> None:
    """As ORTModule differentiates one; batch and sequence length are symbolic."""
    shapes = {"emb": (7, 4), "s": (4,), "b": (4,), "wq": (4, 4), "wk": (4, 4), "wv": (4, 4)}
    shapes |= {"w1": (4, 6), "b1": (6,), "w2": (6, 7)}
    ins = ", ".join(f"{text_of(shape)} {name}" for name, shape in shapes.items())
    outs = ", ".join(f"{text_of(shape)} {name}_grad" for name, shape in shapes.items())
    model = onnx.parser.parse_model(
        f"""{HEAD} step (int64[n,t] ids, int64[n,t] labels, {ins}) => (float loss, {outs})
        <float one = {{1.0}}, int64 ignored = {{0}}, int64[2] rows = {{0, 1}}, int64[2] classes = {{-1, 7}},
         int64[1] all = {{-1}}, int64[2] hidden = {{-1, 6}}, int64[2] inner = {{-1, 4}}> {{ {TRANSFORMER} }}"""
    )
    rng = np.random.default_rng(3)
    p = {name: rng.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}
    ids, labels = np.array([[1, 2, 1], [6, 0, 3]]), np.array([[2, 0, 5], [6, 1, 0]])
    wide = {name: array.astype(np.float64) for name, array in p.items()}
    loss, *grads = atcpy.backend.run_model(model, [ids, labels, *p.values()])
    np.testing.assert_allclose(loss, transformer_loss(wide, ids, labels), rtol=1e-5)
    for (name, array), grad in zip(wide.items(), grads, strict=True):
        want = slope(lambda new: transformer_loss({**wide, name: new}, ids, labels), array, np.ones(()))  # noqa: B023
        np.testing.assert_allclose(grad, want, rtol=1e-3, atol=1e-5)

"""Gradients, losses and fused products against numpy."""

from pathlib import Path

import numpy as np

from tests.parsers.tensorflow.cases import Case, check

RNG = np.random.default_rng(23)
X = (RNG.standard_normal((4, 5)) * 3).astype(np.float32)
G = RNG.standard_normal((4, 5)).astype(np.float32)


def _log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def test_gradients(tmp_path: Path) -> None:
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    elu = np.where(X > 0, X, np.expm1(X))
    selu = (scale * np.where(X > 0, X, alpha * np.expm1(X))).astype(np.float32)
    root, unit, image = np.sqrt(np.abs(X) + 1), np.tanh(X), RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    cases = [
        Case("ReluGrad", [G, X], lambda g, x: g * (x > 0)),
        Case("Relu6Grad", [G, X], lambda g, x: g * ((x > 0) & (x < 6))),
        Case("LeakyReluGrad", [G, X], lambda g, x: np.where(x > 0, g, g * np.float32(0.3)), {"alpha": 0.3}),
        Case("LeakyReluGrad", [G, X], lambda g, x: np.where(x > 0, g, g * np.float32(0.2))),
        Case("EluGrad", [G, elu], lambda g, y: np.where(y < 0, g * (y + 1), g)),
        Case("SeluGrad", [G, selu], (G * np.where(X > 0, scale, scale * alpha * np.exp(X))).astype(np.float32)),
        Case("SoftplusGrad", [G, X], lambda g, x: g / (np.exp(-x) + 1)),
        Case("SoftsignGrad", [G, X], lambda g, x: g / (1 + np.abs(x)) ** 2),
        Case("SigmoidGrad", [unit, G], lambda y, g: g * y * (1 - y)),
        Case("TanhGrad", [unit, G], lambda y, g: g * (1 - y * y)),
        Case("SqrtGrad", [root, G], lambda y, g: g * 0.5 / y),
        Case("RsqrtGrad", [root, G], lambda y, g: g * -0.5 * y**3),
        Case("InvGrad", [root, G], lambda y, g: -g * y * y),
        Case("ReciprocalGrad", [root, G], lambda y, g: -g * y * y, is_dynamic=True),
        Case("BiasAddGrad", [image], lambda g: g.sum((0, 1, 2)), tolerance=1e-5),
        Case("BiasAddGrad", [image], lambda g: g.sum((0, 2, 3)), {"data_format": "NCHW"}, tolerance=1e-5),
    ]
    check(tmp_path, [case if case.tolerance else _loose(case) for case in cases])


def _loose(case: Case) -> Case:
    """An absolute tolerance where TensorFlow's formula cancels."""
    return Case(case.op, case.inputs, case.expected, case.attrs, case.is_dynamic, tolerance=2e-5)


def test_losses(tmp_path: Path) -> None:
    labels = np.abs(G) / np.abs(G).sum(1, keepdims=True)
    classes = np.int32([0, 4, 2, 2])
    hot = np.eye(5, dtype=np.float32)[classes]
    soft = np.exp(_log_softmax(X))
    rows = np.arange(4)
    sparse = (-_log_softmax(X)[rows, classes], soft - hot)
    cases = [
        Case("SoftmaxCrossEntropyWithLogits", [X, labels], (-(labels * _log_softmax(X)).sum(1), soft - labels)),
        Case("SparseSoftmaxCrossEntropyWithLogits", [X, classes], sparse),
        Case("SparseSoftmaxCrossEntropyWithLogits", [X, classes.astype("i8")], sparse, is_dynamic=True),
    ]
    check(tmp_path, [Case(c.op, c.inputs, c.expected, c.attrs, c.is_dynamic, tolerance=2e-5) for c in cases])


def test_fused_products(tmp_path: Path) -> None:
    w, b = RNG.standard_normal((5, 3)).astype(np.float32), RNG.standard_normal(3).astype(np.float32)

    def fused(*steps: str, **attrs: object) -> dict[str, object]:
        return {"fused_ops": list(steps), "num_args": 1, **attrs}

    linear = X @ w + b
    cases = [
        Case("_FusedMatMul", [X, w, b], linear, fused("BiasAdd")),
        Case("_FusedMatMul", [X, w, b], np.maximum(linear, 0), fused("BiasAdd", "Relu")),
        Case("_FusedMatMul", [X, w, b], np.tanh(linear), fused("BiasAdd", "Tanh")),
        Case("_FusedMatMul", [X, w, b], np.clip(linear, 0, 6), fused("BiasAdd", "Relu6")),
        Case("_FusedMatMul", [X, w.T.copy(), b], np.where(linear > 0, linear, linear * np.float32(0.1)),
             fused("BiasAdd", "LeakyRelu", leakyrelu_alpha=0.1, transpose_b=True)),
        Case("AccumulateNV2", [X, G], X + G, {"N": 2}),
        Case("SegmentMaxV2", [X, np.int32([0, 0, 1, 1]), np.int32(2)], X.reshape(2, 2, 5).max(1)),
    ]  # fmt: skip
    check(tmp_path, [Case(c.op, c.inputs, c.expected, c.attrs, tolerance=1e-5) for c in cases])

"""Support vector machines: a kernel between the rows and the support vectors, then sums over these by class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from atcpy.ir import DType, Engine, Node, Reject, TensorDesc, Value
from atcpy.ir.tensor import Array
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, register_operator
from atcpy.ops.core.strided import rejects_value
from atcpy.ops.ml.linear import product
from atcpy.ops.ml.record import float_features, floats, ints, ml
from atcpy.ops.ml.scores import (
    label_above,
    label_of_best,
    labels_of,
    of_two_classes,
    pick_label,
    post_transform,
    transform_of,
)

_LOWEST_PROBABILITY = 1e-7


@ml("SVMRegressor", "X")
def svm_regressor(e: Expansion) -> Value:
    """The kernels times the coefficients, or without support vectors the rows; 1 or −1 for a model of one class."""
    x, vectors = float_features(e), e.node.int_attr("n_supports", 0)
    coefficients, rho = floats(e, "coefficients").reshape(1, -1), floats(e, "rho")[:1]
    if vectors:
        x = _kernel(e, x, _support_vectors(e, vectors))
    y = product(e, x, coefficients, rho)
    if e.node.int_attr("one_class", 0):
        return e.op("Where", e.op("Greater", y, e.like(0.0, y)), e.like(1.0, y), e.like(-1.0, y))
    return y


@ml("SVMClassifier", "X", outputs=(1, 2))
def svm_classifier(e: Expansion) -> Sequence[Value]:
    """Each pair of classes has a score, which is a vote; probabilities are coupled from those of all pairs."""
    labels, counts = labels_of(e), ints(e, "vectors_per_class")
    if not counts.sum():
        return _linear(e, labels)
    classes = len(labels)
    if classes < 2 or len(counts) != classes:
        raise e.invalid(f"{classes} labels, vectors_per_class of {len(counts)} classes")
    kernel = _kernel(e, float_features(e), _support_vectors(e, int(counts.sum())))
    scores = product(e, kernel, _pair_coefficients(e, counts), _of_pairs(e, "rho", classes))
    if len(floats(e, "prob_a")):
        shares = _pair_probabilities(e, scores, classes)
        coupled = e.op("PairwiseCoupling", shares, classes=classes)
        return [_winner(e, scores, labels), post_transform(e, coupled, classes)]
    if classes > 2:
        return [_winner(e, scores, labels), post_transform(e, scores, len(list(combinations(range(classes), 2))))]
    return [_winner(e, scores, labels), of_two_classes(e, scores, is_share=transform_of(e) != "NONE")]


def _linear(e: Expansion, labels: Array) -> Sequence[Value]:
    """A score for each class, as liblinear has it; ONNX Runtime prefers the second of two classes."""
    classes = max(len(labels), 1)
    coefficients = floats(e, "coefficients")
    rho = np.repeat(floats(e, "rho")[:1], classes)
    scores = product(e, float_features(e), coefficients.reshape(classes, -1), rho)
    label = label_of_best(e, scores, labels)
    if classes == 2 and not len(floats(e, "prob_a")):
        highest = e.op("ReduceMax", scores, e.const([1], label="axis"))
        enough, kind = (0.5, "GreaterOrEqual") if (coefficients >= 0).all() else (0.0, "Greater")
        wins = e.squeeze(e.op(kind, highest, e.like(enough, highest)), 1)
        best = e.op("ArgMax", scores, axis=1, keepdims=0)
        label = pick_label(e, e.op("Where", wins, e.const(1, label="second"), best), labels)
    return [label, post_transform(e, scores, classes)]


def _support_vectors(e: Expansion, vectors: int) -> Array:
    elements = floats(e, "support_vectors")
    if len(elements) % vectors:
        raise e.invalid(f"support_vectors has {len(elements)} elements for {vectors} vectors")
    return elements.reshape(vectors, -1)


def _kernel(e: Expansion, x: Value, vectors: Array) -> Value:
    """Return the kernel function of each row and each support vector."""
    gamma, coef0, degree = [float(number) for number in (*floats(e, "kernel_params"), 0, 0, 0)][:3]
    bias = np.full(len(vectors), coef0, np.float32)
    match e.node.str_attr("kernel_type", "LINEAR"):
        case "LINEAR":
            return product(e, x, vectors, np.zeros(0, np.float32))
        case "POLY":
            inner = product(e, x, vectors, bias, gamma)
            return e.op("Pow", inner, e.like(degree, inner))
        case "SIGMOID":
            return e.op("Tanh", product(e, x, vectors, bias, gamma))
        case "RBF":
            return _rbf(e, x, vectors, gamma)
        case other:
            raise e.invalid(f"kernel_type = {other}")


def _rbf(e: Expansion, x: Value, vectors: Array, gamma: float) -> Value:
    """exp(−γ · ‖x − v‖²), where ‖x − v‖² is ‖x‖² + ‖v‖² − 2·x·v. Rows and vectors are moved to the vectors' mean first,
    so that the sum cancels no more than their spread.
    """
    mean = vectors.mean(0, dtype=np.float64).astype(np.float32)
    moved, centred = e.op("Sub", x, e.const(mean, label="mean")), vectors - mean
    squares = np.square(centred.astype(np.float64)).sum(1)
    inner = product(e, moved, centred, (-gamma * squares).astype(np.float32), 2 * gamma)
    own = e.scale(e.op("ReduceSumSquare", moved, e.const([1], label="axis")), gamma)
    return e.op("Exp", e.op("Min", e.op("Sub", inner, own), e.like(0.0, inner)))


def _of_pairs(e: Expansion, name: str, classes: int) -> Array:
    numbers = floats(e, name)
    if len(numbers) < classes * (classes - 1) // 2:
        raise e.invalid(f"{name} has {len(numbers)} numbers for {classes} classes")
    return numbers[: classes * (classes - 1) // 2]


def _pair_coefficients(e: Expansion, counts: Array) -> Array:
    """Return a row of coefficients for each pair of classes: the model has them for each class and each other one."""
    classes, ends = len(counts), np.cumsum(counts)
    coefficients = floats(e, "coefficients")
    if len(coefficients) != (classes - 1) * ends[-1]:
        raise e.invalid(f"{len(coefficients)} coefficients for {classes} classes and {ends[-1]} support vectors")
    coefficients = coefficients.reshape(classes - 1, -1)
    rows = []
    for i, j in combinations(range(classes), 2):
        row = np.zeros(int(ends[-1]), np.float32)
        of_i, of_j = (slice(int(ends[k] - counts[k]), int(ends[k])) for k in (i, j))
        row[of_i], row[of_j] = coefficients[j - 1, of_i], coefficients[i, of_j]
        rows.append(row)
    return np.stack(rows)


def _winner(e: Expansion, scores: Value, labels: Array) -> Value:
    """Return the label with most votes: a score above zero is one for the first class of the pair."""
    classes = len(labels)
    if classes == 2:
        return label_above(e, e.op("Neg", scores), -1e-45, labels)
    pairs = list(combinations(range(classes), 2))
    # A pair votes for the second class; if the first wins, it takes that vote back.
    first, second = (np.eye(classes, dtype=np.float32)[[pair[k] for pair in pairs]] for k in (0, 1))
    wins = e.cast(e.op("Greater", scores, e.like(0.0, scores)), DType.FLOAT32)
    return label_of_best(e, product(e, wins, (first - second).T, second.sum(0)), labels)


def _pair_probabilities(e: Expansion, scores: Value, classes: int) -> Value:
    """Return σ(−(a · score + b)), which Platt's method fitted."""
    a, b = (e.const(-_of_pairs(e, name, classes), label=name) for name in ("prob_a", "prob_b"))
    share = e.op("Sigmoid", e.op("Add", e.op("Mul", scores, a), b))
    return e.op("Clip", share, e.like(_LOWEST_PROBABILITY, share), e.like(1 - _LOWEST_PROBABILITY, share))


# --- PairwiseCoupling: csrc/ml/pairwise_coupling.c says what it computes --------------------------


def infer_coupling(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A probability for each class."""
    x = node.operand(0).desc
    return [TensorDesc.plain(x.dtype, None if x.shape is None else (x.shape[0], node.int_attr("classes", 2)))]


def supports_coupling(node: Node) -> Iterable[Reject]:
    """Known shapes."""
    yield from rejects_value(node, node.operand(0).desc)


def lower_coupling(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    rows, classes = node.output.desc.static_shape
    if rows:
        yield KernelCall("pairwise_coupling", tuple(node.operands), (node.output,), {"rows": rows, "classes": classes})


register_operator(
    OpDef(
        name="PairwiseCoupling",
        infer=infer_coupling,
        engines={Engine.AICPU: supports_coupling},
        lower=lower_coupling,
    )
)

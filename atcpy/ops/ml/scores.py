"""What classifiers and regressors do with their scores: the attribute `post_transform`, and the labels.

Where the standard is vague (two classes with one score, classes that no leaf has), this is what ONNX Runtime does.
"""

from __future__ import annotations

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ir.tensor import Array
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.ml.record import ints, texts

_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")  # numbered as TreeEnsemble does
_NEARLY_ZERO = 1e-7


def labels_of(e: Expansion) -> Array:
    """Return the labels of the classes: integers, or texts as objects; the attribute has one of two names."""
    strings = texts(e, "classlabels_strings")
    if strings:
        return np.array(strings, np.object_)
    return np.concatenate([ints(e, "classlabels_ints"), ints(e, "classlabels_int64s")])


def pick_label(e: Expansion, index: Value, labels: Array) -> Value:
    """Return the label of the class with this index in each row."""
    if labels.dtype != np.object_ and np.array_equal(labels, np.arange(len(labels))):
        return index
    return e.op("Gather", e.const(labels, label="labels"), index)


def label_of_best(e: Expansion, scores: Value, labels: Array) -> Value:
    """Return the label of the highest score in each row, of equal ones the first."""
    return pick_label(e, e.op("ArgMax", scores, axis=1, keepdims=0), labels)


def label_above(e: Expansion, score: Value, threshold: float, labels: Array) -> Value:
    """Return the second label where the one score of a row is above a threshold, else the first."""
    above = e.op("Greater", e.squeeze(score, 1), e.like(threshold, score))
    return pick_label(e, e.cast(above, DType.INT64), labels)


def transform_of(e: Expansion) -> str:
    """Return the name of the node's transform; TreeEnsemble gives its number."""
    value = e.node.attrs.get("post_transform", "NONE")
    if isinstance(value, int):
        value = _TRANSFORMS[value] if 0 <= value < len(_TRANSFORMS) else str(value)
    if value not in _TRANSFORMS:
        raise e.invalid(f"post_transform = {value}")
    return str(value)


def post_transform(e: Expansion, scores: Value, columns: int) -> Value:
    """Apply the node's transform to rows of scores; to one column, ONNX Runtime applies PROBIT alone."""
    name = transform_of(e)
    if columns == 1 and name != "PROBIT":
        return scores
    match name:
        case "LOGISTIC":
            return e.op("Sigmoid", scores)
        case "SOFTMAX":
            return e.op("Softmax", scores, axis=-1)
        case "SOFTMAX_ZERO":
            return _softmax_zero(e, scores)
        case "PROBIT":
            return _probit(e, scores)
    return scores


def of_two_classes(e: Expansion, score: Value, *, is_share: bool) -> Value:
    """Return the scores of two classes of which the second has one: LOGISTIC applies to the score and its opposite;
    else the first has 1 − score if the score is a share, or its opposite, whatever the transform.
    """
    transform = transform_of(e)
    if transform == "PROBIT":  # ONNX Runtime leaves the second undefined
        raise e.unsupported("post_transform = PROBIT for two classes with one score", "do that step behind the model")
    if is_share and transform != "LOGISTIC":
        return e.op("Concat", e.op("Sub", e.like(1.0, score), score), score, axis=1)
    both = e.op("Concat", e.op("Neg", score), score, axis=1)
    return e.op("Sigmoid", both) if transform == "LOGISTIC" else both


def _softmax_zero(e: Expansion, scores: Value) -> Value:
    """Softmax in which scores of zero have no part: they stay zero."""
    axis = e.const([-1], label="axis")
    highest = e.op("ReduceMax", scores, axis)
    is_zero = e.op("LessOrEqual", e.op("Abs", scores), e.like(_NEARLY_ZERO, scores))
    powers = e.op("Exp", e.op("Sub", scores, highest))
    total = e.op("ReduceSum", e.op("Where", is_zero, e.like(0.0, scores), powers), axis)
    nothing = e.op("Mul", scores, e.op("Exp", e.op("Neg", highest)))
    return e.op("Div", e.op("Where", is_zero, nothing, powers), total)


def _probit(e: Expansion, scores: Value) -> Value:
    """√2 · erf⁻¹(2p − 1), by Winitzki's approximation with a = 0.147, as ONNX Runtime has it."""
    x = e.op("Sub", e.scale(scores, 2.0), e.like(1.0, scores))
    one = e.like(1.0, scores)
    log = e.op("Log", e.op("Mul", e.op("Sub", one, x), e.op("Add", one, x)))
    v = e.op("Add", e.scale(log, 0.5), e.like(2 / (3.14159 * 0.147), scores))
    inner = e.op("Sub", e.op("Mul", v, v), e.scale(log, 1 / 0.147))
    root = e.op("Sqrt", e.op("Sub", e.op("Sqrt", inner), v))
    sign = e.op("Where", e.op("Less", x, e.like(0.0, x)), e.like(-1.0, x), one)
    return e.scale(e.op("Mul", sign, root), float(np.sqrt(2.0)))

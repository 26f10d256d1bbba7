"""Losses of classification, and their gradients, from logarithms of probabilities."""

from __future__ import annotations

from atcpy.ir import Builder, DType, Value


def cross_entropy(b: Builder, log_prob: Value, label: Value) -> Value:
    """Return −Σ label · log_prob over the last axis, which holds the classes."""
    return b.op("Neg", b.op("ReduceSum", b.op("Mul", label, log_prob), b.const([-1]), keepdims=0))


def negative_log_likelihood(b: Builder, log_prob: Value, label: Value, axis: int) -> Value:
    """Return −log_prob at each label, the number of a class along `axis`; the result has the shape of the labels."""
    picked = b.op("GatherElements", log_prob, b.unsqueeze(label, axis), axis=axis)
    return b.op("Neg", b.squeeze(picked, axis))


def minus_one_at_label(b: Builder, prob: Value, label: Value, axis: int) -> Value:
    """Return prob − 1 at each label and prob elsewhere: the gradient of the likelihood's logits."""
    ends = b.cast_like(b.const([0.0, 1.0], DType.FLOAT32), prob)
    return b.op("Sub", prob, b.op("OneHot", label, b.dim(prob, axis), ends, axis=axis))

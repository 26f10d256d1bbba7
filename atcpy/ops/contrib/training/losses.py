"""Losses of classification and their gradients, as ONNX Runtime's training writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.ir import Value
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import STANDARD, contrib
from atcpy.ops.lowerings.losses import cross_entropy, minus_one_at_label, negative_log_likelihood

_REDUCTION = "reduction:s"


def _reduction(e: Expansion) -> str:
    reduction = e.node.str_attr("reduction", "mean")
    if reduction not in ("mean", "sum", "none"):
        raise e.invalid(f'reduction = "{reduction}"')
    return reduction


@dataclass(frozen=True, slots=True)
class _Labels:
    """Numbers of classes, which lie along `axis` of `log_prob`. A label without weight counts 1."""

    e: Expansion
    label: Value
    log_prob: Value
    axis: int
    weights: Value | None

    @staticmethod
    def weighted(e: Expansion, label: Value, log_prob: Value, ignored: Value | None, of_class: Value | None) -> _Labels:
        """Weigh labels as their classes are; those that equal `ignored` count nothing."""
        weights = None
        if ignored is not None:
            is_ignored = e.op("Equal", label, e.cast_like(ignored, label))
            label = e.op("Where", is_ignored, e.like(0, label), label)
            weights = e.op("Where", is_ignored, e.like(0.0, log_prob), e.like(1.0, log_prob))
        if of_class is not None:
            own = e.op("Gather", of_class, label)
            weights = own if weights is None else e.op("Mul", own, weights)
        return _Labels(e, label, log_prob, 1, weights)

    def loss(self) -> Value:
        """Return −log_prob of each label times its weight, reduced."""
        e, reduction = self.e, _reduction(self.e)
        each = negative_log_likelihood(e, self.log_prob, self.label, self.axis)
        if self.weights is not None:
            each = e.op("Mul", each, self.weights)
        if reduction == "none":
            return each
        total = e.op("ReduceSum", each, keepdims=0)
        return e.op("Div", total, self._count()) if reduction == "mean" else total

    def gradient(self, dy: Value) -> Value:
        """Return (exp(log_prob) − one at the label) · dy · weight, divided by the count for the mean."""
        e, reduction = self.e, _reduction(self.e)
        dx = minus_one_at_label(e, e.op("Exp", self.log_prob), self.label, self.axis)
        if reduction != "none":
            dy = e.scalar(dy)
        if reduction == "mean":
            dy = e.op("Div", dy, self._count())
        if self.weights is not None:
            dy = e.op("Mul", dy, self.weights)
        elif reduction != "none":
            return e.op("Mul", dx, dy)
        return e.op("Mul", dx, e.unsqueeze(dy, self.axis))

    def _count(self) -> Value:
        """Return the sum of all weights, the divisor of the mean; 1 where it is 0: then there is nothing to divide."""
        e = self.e
        if self.weights is None:
            return e.cast_like(e.op("Size", self.label), self.log_prob)
        total = e.op("ReduceSum", self.weights, keepdims=0)
        return e.op("Where", e.op("Equal", total, e.like(0.0, total)), e.like(1.0, total), total)


def _typed(e: Expansion, value: Value) -> Value:
    """Convert a value to the type that the node asks for."""
    to = e.node.int_attr("output_type", 0)
    return e.op("Cast", value, to=to) if to else value


@contrib("SoftmaxCrossEntropyLossGrad", "dY log_prob label weight?", f"{_REDUCTION} ignore_index:i")
def loss_grad(e: Expansion) -> Value:
    """(exp(log_prob) − one at the label) · what the label counts"""
    ignored = e.const(e.node.int_attr("ignore_index", 0)) if "ignore_index" in e.node.attrs else None
    labels = _Labels.weighted(e, e.operand("label"), e.operand("log_prob"), ignored, e.input("weight"))
    return labels.gradient(e.operand("dY"))


@contrib(
    "SoftmaxCrossEntropyLossInternalGrad",
    "dY log_prob label weight? ignore_index? bias?",
    f"{_REDUCTION} output_type:i",
)
def internal_loss_grad(e: Expansion) -> Value:
    """The same, whose ignored label is an input; `bias`, a gradient that came before, is added."""
    ignored, bias = e.input("ignore_index"), e.input("bias")
    labels = _Labels.weighted(e, e.operand("label"), e.operand("log_prob"), ignored, e.input("weight"))
    gradient = _typed(e, labels.gradient(e.operand("dY")))
    return gradient if bias is None else e.op("Add", gradient, e.op("Reshape", bias, e.op("Shape", gradient)))


@contrib(
    "SoftmaxCrossEntropyLossInternal",
    "scores labels weights? ignore_index?",
    f"{_REDUCTION} output_type:i",
    outputs=(2, 2),
)
def internal_loss(e: Expansion) -> Sequence[Value]:
    """SoftmaxCrossEntropyLoss, whose ignored label is an input."""
    log_prob = e.op("LogSoftmax", e.operand("scores"), axis=1)
    labels = _Labels.weighted(e, e.operand("labels"), log_prob, e.input("ignore_index"), e.input("weights"))
    return [_typed(e, labels.loss()), _typed(e, log_prob)]


@contrib(
    "NegativeLogLikelihoodLossInternal NegativeLogLikelihoodLossInternal2",
    "input target weight? ignore_index?",
    _REDUCTION,
)
def internal_likelihood(e: Expansion) -> Value:
    """NegativeLogLikelihoodLoss, whose ignored label is an input."""
    ignored = e.input("ignore_index")
    return _Labels.weighted(e, e.operand("target"), e.operand("input"), ignored, e.input("weight")).loss()


@contrib("SparseSoftmaxCrossEntropy", "logits label weight?", _REDUCTION, outputs=(1, 2), domain=STANDARD)
def sparse_loss(e: Expansion) -> Sequence[Value]:
    """−log_prob of each label, classes along the last axis, times the weight of each sample."""
    log_prob = e.op("LogSoftmax", e.operand("logits"), axis=-1)
    return [_Labels(e, e.operand("label"), log_prob, -1, e.input("weight")).loss(), log_prob]


@contrib("SparseSoftmaxCrossEntropyGrad", "dY log_prob label weight?", _REDUCTION, domain=STANDARD)
def sparse_loss_grad(e: Expansion) -> Value:
    """(exp(log_prob) − one at the label) · what the sample counts"""
    labels = _Labels(e, e.operand("label"), e.operand("log_prob"), -1, e.input("weight"))
    return labels.gradient(e.operand("dY"))


@contrib("SoftmaxCrossEntropy", "logits label", _REDUCTION, outputs=(1, 2))
def dense_loss(e: Expansion) -> Sequence[Value]:
    """−label · log_prob, summed over the classes along the last axis."""
    log_prob, reduction = e.op("LogSoftmax", e.operand("logits"), axis=-1), _reduction(e)
    loss = cross_entropy(e, log_prob, e.operand("label"))
    if reduction != "none":
        loss = e.op("ReduceMean" if reduction == "mean" else "ReduceSum", loss, keepdims=0)
    return [loss, log_prob]


@contrib("SoftmaxCrossEntropyGrad", "dY log_prob label", _REDUCTION)
def dense_loss_grad(e: Expansion) -> Value:
    """(exp(log_prob) − label) · dY"""
    dy, log_prob, reduction = e.operand("dY"), e.operand("log_prob"), _reduction(e)
    dy = e.unsqueeze(dy, -1) if reduction == "none" else e.scalar(dy)
    if reduction == "mean":
        rows = e.op("ReduceProd", e.slice(e.op("Shape", log_prob), 0, -1, 0), keepdims=0)
        dy = e.op("Div", dy, e.cast_like(rows, log_prob))
    return e.op("Mul", e.op("Sub", e.op("Exp", log_prob), e.operand("label")), dy)

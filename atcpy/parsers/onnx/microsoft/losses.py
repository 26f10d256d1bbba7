"""Losses of classes and their gradients, as ONNX Runtime's training writes them."""

from atcpy.ir import Value
from atcpy.ops.lowerings.losses import cross_entropy, minus_one_at_label, negative_log_likelihood
from atcpy.parsers.onnx.microsoft.expansion import Expansion
from atcpy.parsers.onnx.microsoft.table import STANDARD, microsoft

_REDUCTIONS = ("mean", "sum", "none")
_REDUCTION = "reduction:s"


def _reduction(e: Expansion) -> str:
    reduction = e.node.str_attr("reduction", "mean")
    if reduction not in _REDUCTIONS:
        raise e.invalid(f'reduction = "{reduction}"')
    return reduction


def _whole_sum(e: Expansion, value: Value) -> Value:
    return e.op("ReduceSum", value, keepdims=0)


def _or_one(e: Expansion, total: Value) -> Value:
    """A divisor; 1 where it is 0, since then there is nothing to divide."""
    return e.op("Where", e.op("Equal", total, e.like(0.0, total)), e.like(1.0, total), total)


class _Classes:
    """Labels that number the classes, with what each of them counts."""

    def __init__(self, e: Expansion, label: Value, log_prob: Value, axis: int) -> None:
        self.e, self.axis, self.log_prob = e, axis, log_prob
        self.label = label
        self.weights: Value | None = None

    def ignore(self, index: Value) -> None:
        """Labels of this number count nothing."""
        e = self.e
        ignored = e.op("Equal", self.label, e.cast_like(index, self.label))
        self.label = e.op("Where", ignored, e.like(0, self.label), self.label)
        one, zero = (e.like(number, self.log_prob) for number in (1.0, 0.0))
        self.weights = e.op("Where", ignored, zero, one)

    def weigh(self, of_class: Value) -> None:
        """Labels count what their class does."""
        own = self.e.op("Gather", of_class, self.label)
        self.weights = own if self.weights is None else self.e.op("Mul", own, self.weights)

    def share(self, dy: Value) -> Value:
        """What each label has of the loss's gradient."""
        e = self.e
        match _reduction(e):
            case "mean":
                dy = e.op("Div", e.scalar(dy), self._count())
            case "sum":
                dy = e.scalar(dy)
        return dy if self.weights is None else e.op("Mul", dy, self.weights)

    def _count(self) -> Value:
        if self.weights is not None:
            return _or_one(self.e, _whole_sum(self.e, self.weights))
        return self.e.cast_like(self.e.op("Size", self.label), self.log_prob)

    def loss(self) -> Value:
        """−log_prob of each label, reduced."""
        e = self.e
        each = negative_log_likelihood(e, self.log_prob, self.label, self.axis)
        if self.weights is not None:
            each = e.op("Mul", each, self.weights)
        reduction = _reduction(e)
        if reduction == "none":
            return each
        total = _whole_sum(e, each)
        return e.op("Div", total, self._count()) if reduction == "mean" else total

    def gradient(self, dy: Value) -> Value:
        """(exp(log_prob) − one at the label) · share"""
        e = self.e
        off = minus_one_at_label(e, e.op("Exp", self.log_prob), self.label, self.axis)
        share = self.share(dy)
        is_one = self.weights is None and _reduction(e) != "none"
        return e.op("Mul", off, share if is_one else e.unsqueeze(share, self.axis))


def _typed(e: Expansion, value: Value) -> Value:
    """A value in the type that the node asks for."""
    to = e.node.int_attr("output_type", 0)
    return e.op("Cast", value, to=to) if to else value


def _gradient_of_loss(e: Expansion, ignored: Value | None) -> Value:
    classes = _Classes(e, e.operand("label"), e.operand("log_prob"), 1)
    if ignored is not None:
        classes.ignore(ignored)
    if (weight := e.input("weight")) is not None:
        classes.weigh(weight)
    return classes.gradient(e.operand("dY"))


@microsoft("SoftmaxCrossEntropyLossGrad", "dY log_prob label weight?", f"{_REDUCTION} ignore_index:i")
def loss_grad(e: Expansion) -> None:
    """(exp(log_prob) − one at the label) · what the label counts"""
    has_index = "ignore_index" in e.node.attrs
    e.finish(_gradient_of_loss(e, e.const(e.node.int_attr("ignore_index", 0)) if has_index else None))


@microsoft(
    "SoftmaxCrossEntropyLossInternalGrad",
    "dY log_prob label weight? ignore_index? bias?",
    f"{_REDUCTION} output_type:i",
)
def internal_loss_grad(e: Expansion) -> None:
    """The same, whose ignored label is an input; `bias`, a gradient that came before, is added."""
    gradient = _typed(e, _gradient_of_loss(e, e.input("ignore_index")))
    bias = e.input("bias")
    e.finish(gradient if bias is None else e.op("Add", gradient, e.op("Reshape", bias, e.op("Shape", gradient))))


@microsoft(
    "SoftmaxCrossEntropyLossInternal",
    "scores labels weights? ignore_index?",
    f"{_REDUCTION} output_type:i",
    outputs=(2, 2),
)
def internal_loss(e: Expansion) -> None:
    """SoftmaxCrossEntropyLoss, whose ignored label is an input."""
    log_prob = e.op("LogSoftmax", e.operand("scores"), axis=1)
    classes = _Classes(e, e.operand("labels"), log_prob, 1)
    if (ignored := e.input("ignore_index")) is not None:
        classes.ignore(ignored)
    if (weights := e.input("weights")) is not None:
        classes.weigh(weights)
    e.finish(_typed(e, classes.loss()), _typed(e, log_prob))


@microsoft("NegativeLogLikelihoodLossInternal NegativeLogLikelihoodLossInternal2",
           "input target weight? ignore_index?", _REDUCTION)  # fmt: skip
def internal_likelihood(e: Expansion) -> None:
    """NegativeLogLikelihoodLoss, whose ignored label is an input."""
    classes = _Classes(e, e.operand("target"), e.operand("input"), 1)
    if (ignored := e.input("ignore_index")) is not None:
        classes.ignore(ignored)
    if (weight := e.input("weight")) is not None:
        classes.weigh(weight)
    e.finish(classes.loss())


@microsoft("SparseSoftmaxCrossEntropy", "logits label weight?", _REDUCTION, outputs=(1, 2), domain=STANDARD)
def sparse_loss(e: Expansion) -> None:
    """−log_prob of each label, classes along the last axis, times the weight of each sample."""
    log_prob = e.op("LogSoftmax", e.operand("logits"), axis=-1)
    classes = _Classes(e, e.operand("label"), log_prob, -1)
    classes.weights = e.input("weight")
    e.finish(classes.loss(), log_prob)


@microsoft("SparseSoftmaxCrossEntropyGrad", "dY log_prob label weight?", _REDUCTION, domain=STANDARD)
def sparse_loss_grad(e: Expansion) -> None:
    """(exp(log_prob) − one at the label) · what the sample counts"""
    classes = _Classes(e, e.operand("label"), e.operand("log_prob"), -1)
    classes.weights = e.input("weight")
    e.finish(classes.gradient(e.operand("dY")))


def _rows(e: Expansion, log_prob: Value) -> Value:
    """How many vectors of classes there are."""
    sizes = e.slice(e.op("Shape", log_prob), 0, -1, 0)
    return e.cast_like(e.op("ReduceProd", sizes, keepdims=0), log_prob)


@microsoft("SoftmaxCrossEntropy", "logits label", _REDUCTION, outputs=(1, 2))
def dense_loss(e: Expansion) -> None:
    """−label · log_prob, summed over the classes along the last axis."""
    log_prob, reduction = e.op("LogSoftmax", e.operand("logits"), axis=-1), _reduction(e)
    loss = cross_entropy(e, log_prob, e.operand("label"))
    if reduction != "none":
        loss = e.op("ReduceMean" if reduction == "mean" else "ReduceSum", loss, keepdims=0)
    e.finish(loss, log_prob)


@microsoft("SoftmaxCrossEntropyGrad", "dY log_prob label", _REDUCTION)
def dense_loss_grad(e: Expansion) -> None:
    """(exp(log_prob) − label) · dY"""
    dy, log_prob, reduction = e.operand("dY"), e.operand("log_prob"), _reduction(e)
    dy = e.unsqueeze(dy, -1) if reduction == "none" else e.scalar(dy)
    if reduction == "mean":
        dy = e.op("Div", dy, _rows(e, log_prob))
    e.finish(e.op("Mul", e.op("Sub", e.op("Exp", log_prob), e.operand("label")), dy))

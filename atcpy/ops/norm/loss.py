"""SoftmaxCrossEntropyLoss: written out, as the function of the standard is one of older ops."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Node, Rewriter, Value
from atcpy.ops.core.opdef import OpDef, register_operator


def expand_loss(node: Node, rw: Rewriter) -> Sequence[Value]:
    """The likelihood's loss of the logarithms, and these, which a backward pass reads."""
    scores, *others = node.inputs
    log_prob = rw.op("LogSoftmax", scores, axis=1)
    return [rw.op("NegativeLogLikelihoodLoss", log_prob, *others, **node.attrs), log_prob]


register_operator(OpDef(name="SoftmaxCrossEntropyLoss", expand=expand_loss))

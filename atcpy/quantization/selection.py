"""Which nodes are quantised: products of matrices and convolutions, and what joins them.

Between convolutions all that ONNX Runtime can quantise is, so that a network stays in bytes from end to end. Behind
products of matrices sums, scalings and normalisations stay float: residual sums of transformers lose most of their
accuracy in 8 bits (bert_base: 11.9 dB with them, 23.7 dB without), and gain no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import onnx

from atcpy.errors import UsageError, Where, did_you_mean
from atcpy.quantization.float_model import FloatModel

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
PRODUCTS = CONVOLUTIONS | {"MatMul", "Gemm"}
# The result has the integers of the operand.
MOVES = frozenset({"MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Split"})
ACTIVATIONS = frozenset({"Relu", "Clip"})  # the range of the result makes them part of the product before them
BETWEEN_CONVOLUTIONS = frozenset(
    {"Add", "Mul", "LeakyRelu", "Sigmoid", "Concat", "Pad", "Resize", "AveragePool", "GlobalAveragePool"}
)
EVERYWHERE = PRODUCTS | MOVES | ACTIVATIONS
QUANTIZED_OPS = EVERYWHERE | BETWEEN_CONVOLUTIONS


def quantized_nodes(model: FloatModel, exclude: Sequence[str]) -> list[str]:
    """The names of the nodes to quantise, in order. `exclude` are names, patterns with `*`, or `OpType::T`; raises
    UsageError (E10016) for one that fits no node.
    """
    excluded = {name for pattern in exclude for name in _matches(model, pattern)}
    return [name for name in _quantizable(model.proto.graph.node) if name not in excluded]


def _quantizable(nodes: Iterable[onnx.NodeProto]) -> Iterable[str]:
    from_convolution: dict[str, bool] = {}  # of values that come from products; False: from a product of matrices, too
    for node in nodes:  # in topological order, as the standard asks
        known = [from_convolution[name] for name in node.input if name in from_convolution]
        is_between = bool(known) and all(known)
        is_chosen = node.op_type in EVERYWHERE or (node.op_type in BETWEEN_CONVOLUTIONS and is_between)
        if is_chosen and not _is_grouped_transpose(node):
            yield node.name
        if node.op_type in PRODUCTS:
            from_convolution |= dict.fromkeys(node.output, node.op_type in CONVOLUTIONS)
        elif known:
            from_convolution |= dict.fromkeys(node.output, is_between)


def _is_grouped_transpose(node: onnx.NodeProto) -> bool:
    """Whether ONNX Runtime takes the channels of a group for all of them, in its scales of weight and bias."""
    return node.op_type == "ConvTranspose" and any(a.name == "group" and a.i != 1 for a in node.attribute)


def _matches(model: FloatModel, pattern: str) -> list[str]:
    """The nodes of the optimised model that a name or pattern of --exclude stands for."""
    kind, _, op_type = pattern.partition("::")
    if kind == "OpType" and op_type:
        if op_type not in model.ops.values():
            hint = did_you_mean(op_type, model.ops.values())
            raise UsageError("E10016", f"--exclude: the model has no {op_type}", where=_WHERE, hint=hint)
        return [name for name, names in model.sources.items() if any(model.ops.get(n) == op_type for n in names)]
    known = {*model.ops, *model.sources}
    # A name may hold characters of patterns.
    chosen = {pattern} if pattern in known else {name for name in known if fnmatchcase(name, pattern)}
    if not chosen:
        hint = did_you_mean(pattern, [*model.ops, *model.sources])
        what = f'--exclude: the model has no node "{pattern}"'
        raise UsageError("E10016", what, where=_WHERE, hint=hint or "atcpy inspect M.onnx --nodes lists them")
    return [name for name, names in model.sources.items() if not chosen.isdisjoint(names)]


_WHERE = Where(option="exclude")

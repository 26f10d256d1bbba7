"""Pad at once: a border round a border, and a border that is written as a Concat.

Pad(Pad(x, 1), 2)        →  Pad(x, 3),      of one value
Concat(0, x, 0)          →  Pad(x),         zeros, or another number everywhere, before and behind
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from atcpy.ir import DType, Graph, Match, Node, PassRecord, Reject, Rewriter, Tensor, Value
from atcpy.ir.pattern import const, op, var
from atcpy.ir.tensor import Array
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase

MAX_FILL = 1 << 22  # elements of a constant that are looked at
_PADDED = frozenset({DType.FLOAT32, DType.FLOAT16, DType.FLOAT64})  # what Pad takes at every opset


class PadPad(Fusion, switch="PadPadFusionPass", phase=Phase.MOVE, after=("ConcatPadFusionPass",)):
    """Join a Pad with the one before it."""

    pattern = op(
        "Pad",
        op("Pad", var("x"), const("p"), const("u", optional=True), const("i", optional=True), name="inner"),
        const("q"),
        const("v", optional=True),
        const("j", optional=True),
        name="outer",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        inner, outer = m.node("inner"), m.node("outer")
        yield from only_read_by(inner.output, outer)
        for pad in (inner, outer):
            if pad.str_attr("mode", "constant") != "constant":
                yield Reject("mode", pad.name, pad.str_attr("mode", "constant"))
        if m["x"].desc.shape is None:
            yield Reject("shape-unknown", inner.name)
        if min(m["p"].array.min(initial=0), m["q"].array.min(initial=0)) < 0:
            yield Reject("not-spatial-padding", outer.name, "it takes places away")
        u, v = (np.zeros((), m["x"].desc.dtype.numpy) if m.get(n) is None else m[n].array for n in "uv")
        if u.tobytes() != v.tobytes():
            yield Reject("other-constant", outer.name, "pads with another number")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        rank = len(m["x"].desc.shape or ())
        pads = _all_pads(m["p"], m.get("i"), rank) + _all_pads(m["q"], m.get("j"), rank)
        return rw.op("Pad", m["x"], rw.const(pads, like=m["q"]), *([m["v"]] if m.get("v") else []))


def _all_pads(pads: Value, axes: Value | None, rank: int) -> Array:
    """The borders of each dim, begins before ends."""
    whole = np.zeros((2, rank), np.int64)
    padded = np.arange(rank) if axes is None else axes.array % rank
    whole[:, padded] = pads.array.reshape(2, -1)
    return whole.reshape(-1)


@graph_pass("ConcatPadFusionPass", Phase.MOVE, after=("ConcatSplitEliminationPass",), makes=("Pad",), repeats=True)
def pad_for_concat(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Replace a Concat with nothing but zeros, or another number, by Pad."""
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of("Concat"):
        if node.output.desc.shape is None:
            continue
        fills = [_fill(value) for value in node.operands]
        if fills.count(None) != 1 or len(fills) < 2:
            continue
        rw = finisher.match(node, rejects=_requirements(node, fills))
        if rw is not None:
            finisher.finish(rw, [(node.output, _padded(node, fills, rw))], [node])


def _fill(value: Value) -> Array | None:
    """The number that each element is; None for others."""
    maker = value.producer
    if maker.op_type == "ConstantOfShape" and not maker.domain:
        fill = maker.attrs.get("value")
        return fill.array.reshape(()) if isinstance(fill, Tensor) else np.zeros((), np.float32)
    if value.tensor is None or not 0 < value.desc.elements <= MAX_FILL or value.desc.dtype not in _PADDED:
        return None
    bits = value.array.reshape(-1).view(f"u{value.desc.dtype.bits // 8}")
    return value.array.reshape(-1)[0] if bits[0] == bits[-1] and (bits == bits[0]).all() else None


def _requirements(node: Node, fills: Sequence[Array | None]) -> Iterator[Reject]:
    if node.output.desc.dtype not in _PADDED:
        yield Reject("dtype", node.name, node.output.desc.dtype.long)
    if len({fill.tobytes() for fill in fills if fill is not None}) > 1:
        yield Reject("other-constant", node.name, "joins with several numbers")
    if not all(isinstance(size, int) for size, fill in zip(_sizes(node), fills, strict=True) if fill is not None):
        yield Reject("shape-unknown", node.name)


def _sizes(node: Node) -> list[object]:
    """The sizes of the parts."""
    axis = node.int_attr("axis", 0)
    return [None if value.desc.shape is None else value.desc.shape[axis] for value in node.operands]


def _padded(node: Node, fills: Sequence[Array | None], rw: Rewriter) -> Value:
    index, rank = fills.index(None), len(node.output.desc.shape or ())
    sizes = _sizes(node)
    axis = node.int_attr("axis", 0) % rank
    pads = [0] * (2 * rank)
    for at, (size, fill) in enumerate(zip(sizes, fills, strict=True)):
        if fill is not None and isinstance(size, int):
            pads[axis if at < index else rank + axis] += size
    number = next(fill for fill in fills if fill is not None)
    operands = [rw.const(pads, name=f"{node.name}_pads")]
    if number != 0 or np.signbit(number):
        operands.append(rw.const(number, dtype=node.output.desc.dtype, name=f"{node.name}_value"))
    return rw.op("Pad", node.operand(index), *operands)

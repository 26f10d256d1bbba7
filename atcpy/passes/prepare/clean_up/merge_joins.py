"""Join once: Concat of Concat, and Concat and Split that undo each other.

Concat(a, Concat(b, c))        →  Concat(a, b, c)
Concat(Split(x))               →  x,        all parts in their order
Split(Concat(a, b))            →  a, b,     cut where they were joined
Concat(a, b), if b is empty    →  a
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Graph, Node, PassRecord, Reject, Value, erase_dead
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase


@graph_pass("ConcatSplitEliminationPass", Phase.MOVE, after=("SliceSplitFusionPass",), repeats=True)
def merge_joins(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Join what is joined in steps at once, and leave together what is cut only to be joined."""
    if not graph.has_any(("Concat",)):
        return
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of("Concat", "Split"):
        if node.op_type == "Split":
            _unsplit(graph, node, record)
            continue
        if node.output.desc.shape is None:
            continue
        parts = [part for value in node.operands for part in _parts(value, node, record)]
        parts = _rejoined([part for part in parts if not _is_empty(part, node)] or parts[:1], node)
        if parts == node.operands:
            continue
        rw = finisher.match(node, *(value.producer for value in node.operands if value.producer.op_type == "Concat"))
        if rw is not None:
            joined = parts[0] if len(parts) == 1 else rw.op("Concat", *parts, axis=node.int_attr("axis", 0))
            finisher.finish(rw, [(node.output, joined)], [node])


def _axis(node: Node) -> int:
    return node.int_attr("axis", 0) % len(node.operand(0).desc.shape or (0,))


def _parts(value: Value, reader: Node, record: PassRecord) -> Iterator[Value]:
    """The operands of a Concat that only the reader needs; else the value itself."""
    inner = value.producer
    if inner.op_type != "Concat" or inner.domain or value.desc.shape is None or _axis(inner) != _axis(reader):
        yield value
    elif value.user_beyond((reader,)) is not None:
        record.matched += 1
        record.reject(Reject("second-consumer", inner.name, reader.name))
        yield value
    else:
        yield from inner.operands


def _is_empty(value: Value, reader: Node) -> bool:
    return value.desc.shape is not None and value.desc.shape[_axis(reader)] == 0


def _rejoined(parts: list[Value], reader: Node) -> list[Value]:
    """Where all parts of a Split stand in their order, what was split."""
    result: list[Value] = []
    at = 0
    while at < len(parts):
        split = parts[at].producer
        whole = split.op_type == "Split" and not split.domain and parts[at : at + len(split.outputs)] == split.outputs
        if whole and _axis(split) == _axis(reader):
            result.append(split.operand(0))
            at += len(split.outputs)
        else:
            result.append(parts[at])
            at += 1
    return result


def _unsplit(graph: Graph, node: Node, record: PassRecord) -> None:
    """Hands through what was joined where a Split cuts."""
    concat = node.operand(0).producer
    if concat.op_type != "Concat" or concat.domain or concat.output.desc.shape is None:
        return
    axis = _axis(concat)
    shapes = [value.desc.shape for value in (*concat.operands, *node.outputs)]
    sizes = [None if shape is None else shape[axis] for shape in shapes]
    count = concat.input_count
    if axis != _axis(node) or sizes[:count] != sizes[count:] or not all(isinstance(size, int) for size in sizes):
        return
    if record.accept([node, concat]):
        for old, new in zip(node.outputs, concat.operands, strict=True):
            graph.replace_uses(old, new)
        erase_dead(graph, [node], "identity")

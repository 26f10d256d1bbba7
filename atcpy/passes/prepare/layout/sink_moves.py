"""Move a view or a Transpose below the op between it and another one, where the two become one.

Reshape(Sigmoid(Unsqueeze(x)))     →  Reshape(Unsqueeze(Sigmoid(x)))
Reshape(Softmax(Flatten(x), 1))    →  Reshape(Flatten(Softmax(x, axis)))

Nodes only move down, and only where something waits for them there, so that this comes to an end.
"""

from __future__ import annotations

from atcpy.ir import Graph, Node, PassRecord, Reject
from atcpy.ir.shape import Shape
from atcpy.ir.symbolic import same, same_shape
from atcpy.ops import Trait, find_opdef, has_trait
from atcpy.ops.core.opdef import working_axis
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.layout_chain import MOVES, VIEWS
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.layout.regions import data_of

LONGEST = 8  # of a chain of ops to the next view


@graph_pass("ReshapeSinkPass", Phase.MOVE, after=("TransposeRegionPass",), repeats=True)
def sink_moves(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Move views and Transposes to others that stand below an elementwise op."""
    if not graph.has_any(MOVES):
        return
    finisher = Finisher(graph, record, options)
    for node in graph.nodes:
        move = _move_above(node)
        if move is None or not _is_awaited(node):
            continue
        axis, rejects = _axis_before(node, move), []
        if move.output.user_beyond((node,)) is not None:
            rejects.append(Reject("second-consumer", move.name, node.name))
        elif axis is None:
            rejects.append(Reject("other-axes", node.name))
        rw = finisher.match(node, move, rejects=rejects)
        if rw is not None and axis is not None:
            inputs = [move.operand(0) if value is move.output else value for value in node.inputs]
            attrs = {**node.attrs, "axis": axis} if axis >= 0 else node.attrs
            result = rw.op(node.op_type, *inputs, **attrs)
            moved = rw.op(move.op_type, result, *move.inputs[1:], **move.attrs)
            finisher.finish(rw, [(node.output, moved)], [node, move])


def _is_awaited(node: Node) -> bool:
    """Do only views and Transposes read the result, or that of the next op, which works alike?"""
    for _ in range(LONGEST):
        users = set(node.output.users)
        if all(user.op_type in MOVES and not user.domain for user in users):
            return bool(users)
        user = users.pop()
        if users or _above(user) is not node:
            return False
        node = user
    return False


def _above(node: Node) -> Node | None:
    """The node that makes the one operand of an op that works on single elements; all others are one element."""
    if node.domain or len(node.outputs) != 1:
        return None
    if not _has_axis(node) and not has_trait(node, Trait.ELEMENTWISE):
        return None
    feeders = {
        value.producer
        for value in data_of(node)
        if value.desc.shape is None or not all(same(dim, 1) for dim in value.desc.shape)
    }
    return feeders.pop() if len(feeders) == 1 else None


def _move_above(node: Node) -> Node | None:
    """The view or Transpose that an op works behind."""
    for value in node.inputs:
        if value is not None and value.producer.op_type in MOVES:
            break
    else:
        return None
    move = _above(node)
    if move is None or move.op_type not in (VIEWS if _has_axis(node) else MOVES) or move.domain:
        return None
    x = move.operand(0).desc.shape
    others = [value.desc.shape for value in node.operands if value.producer is not move]
    if x is None or any(shape is None or len(shape) > len(x) for shape in others):
        return None
    return move


def _axis_before(node: Node, move: Node) -> int | None:
    """The axis of a Softmax before the view; −1 for an op without one, None if the dims differ in more than ones."""
    if not _has_axis(node):
        return -1
    before, after = move.operand(0).desc.shape, move.output.desc.shape
    if before is None or after is None or not same_shape(_without_ones(before), _without_ones(after)):
        return None
    axis = working_axis(node, len(after))
    if axis is None or same(after[axis], 1):
        return None
    number = len(_without_ones(after[:axis]))
    return [at for at, dim in enumerate(before) if not same(dim, 1)][number]


def _has_axis(node: Node) -> bool:
    """Does an op work along one axis, and give a result of its operand's shape, as Softmax does?"""
    opdef = find_opdef(node)
    return (
        opdef is not None
        and opdef.axis is not None
        and not opdef.axis.to_last
        and same_shape(node.operand(0).desc.shape, node.output.desc.shape)
    )


def _without_ones(shape: Shape) -> list[object]:
    return [dim for dim in shape if not same(dim, 1)]

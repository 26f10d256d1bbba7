"""Control flow in the form in which a plan runs it (`ops/core/plan_loop.py`).

    Scan(states, x)             →  Loop over the length of x, whose body reads Gather(x, i)
    results that are collected  →  a carried tensor, of zeros at first, into which ScatterND writes row i
    the condition in a body     →  True: it would not run otherwise

Only what keeps the types of all values from one iteration to the next can be planned, and results are collected only
where the number of iterations is known before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from atcpy.ir import Builder, DType, Graph, Node, Tensor, TensorDesc, Value, with_bodies
from atcpy.ir.closure import formal_inputs, own_operands
from atcpy.ir.symbolic import same, same_shape
from atcpy.ops.core.axes import normal_axis
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.plan_loop import NOT_COUNTED, PlanLoop
from atcpy.ops.core.steps import IN_PLAN
from atcpy.ops.core.strided import is_movable

MAX_DEPTH = 15  # of bodies within each other; the executor knows 32 regions, two for each If


def use_plan_form(graph: Graph) -> None:
    """Bring the control flow of a graph that is marked, and all that is in it, into the form of plans, as far as it has
    one.
    """
    for owner in with_bodies(graph):
        for node in list(owner.nodes_of("Scan", "Loop")):
            if owner is graph and not node.attrs.get(IN_PLAN):
                continue
            if node.op_type == "Scan":
                _scan_to_loop(node)
            else:
                _assume_condition(node)
                _carry_collected(node, ())


def fits_plan(node: Node, runs_in_plan: Callable[[Node], bool], depth: int = 0) -> bool:
    """Return whether a node is control flow in the form of plans, and all nodes of its bodies run in plans."""
    match node.op_type:
        case "If":
            fits = _is_plan_if(node)
        case "Loop":
            fits = _is_plan_loop(node)
        case _:
            fits = False
    if not fits or depth == MAX_DEPTH:
        return False
    inner = (inner for body in node.subgraphs for inner in body.nodes if not inner.is_structural)
    return all(fits_plan(each, runs_in_plan, depth + 1) if each.has_subgraphs else runs_in_plan(each) for each in inner)


def _is_plan_if(node: Node) -> bool:
    return _is_one(node.operand(0), DType.BOOL) and all(
        _have_one_type(result, output)
        for body in node.subgraphs
        for result, output in zip(body.outputs, node.outputs, strict=True)
    )


def _is_plan_loop(node: Node) -> bool:
    loop, count = PlanLoop(node), node.input(0)
    formal, results = formal_inputs(loop.body), loop.body.outputs
    carried = len(formal) - 2
    if len(results) != 1 + carried or len(node.outputs) != carried or None in node.inputs[1 : 2 + carried]:
        return False
    return (
        (count is None or _is_one(count, DType.INT64))
        and _is_one(loop.counter, DType.INT64)
        and _is_one(node.operand(1), DType.BOOL)
        and _is_one(results[0], DType.BOOL)
        and all(
            _have_one_type(node.operand(2 + index), formal[2 + index].output, results[1 + index], output)
            for index, output in enumerate(node.outputs)
        )
    )


def _is_one(value: Value, dtype: DType) -> bool:
    desc = value.desc
    return desc.dtype is dtype and desc.is_static and same(desc.elements, 1)


def _have_one_type(first: Value, *others: Value) -> bool:
    desc = first.desc
    return desc.is_static and all(
        other.desc.dtype is desc.dtype and same_shape(other.desc.shape, desc.shape) for other in others
    )


def _assume_condition(loop: Node) -> None:
    """Let the body of a Loop take its condition for true, as is one that is left out before the first iteration."""
    body = next(loop.subgraphs)
    _, condition = (data.output for data in formal_inputs(body)[:2])
    if condition.use_count:
        true = body.add_const(Tensor.of(np.ones(condition.desc.static_shape, np.bool_)), condition.name)
        body.replace_uses(condition, true)
    if loop.input(1) is None:
        assert loop.graph is not None
        loop.graph.set_input(loop, 1, _builder(loop).const(True))


def _carry_collected(loop: Node, backwards: Sequence[bool]) -> None:
    """Turn the results that a Loop collects into tensors that it carries, where the number of iterations is known.
    `backwards`: which of them are collected from the last row to the first; none if there are no numbers.
    """
    plan, body, graph = PlanLoop(loop), next(loop.subgraphs), loop.graph
    formal, results = formal_inputs(body), body.outputs
    first = len(formal) - 1  # of the collected among the results
    collected, length = results[first:], plan.known_count
    if not collected or length is NOT_COUNTED or plan.has_condition or not all(map(_is_movable, collected)):
        return
    assert graph is not None
    outside, inside = _builder(loop), _builder(loop).inside(body.net_output)
    rows = {back: _row(plan.counter, length, inside, backwards=back) for back in {False, *backwards}}
    buffers, updated = list[Value](), list[Value]()
    for index, value in enumerate(collected):
        shape = [length, *value.desc.static_shape]
        zero = Tensor.of(np.zeros(1, value.desc.dtype.numpy), value.desc.dtype)
        buffers.append(outside.op("ConstantOfShape", outside.const(shape), value=zero))
        data = body.insert_after(formal[-1], "Data", (), {"index": len(formal)}, name=f"{value.name}_all")
        data.output.desc = buffers[-1].desc
        formal.append(data)
        indices = inside.reshape(rows[bool(backwards) and backwards[index]], [1, 1])
        updated.append(inside.op("ScatterND", data.output, indices, inside.unsqueeze(value, 0)))
        loop.outputs[first - 1 + index].desc = data.output.desc
    for data in body.inputs:
        if "captured" in data.attrs:
            data.attrs["index"] = data.int_attr("index", 0) + len(collected)
    body.set_inputs(body.net_output, [*results[:first], *updated])
    graph.set_inputs(loop, [*loop.inputs[: first + 1], *buffers, *loop.inputs[first + 1 :]])


def _is_movable(value: Value) -> bool:
    return value.desc.is_static and is_movable(value.desc.dtype)


def _row(counter: Value, length: int, inside: Builder, *, backwards: bool) -> Value:
    """The row that an iteration reads or writes."""
    return inside.op("Sub", inside.const([length - 1]), counter) if backwards else counter


def _scan_to_loop(scan: Node) -> None:
    """Replace a Scan by a Loop over the length of what it scans, if that is known."""
    graph, body = scan.graph, next(scan.subgraphs)
    assert graph is not None
    own, scanned_count = own_operands(scan), scan.int_attr("num_scan_inputs", 0)
    states = own - scanned_count
    operands = [scan.operand(index) for index in range(own)]
    if not all(value.desc.is_static for value in operands):
        return
    in_axes = _axes(scan, "scan_input_axes", [len(value.desc.static_shape) for value in operands[states:]])
    lengths = [value.desc.static_shape[axis] for value, axis in zip(operands[states:], in_axes, strict=True)]
    collected = body.outputs[states:]
    if not lengths or not all(same(length, lengths[0]) for length in lengths) or not all(map(_is_movable, collected)):
        return
    outside = _builder(scan)
    count, true = outside.const([lengths[0]]), outside.const(True)
    captured = scan.inputs[own:]
    _scan_to_loop_body(scan, in_axes, lengths[0], 2 + states, len(captured))
    inputs = [count, true, *operands[:states], *captured, *operands[states:]]
    names = [f"{value.name}_rows" for value in scan.outputs]
    loop = graph.append("Loop", inputs, {"body": body, IN_PLAN: 1}, name=scan.name, outputs=names, before=scan)
    loop.sources, loop.passes = scan.sources, scan.passes
    for value, twin in zip(scan.outputs[:states], loop.outputs, strict=False):
        twin.desc = value.desc
    back = scan.ints_attr("scan_output_directions", (0,) * len(collected))
    _carry_collected(loop, [bool(each) for each in back])
    out_axes = _axes(scan, "scan_output_axes", [len(value.desc.static_shape) + 1 for value in collected])
    for index, (old, new) in enumerate(zip(scan.outputs, loop.outputs, strict=True)):
        axis = out_axes[index - states] if index >= states else 0
        rank = len(new.desc.shape or ())
        perm = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
        value = outside.op("Transpose", new, perm=tuple(perm)) if axis else new
        graph.take_name(value, old)
        graph.replace_uses(old, value)
    graph.erase(scan)


def _scan_to_loop_body(scan: Node, axes: Sequence[int], length: int, first: int, captured: int) -> None:
    """Give the body of a Scan the inputs and outputs of a Loop's. Captured operands begin at index `first`; behind the
    `captured` ones that there are, come those that are scanned.
    """
    body, own = next(scan.subgraphs), own_operands(scan)
    begin = next(body.nodes)
    for name, dtype in (("iteration", DType.INT64), ("condition", DType.BOOL)):
        data = body.append("Data", (), {"index": 0}, name=f"{scan.name}_{name}", before=begin)
        data.output.desc = TensorDesc.plain(dtype, ())
    for data in body.inputs:
        if "captured" in data.attrs:
            data.attrs["index"] = data.int_attr("index", 0) - own + first
    counter = formal_inputs(body)[0].output
    anchor = next(node for node in body.nodes if not node.is_source)
    inside = _builder(scan).inside(anchor)
    back = scan.ints_attr("scan_input_directions", (0,) * len(axes))
    for index, (data, axis) in enumerate(zip(formal_inputs(body)[first:], axes, strict=True)):
        operand = scan.operand(own - len(axes) + index)
        attrs = {"index": first + captured + index, "captured": 1}
        whole = body.append("Data", (), attrs, name=f"{data.name}_all", before=data)
        whole.output.desc = operand.desc
        row = inside.scalar(_row(counter, length, inside, backwards=bool(back[index])))
        body.replace_uses(data.output, inside.op("Gather", whole.output, row, axis=axis))
        body.erase(data)
    body.set_inputs(body.net_output, [inside.const(True), *body.outputs])


def _axes(node: Node, name: str, ranks: Sequence[int]) -> list[int]:
    axes = node.ints_attr(name, (0,) * len(ranks))
    return [normal_axis(node, axis, rank, name=name) for axis, rank in zip(axes, ranks, strict=True)]


def _builder(node: Node) -> Builder:
    """A builder of nodes in front of one, whose types are inferred at once."""
    assert node.graph is not None
    infer = partial(infer_node, known=KnownValues())
    return Builder(node.graph, node, name=node.name, sources=node.sources, passes=node.passes, infer=infer)

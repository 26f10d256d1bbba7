"""What passes the border of a body: types and small values into If, Loop and Scan, types out of them.

A body is inferred and folded as the graph around it is, by the same sweep. What a Loop carries may
change its shape from one iteration to the next: such dims become symbols before the body is folded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Node, TensorDesc, Value
from atcpy.ir.clone import clone
from atcpy.ir.closure import captured_value, formal_inputs, own_operands
from atcpy.ir.desc import UNKNOWN, common_desc
from atcpy.ir.shape import Dim, StaticShape, format_shape, is_static
from atcpy.ops import find_opdef
from atcpy.ops.core.axes import normal_axis, unnamed_dim
from atcpy.ops.core.bodies import check_branches, check_result, feed
from atcpy.ops.core.infer import KnownValues, check_types, infer_node
from atcpy.ops.core.operand_shapes import check_single
from atcpy.ops.core.plan_loop import is_true
from atcpy.ops.core.shape_values import UNNAMED

# Infers and folds a body whose Data nodes have their types.
Sweep = Callable[[Graph], None]

ROUNDS = 4  # until the dims that a Loop changes are all found; then nothing is believed of any
MAX_TRIED = 3  # Loops in Loops whose iterations are tried: each level sweeps the bodies in it twice or more


def infer_through_bodies(node: Node, known: KnownValues, sweep: Sweep, depth: int) -> None:
    """Sweeps the bodies of a node, itself in so many bodies, and sets the types of its outputs."""
    for body in node.subgraphs:
        for data in body.inputs:
            if "captured" in data.attrs:
                value = captured_value(node, data)
                data.output.desc = value.desc
                elements = known(value)
                if elements is not None:
                    known.set(data.output, elements)
    check_types(node, node.inputs[: own_operands(node)])
    match node.op_type:
        case "If":
            _infer_if(node, sweep)
        case "Loop":
            _infer_loop(node, known, sweep, is_tried=depth < MAX_TRIED)
        case "Scan":
            _infer_scan(node, sweep)
        case _:
            for body in node.subgraphs:  # SequenceMap and the like: their elements have no type of ours
                for data in formal_inputs(body):
                    data.output.desc = UNKNOWN
            opdef = find_opdef(node)
            if opdef is not None and opdef.infer is not None:
                infer_node(node, known)


def branch(node: Node, condition: bool) -> Graph:
    """The body of an If that a condition chooses."""
    body = node.attrs["then_branch" if condition else "else_branch"]
    assert isinstance(body, Graph)
    return body


def inline(node: Node, body: Graph) -> list[Node]:
    """Move the nodes of a body to where the If that it belongs to stands; return them."""
    graph = node.graph
    assert graph is not None
    moved: list[Node] = []
    for inner in list(body.nodes):
        if inner.op_type == "Data":
            body.replace_uses(inner.output, captured_value(node, inner))
        elif inner.op_type == "NetOutput":
            results = list(inner.operands)
            body.erase(inner)
        else:
            graph.adopt(inner, before=node)
            inner.sources = inner.sources or node.sources
            moved.append(inner)
    for value, result in zip(node.outputs, results, strict=True):
        if value.use_count:
            graph.replace_uses(value, result)
    graph.erase(node)
    return moved


def _infer_if(node: Node, sweep: Sweep) -> None:
    check_single(node, "condition", node.operand(0), code="E13014")
    found: list[list[TensorDesc]] = []
    for body in node.subgraphs:
        try:
            sweep(body)
        except ModelInvalid as error:
            if any(problem.code != "EZ8888" for problem in error.problems):
                raise
            # Exporters leave branches that do not fit the shapes for which they are never taken.
            found.append([UNKNOWN] * len(node.outputs))
        else:
            found.append([value.desc for value in body.outputs])
    check_branches(node, *found)
    for index, value in enumerate(node.outputs):
        value.desc = _either(value, *[descs[index] for descs in found])


def _either(value: Value, a: TensorDesc, b: TensorDesc) -> TensorDesc:
    """What is true of both."""
    if a.dtype is not b.dtype or a.dtype is DType.UNDEFINED:
        known = b if a.dtype is DType.UNDEFINED else a
        return UNKNOWN if b.dtype not in (DType.UNDEFINED, known.dtype) else TensorDesc.plain(known.dtype, None)
    return common_desc(value.name, a, b)


def _infer_loop(node: Node, known: KnownValues, sweep: Sweep, *, is_tried: bool) -> None:
    body = next(node.subgraphs)
    number, condition, *carried = [data.output for data in formal_inputs(body)]
    for name, value in zip(("trip count", "condition"), node.inputs[:2], strict=False):
        check_single(node, name, value, code="E13014")
    feed(node, number, TensorDesc.plain(DType.INT64, _one_element(number)))
    feed(node, condition, TensorDesc.plain(DType.BOOL, _one_element(condition)))
    descs = [UNKNOWN if value is None else value.desc for value in node.inputs[2 : 2 + len(carried)]]
    if is_tried:
        descs = _types_of_all_iterations(node, body, carried, descs, sweep)
    else:
        descs = [TensorDesc.plain(desc.dtype, None) for desc in descs]
    for value, desc in zip(carried, descs, strict=True):
        feed(node, value, desc)
    sweep(body)
    results = body.outputs
    check_result(node, results[0], DType.BOOL)
    check_single(node, "condition in the body", results[0], code="E13014")
    for value, desc in zip(node.outputs, descs, strict=False):
        value.desc = desc
    trip_count = _trip_count(node, body, known)
    for value, result in zip(node.outputs[len(carried) :], results[1 + len(carried) :], strict=False):
        value.desc = _stacked(node, result.desc, trip_count, 0)


def _trip_count(node: Node, body: Graph, known: KnownValues) -> Dim:
    """The trip count of a Loop that only counts, to a number that is known or has a name; else a symbol."""
    elements, condition = known(node.input(0)), node.input(1)
    again = body.outputs[0]
    while again.producer.op_type == "Identity":
        again = again.producer.operand(0)
    goes_on = is_true(again) or again is formal_inputs(body)[1].output
    if elements is None or len(elements) != 1 or not goes_on or not (condition is None or is_true(condition)):
        return unnamed_dim(node, 0)
    [count] = elements
    if isinstance(count, int):
        return max(count, 0)
    return unnamed_dim(node, 0) if count == UNNAMED or count.name.startswith("(") else count


def _types_of_all_iterations(
    node: Node, body: Graph, carried: Sequence[Value], descs: list[TensorDesc], sweep: Sweep
) -> list[TensorDesc]:
    """Types that hold in every iteration: those before the first one, widened until an iteration keeps them."""
    for iteration in range(2 * ROUNDS):
        trial = clone(body)
        inputs = [data.output for data in formal_inputs(trial)[2:]]
        for value, desc in zip(inputs, descs, strict=True):
            value.desc = desc
        sweep(trial)
        results = trial.outputs[1 : 1 + len(carried)]
        for value, desc in zip(results, descs, strict=True):
            check_result(node, value, desc.dtype)
        after = [value.desc for value in results]
        wider = [common_desc(value.name, *each) for value, *each in zip(carried, descs, after, strict=True)]
        if wider == descs:
            return descs
        # A change may need as many iterations as values are carried to reach all of them.
        descs = wider if iteration < ROUNDS else [TensorDesc.plain(desc.dtype, None) for desc in wider]
    return [UNKNOWN] * len(carried)


def _one_element(value: Value) -> StaticShape:
    """The iteration number and the condition are scalars, or what a body declares of one element."""
    return (1,) if value.desc.shape == (1,) else ()


def _infer_scan(node: Node, sweep: Sweep) -> None:
    body = next(node.subgraphs)
    data = [item.output for item in formal_inputs(body)]
    scanned = node.int_attr("num_scan_inputs", 0)
    states = len(data) - scanned
    axes = node.ints_attr("scan_input_axes", (0,) * scanned)
    trip_count: Dim = unnamed_dim(node, 0)
    for value, operand in zip(data[:states], node.operands, strict=False):
        feed(node, value, operand.desc)
    for value, operand, axis_attr in zip(data[states:], node.operands[states:], axes, strict=False):
        shape = operand.desc.shape
        if shape is None:
            feed(node, value, TensorDesc.plain(operand.desc.dtype, None))
            continue
        axis = normal_axis(node, axis_attr, len(shape), name="scan_input_axes")
        if isinstance(shape[axis], int):
            if isinstance(trip_count, int) and shape[axis] != trip_count:
                what = f"its scanned inputs have lengths {trip_count} and {shape[axis]}"
                raise ModelInvalid("E13014", what, where=node)
            trip_count = shape[axis]
        feed(node, value, TensorDesc.plain(operand.desc.dtype, (*shape[:axis], *shape[axis + 1 :])))
    sweep(body)
    results = body.outputs
    for value, state, result in zip(node.outputs[:states], data, results, strict=False):
        check_result(node, result, state.desc.dtype)
        if is_static(state.desc.shape) and is_static(result.desc.shape) and state.desc.shape != result.desc.shape:
            what = f"an iteration turns a state {format_shape(state.desc.shape)} into {format_shape(result.desc.shape)}"
            raise ModelInvalid("E13014", what, where=node)
        value.desc = result.desc
    out_axes: Sequence[int] = node.ints_attr("scan_output_axes", (0,) * (len(results) - states))
    for value, result, axis in zip(node.outputs[states:], results[states:], out_axes, strict=False):
        value.desc = _stacked(node, result.desc, trip_count, axis)


def _stacked(node: Node, desc: TensorDesc, trip_count: Dim, axis: int) -> TensorDesc:
    if desc.shape is None:
        return TensorDesc.plain(desc.dtype, None)
    index = normal_axis(node, axis, len(desc.shape) + 1, name="scan_output_axes")
    return TensorDesc.plain(desc.dtype, (*desc.shape[:index], trip_count, *desc.shape[index:]))

"""Gradient of ai.onnx.preview.training, written out: the nodes from `xs` to `y`, and the chain rule backwards.

What is differentiated stands in the graph in front of the node; its inputs are the values at which. Results of one
Gradient can be differentiated by the next.
"""

from collections.abc import Iterable

from atcpy.errors import Unsupported
from atcpy.ir import Builder, Node, Value
from atcpy.ir.arithmetic import Expr
from atcpy.ops.lowerings.activation_gradients import BY_INPUT, BY_RESULT
from atcpy.ops.lowerings.broadcast_gradients import division_gradients, sum_to
from atcpy.parsers.onnx.upgrade import Upgrade, normalizes

# How many inputs have a gradient, of ops whose other inputs are shapes and types.
_DIFFERENTIABLE_INPUTS = {"Shape": 0, "CastLike": 1, "Expand": 1, "ReduceSum": 1}
_HINT = "export the gradient as nodes of its own"


@normalizes("ai.onnx.preview.training::Gradient")
def differentiate(up: Upgrade) -> None:
    """dy/dx of each of `xs`, a tensor of its shape."""
    names = [*_names(up, "xs"), *_names(up, "zs")]
    if len(names) != up.node.input_count:
        raise up.invalid(f"xs and zs name {len(names)} tensors, {up.node.input_count} are given")
    computed = {value.name: value for node in up.graph.nodes for value in node.outputs}
    target = up.node.str_attr("y", "")
    missing = [name for name in (*names, target) if name not in computed]
    if missing:
        raise up.invalid(f'there is no value "{missing[0]}" in front of it')
    starts = [computed[name] for name in names]
    path = _path(up, starts, computed[target])
    values: dict[Value, Value] = dict(zip(starts, up.node.operands, strict=True))
    nodes = [_at(up, node, values) for node in path]
    gradients = _backwards(up, nodes, values.get(computed[target], computed[target]))
    results: list[Value | str] = []
    for start in starts[: len(up.node.outputs)]:
        x = values[start]
        results.append(gradients[x] if x in gradients else _filled(up, x, 0.0))
    up.replace_by(*results)


def _names(up: Upgrade, name: str) -> tuple[str, ...]:
    found = up.attrs.get(name, ())
    assert isinstance(found, tuple)
    return found


def _path(up: Upgrade, starts: list[Value], target: Value) -> list[Node]:
    """The nodes that compute `target` and depend on one of `starts`, in order."""
    depends = set(starts)
    forward: list[Node] = []
    for node in up.graph.nodes:
        if node is up.node:
            break
        if any(value in depends for value in _followed(node)):
            forward.append(node)
            depends.update(value for value in node.outputs if value not in depends)
    needed = {target} - set(starts)
    path: list[Node] = []
    for node in reversed(forward):
        if any(value in needed for value in node.outputs):
            needed.update(value for value in _followed(node) if value in depends and value not in starts)
            path.append(node)
    return path[::-1]


def _followed(node: Node) -> list[Value]:
    """The inputs on whose elements a result depends, as far as that has a derivative."""
    count = _DIFFERENTIABLE_INPUTS.get(node.op_type)
    return node.operands if count is None else node.operands[:count]


def _at(up: Builder, node: Node, values: dict[Value, Value]) -> Node:
    """The node on the values that are given: itself, or a copy."""
    inputs = [None if value is None else values.get(value, value) for value in node.inputs]
    if node.domain or len(node.outputs) != 1:
        raise _no_derivative(up, node.op_type)
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    copy = up.op(node.op_type, *inputs, **node.attrs)
    values[node.output] = copy
    return copy.producer


def _no_derivative(up: Builder, what: str) -> Unsupported:
    return up.unsupported(f"{what} has no derivative here", _HINT)


def _backwards(up: Builder, nodes: list[Node], target: Value) -> dict[Value, Value]:
    gradients = {target: _filled(up, target, 1.0)}
    for node in reversed(nodes):
        if node.output not in gradients:
            continue
        for value, part in zip(node.operands, _gradients(up, node, gradients[node.output]), strict=False):
            before = gradients.get(value)
            gradients[value] = part if before is None else up.op("Add", before, part)
    return gradients


def _filled(up: Builder, like: Value, number: float) -> Value:
    return up.op("Expand", up.like(number, like), up.op("Shape", like))


def _gradients(b: Builder, node: Node, dy: Value) -> Iterable[Value]:
    """Return the gradients of a node's operands, from that of its result."""
    op_type, y, (x, *others) = node.op_type, node.output, node.operands
    if op_type in BY_RESULT and not node.attrs:
        return [BY_RESULT[op_type](Expr(b, dy), Expr(b, y)).value]
    if op_type in ("Log", "Relu"):
        return [BY_INPUT[op_type](Expr(b, dy), Expr(b, x)).value]
    match op_type:
        case "Add":
            return [sum_to(b, dy, value) for value in node.operands]
        case "Sub":
            return sum_to(b, dy, x), sum_to(b, b.op("Neg", dy), others[0])
        case "Mul":
            return sum_to(b, b.op("Mul", dy, others[0]), x), sum_to(b, b.op("Mul", dy, x), others[0])
        case "Div":
            return division_gradients(b, dy, x, others[0], y)
        case "MatMul" if all(len(b.shape_of(value)) == 2 for value in node.operands):
            return b.op("MatMul", dy, b.transpose(others[0], (1, 0))), b.op("MatMul", b.transpose(x, (1, 0)), dy)
        case "MatMul":
            raise _no_derivative(b, "MatMul of other than matrices")
        case "CastLike":
            return [b.op("CastLike", dy, x)]
        case "Expand":
            return [sum_to(b, dy, x)]
        case "ReduceSum" if node.int_attr("keepdims", 1):
            return [b.op("Expand", dy, b.op("Shape", x))]
        case "ReduceSum":
            raise _no_derivative(b, "ReduceSum that drops dims")
    raise _no_derivative(b, op_type)

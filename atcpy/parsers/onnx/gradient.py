"""Gradient of ai.onnx.preview.training, written out: the nodes from `xs` to `y`, and the chain rule backwards.

What is differentiated stands in the graph in front of the node; its inputs are the values at which. Results of one
Gradient can be differentiated by the next.
"""

from collections.abc import Callable, Iterable

from atcpy.ir import Builder, Node, Value
from atcpy.ir.arithmetic import Expr
from atcpy.ops.lowerings.activation_gradients import BY_INPUT, BY_RESULT
from atcpy.parsers.onnx.inference import rank_of
from atcpy.parsers.onnx.upgrade import Upgrade, normalizes

Rule = Callable[[Builder, Node, Value], Iterable[Value | None]]
_RULES: dict[str, Rule] = {}
# What a gradient itself is made of: shapes and types carry none on.
_FIRST_ONLY = {"Shape": 0, "CastLike": 1, "Expand": 1, "ReduceSum": 1}
_HINT = "export the gradient as nodes of its own"


def rule(op_types: str) -> Callable[[Rule], Rule]:
    """Registers what gives, from the gradient of a node's result, those of its inputs."""

    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(op_types.split(), function))
        return function

    return register


@normalizes("ai.onnx.preview.training::Gradient")
def differentiate(up: Upgrade) -> None:
    """dy/dx of each of `xs`, a tensor of its shape."""
    names = [*_names(up, "xs"), *_names(up, "zs")]
    if len(names) != up.node.input_count:
        raise up.invalid(f"xs and zs name {len(names)} tensors, {up.node.input_count} are given")
    made = {value.name: value for node in up.graph.nodes for value in node.outputs}
    target = up.node.str_attr("y", "")
    missing = [name for name in (*names, target) if name not in made]
    if missing:
        raise up.invalid(f'there is no value "{missing[0]}" in front of it')
    starts = [made[name] for name in names]
    path = _path(up, starts, made[target])
    values: dict[Value, Value] = dict(zip(starts, up.node.operands, strict=True))
    nodes = [_at(up, node, values) for node in path]
    gradients = _backwards(up, nodes, values.get(made[target], made[target]))
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
    count = _FIRST_ONLY.get(node.op_type)
    return node.operands if count is None else node.operands[:count]


def _at(up: Builder, node: Node, values: dict[Value, Value]) -> Node:
    """The node on the values that are given: itself, or a copy."""
    inputs = [None if value is None else values.get(value, value) for value in node.inputs]
    if node.op_type not in _RULES or node.domain or len(node.outputs) != 1:
        raise up.unsupported(f"{node.op_type} has no derivative here", _HINT)
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    copy = up.op(node.op_type, *inputs, **node.attrs)
    values[node.output] = copy
    return copy.producer


def _backwards(up: Builder, nodes: list[Node], target: Value) -> dict[Value, Value]:
    gradients = {target: _filled(up, target, 1.0)}
    for node in reversed(nodes):
        if node.output not in gradients:
            continue
        for value, part in zip(node.inputs, _RULES[node.op_type](up, node, gradients[node.output]), strict=False):
            if value is not None and part is not None:
                before = gradients.get(value)
                gradients[value] = part if before is None else up.op("Add", before, part)
    return gradients


def _filled(up: Builder, like: Value, number: float) -> Value:
    return up.op("Expand", up.like(number, like), up.op("Shape", like))


def _summed(up: Builder, gradient: Value, like: Value) -> Value:
    """The sum of a gradient over the axes along which a broadcast has repeated `like`."""
    rank, own = rank_of(gradient), rank_of(like)
    if rank is None or own is None:
        raise up.unsupported(
            f'the rank of "{like.name}" is not known', "export the model with the shapes of its inputs"
        )
    if rank > own:
        lead = up.const(list(range(rank - own)), label="axes")
        gradient = up.op("ReduceSum", gradient, lead, keepdims=0)
    if own == 0:
        return gradient
    equal = up.op("Equal", up.op("Shape", like), up.op("Shape", gradient))
    axes = up.op("Squeeze", up.op("NonZero", up.op("Not", equal)), up.const([0], label="axes"))
    return up.op("ReduceSum", gradient, axes, keepdims=1, noop_with_empty_axes=1)


# --- the derivatives ------------------------------------------------------------------------------


@rule("Add")
def of_sum(up: Builder, node: Node, g: Value) -> Iterable[Value]:
    """1, 1."""
    return [_summed(up, g, value) for value in node.operands]


@rule("Sub")
def of_difference(up: Builder, node: Node, g: Value) -> Iterable[Value]:
    """1, −1."""
    return _summed(up, g, node.operand(0)), _summed(up, up.op("Neg", g), node.operand(1))


@rule("Mul")
def of_product(up: Builder, node: Node, g: Value) -> Iterable[Value]:
    """b, a."""
    a, b = node.operands
    return _summed(up, up.op("Mul", g, b), a), _summed(up, up.op("Mul", g, a), b)


@rule("Div")
def of_quotient(up: Builder, node: Node, g: Value) -> Iterable[Value]:
    """1/b, −y/b."""
    a, b = node.operands
    return of_division(up, g, a, b, node.output)


def of_division(up: Builder, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value]:
    """The gradients of a and b, where `g` is that of y = a/b."""
    by_a = up.op("Div", g, b)
    by_b = up.op("Neg", up.op("Mul", by_a, y))
    return _summed(up, by_a, a), _summed(up, by_b, b)


@rule("MatMul")
def of_matrix_product(up: Builder, node: Node, g: Value) -> Iterable[Value]:
    """g·bᵀ, aᵀ·g."""
    a, b = node.operands
    if rank_of(a) != 2 or rank_of(b) != 2:
        raise up.unsupported("MatMul of other than matrices has no derivative here", _HINT)
    turned = [up.op("Transpose", value, perm=(1, 0)) for value in (a, b)]
    return up.op("MatMul", g, turned[1]), up.op("MatMul", turned[0], g)


@rule("CastLike Expand ReduceSum")
def of_shapes(up: Builder, node: Node, g: Value) -> Iterable[Value]:
    """What is repeated is summed; what is summed, its axes kept, is repeated."""
    x = node.operand(0)
    if node.op_type == "CastLike":
        return [up.op("CastLike", g, x)]
    if node.op_type == "Expand":
        return [_summed(up, g, x)]
    if not node.int_attr("keepdims", 1):
        raise up.unsupported("ReduceSum that drops dims has no derivative here", _HINT)
    return [up.op("Expand", g, up.op("Shape", x))]


@rule("Identity Neg Exp Log Sqrt Tanh Sigmoid Relu")
def of_function(up: Builder, node: Node, g: Value) -> Iterable[Value]:
    """Element by element; where a result gives the derivative, it is used."""
    by_result = BY_RESULT.get(node.op_type)
    if by_result is not None:
        return [by_result(Expr(up, g), Expr(up, node.output)).value]
    return [BY_INPUT[node.op_type](Expr(up, g), Expr(up, node.operand(0))).value]

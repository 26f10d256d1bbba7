"""Branches: If and Case over bodies that read values from outside."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import DType, Graph, Value
from atcpy.ir.desc import UNKNOWN, common_desc
from atcpy.parsers.tensorflow.evaluation import find_constant
from atcpy.parsers.tensorflow.graph import TfGraph, part
from atcpy.parsers.tensorflow.op import OpBuilder, maps, refused
from atcpy.parsers.tensorflow.ops.lists import give_shape, is_shapeless


@maps("If", "StatelessIf")
def if_(b: OpBuilder) -> list[Value | None]:
    """If; the condition is any number that is not 0. A constant one chooses here"""
    return branch(b, truth(b, b.input(0)), b.body("then_branch"), b.body("else_branch"))


def branch(b: OpBuilder, condition: Value, chosen: TfGraph, other: TfGraph) -> list[Value | None]:
    """Return what one of two graphs returns for the inputs behind the first."""
    arguments = b.inputs[1:]
    indices, (chosen, other) = _read_outputs(b, (chosen, other))
    known = find_constant(condition, b.known)
    if known is not None:
        returned: Sequence[Value | None] = run(b, b.graph, chosen if known.reshape(-1)[0] else other, arguments)
    else:
        graphs = [Graph(f"{b.node.name}/{label}", names=b.graph.names) for label in ("then_branch", "else_branch")]
        bodies = zip(graphs, (chosen, other), strict=True)
        returned = _either(b, condition, graphs, [run(b, graph, body, arguments) for graph, body in bodies])
    return _at_indices(indices, returned)


def _read_outputs(b: OpBuilder, bodies: Sequence[TfGraph]) -> tuple[list[int], Sequence[TfGraph]]:
    """The outputs of branches that are read, and the branches without what only others depend on."""
    counts = [len(body.outputs) for body in bodies]
    if len(set(counts)) > 1:
        raise b.invalid(f"its branches return {' and '.join(map(str, counts))} values")
    indices = [index for index in range(counts[0]) if b.is_read(index)]
    if len(indices) == counts[0]:
        return indices, bodies
    return indices, [part(body, range(len(body.inputs)), indices) for body in bodies]


def _at_indices(indices: Sequence[int], values: Sequence[Value | None]) -> list[Value | None]:
    """The values at these indices of a list, None between them."""
    by_index = dict(zip(indices, values, strict=True))
    return [by_index.get(index) for index in range(max(by_index, default=-1) + 1)]


def run(b: OpBuilder, graph: Graph, body: TfGraph, arguments: Sequence[Value]) -> list[Value]:
    """Read the nodes of a body into a graph, and return the outputs for these arguments."""
    return b.bodies.read_body(b, graph.name.rpartition("/")[2], body, graph, arguments)


def _either(
    b: OpBuilder, condition: Value, graphs: Sequence[Graph], returned: Sequence[Sequence[Value]]
) -> list[Value | None]:
    """Create an If over two graphs that return these values; what both return unchanged is no output of it."""
    pairs = [_with_shapes(b, graphs, pair) for pair in zip(*returned, strict=True)]
    chosen = [pair for pair in pairs if pair[0] is not pair[1]]
    for graph, values in zip(graphs, zip(*chosen, strict=True) if chosen else ((), ()), strict=True):
        graph.append("NetOutput", values, name="NetOutput", outputs=())
    attrs: dict[str, object] = {"then_branch": graphs[0], "else_branch": graphs[1]}
    node = b.graph.append("If", [condition], attrs, name=f"{b.node.name}/If", outputs=("",) * len(chosen))
    node.sources = (b.node.name,)
    for value, (then, other) in zip(node.outputs, chosen, strict=True):
        value.desc = common_desc(value.name, then.desc, other.desc)
        if value.desc is UNKNOWN:
            raise b.invalid(f"its branches return {then.desc.dtype.long} and {other.desc.dtype.long}")
    outputs = iter(node.outputs)
    return [then if then is other else next(outputs) for then, other in pairs]


def _with_shapes(b: OpBuilder, graphs: Sequence[Graph], pair: tuple[Value, Value]) -> tuple[Value, Value]:
    """One output of two branches: where one branch has written to a list whose elements had no shape, the list of the
    other gets that shape.
    """
    shapeless = [is_shapeless(b, value) for value in pair]
    if pair[0] is pair[1] or not any(shapeless):
        return pair
    if all(shapeless):
        raise b.unsupported("branches that return different lists whose elements have no shape", "give element_shape")
    index = shapeless.index(True)
    shaped = give_shape(b.changed(graph=graphs[index]), pair[index], b.shape_of(pair[1 - index])[1:])
    if shaped is None:
        raise b.unsupported("a list whose elements have a size that is known in one branch only", "give element_shape")
    return (shaped, pair[1]) if index == 0 else (pair[0], shaped)


def truth(b: OpBuilder, value: Value) -> Value:
    """Convert a condition to a bool: a number is true if not 0, a text or a tensor if not empty."""
    shape = b.shape_of(value)
    if shape:
        return b.op("Greater", b.op("Size", value), b.const(0))
    if value.desc.dtype is DType.STRING:
        return b.op("Not", b.op("Equal", value, b.const("", DType.STRING)))
    if value.tensor is not None:
        return b.const(value.array != 0, DType.BOOL)
    return b.cast(value, DType.BOOL)


@maps("Case", "StatelessCase")
def case(b: OpBuilder) -> list[Value | None]:
    """If in If; an index that no branch has runs the last"""
    bodies: Sequence[TfGraph] = list(b.node.bodies.values())
    functions = b.attr("branches")
    if not bodies and isinstance(functions, tuple):
        bodies = [b.bodies.find_body(b, function) for function in functions]
    if not bodies:
        raise b.invalid("it has no branches")
    indices, bodies = _read_outputs(b, bodies)
    last = len(bodies) - 1
    if b.is_constant(0):
        chosen = b.ints(0)[0]
        body = bodies[chosen if 0 <= chosen <= last else last]
        return _at_indices(indices, run(b, b.graph, body, b.inputs[1:]))
    index = b.int64_input(0)
    inside = b.op("And", b.op("GreaterOrEqual", index, b.const(0)), b.op("Less", index, b.const(last)))
    return _at_indices(indices, _choose(b, b.op("Where", inside, index, b.const(last)), bodies, 0))


def _choose(b: OpBuilder, index: Value, bodies: Sequence[TfGraph], first: int) -> list[Value]:
    """What body `index - first` returns, by bisection: each If has half of the bodies in a branch."""
    if len(bodies) == 1:
        return run(b, b.graph, bodies[0], b.inputs[1:])
    half = len(bodies) // 2
    graphs = [Graph(f"{b.node.name}/{first + start}", names=b.graph.names) for start in (0, half)]
    condition = b.op("Less", index, b.const(first + half))
    returned = [
        _choose(b.changed(graph=graphs[0]), index, bodies[:half], first),
        _choose(b.changed(graph=graphs[1]), index, bodies[half:], first + half),
    ]
    return [value for value in _either(b, condition, graphs, returned) if value is not None]


maps(
    "Switch", "RefSwitch", "_SwitchN", "Merge", "RefMerge", "Enter", "RefEnter", "NextIteration", "RefNextIteration",
    "LoopCond", note="A part of an If or Loop; refused where it stands alone",
)(refused("a {op} that is no part of a loop, nor of a condition whose two sides meet"))  # fmt: skip

"""Control flow: branches over graphs of their own, which read values from outside as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Value
from atcpy.ir.desc import UNKNOWN, common_desc
from atcpy.parsers.tensorflow.evaluation import find_constant
from atcpy.parsers.tensorflow.graph import TfGraph, part
from atcpy.parsers.tensorflow.op import Op, maps
from atcpy.parsers.tensorflow.ops.lists import give_shape, is_shapeless


@maps("If", "StatelessIf")
def if_(op: Op) -> list[Value | None]:
    """If; the condition is any number that is not 0. A constant one chooses here"""
    return branch(op, truth(op, op.input(0)), op.body("then_branch"), op.body("else_branch"))


def branch(op: Op, condition: Value, chosen: TfGraph, other: TfGraph) -> list[Value | None]:
    """What one of two graphs returns for the inputs behind the first."""
    arguments = op.inputs[1:]
    wanted, (chosen, other) = _wanted(op, (chosen, other))
    known = find_constant(condition, op.known)
    if known is not None:
        returned: Sequence[Value | None] = run(op, op.graph, chosen if known.reshape(-1)[0] else other, arguments)
    else:
        graphs = [Graph(f"{op.node.name}/{label}", names=op.graph.names) for label in ("then_branch", "else_branch")]
        bodies = zip(graphs, (chosen, other), strict=True)
        returned = _either(op, condition, graphs, [run(op, graph, body, arguments) for graph, body in bodies])
    return _spread(wanted, returned)


def _wanted(op: Op, bodies: Sequence[TfGraph]) -> tuple[list[int], Sequence[TfGraph]]:
    """Which results of branches are read, and the branches without what only others depend on."""
    counts = [len(body.outputs) for body in bodies]
    if len(set(counts)) > 1:
        what = f"its branches return {' and '.join(map(str, counts))} values"
        raise ModelInvalid("E13014", what, where=op.where)
    wanted = [index for index in range(counts[0]) if op.is_read(index)]
    if len(wanted) == counts[0]:
        return wanted, bodies
    return wanted, [part(body, range(len(body.inputs)), wanted) for body in bodies]


def _spread(places: Sequence[int], values: Sequence[Value | None]) -> list[Value | None]:
    """The values at their places, None between them."""
    by_place = dict(zip(places, values, strict=True))
    return [by_place.get(place) for place in range(max(by_place, default=-1) + 1)]


def run(op: Op, graph: Graph, body: TfGraph, arguments: Sequence[Value]) -> list[Value]:
    """What a graph returns for these values, its nodes put into another."""
    return op.bodies.read_body(op, graph.name.rpartition("/")[2], body, graph, arguments)


def _either(
    op: Op, condition: Value, graphs: Sequence[Graph], returned: Sequence[Sequence[Value]]
) -> list[Value | None]:
    """The If node over two graphs that return these values; what both return unchanged is no output of it."""
    pairs = [_with_shapes(op, graphs, pair) for pair in zip(*returned, strict=True)]
    chosen = [pair for pair in pairs if pair[0] is not pair[1]]
    for graph, values in zip(graphs, zip(*chosen, strict=True) if chosen else ((), ()), strict=True):
        graph.append("NetOutput", values, name="NetOutput", outputs=())
    attrs: dict[str, object] = {"then_branch": graphs[0], "else_branch": graphs[1]}
    node = op.graph.append("If", [condition], attrs, name=f"{op.node.name}/If", outputs=("",) * len(chosen))
    node.sources = (op.node.name,)
    for value, (a, b) in zip(node.outputs, chosen, strict=True):
        value.desc = common_desc(value.name, a.desc, b.desc)
        if value.desc is UNKNOWN:
            what = f"its branches return {a.desc.dtype.long} and {b.desc.dtype.long}"
            raise ModelInvalid("E13014", what, where=op.where)
    made = iter(node.outputs)
    return [a if a is b else next(made) for a, b in pairs]


def _with_shapes(op: Op, graphs: Sequence[Graph], pair: tuple[Value, Value]) -> tuple[Value, Value]:
    """What two branches return in one place: where one has written first to a list whose elements had no shape, the
    list of the other gets that shape.
    """
    shapeless = [is_shapeless(op, value) for value in pair]
    if pair[0] is pair[1] or not any(shapeless):
        return pair
    if all(shapeless):
        raise op.refuse("branches that return different lists whose elements have no shape", "give element_shape")
    place = shapeless.index(True)
    made = give_shape(replace(op, graph=graphs[place]), pair[place], op.shape_of(pair[1 - place])[1:])
    if made is None:
        raise op.refuse("a list whose elements have a size that is known in one branch only", "give element_shape")
    return (made, pair[1]) if place == 0 else (pair[0], made)


def truth(op: Op, value: Value) -> Value:
    """A scalar as a bool: a number is true if it is not 0, a text if it is not empty, a tensor if it has elements."""
    shape = op.shape_of(value)
    if shape:
        return op.add("Greater", op.add("Size", value), op.const(0))
    if value.desc.dtype is DType.STRING:
        return op.add("Not", op.add("Equal", value, op.const("", DType.STRING)))
    if value.tensor is not None:
        return op.const(value.array != 0, DType.BOOL)
    return op.cast(value, DType.BOOL)


@maps("Case", "StatelessCase")
def case(op: Op) -> list[Value | None]:
    """If in If; an index that no branch has runs the last"""
    bodies: Sequence[TfGraph] = list(op.node.bodies.values())
    functions = op.attr("branches")
    if not bodies and isinstance(functions, tuple):
        bodies = [op.bodies.find_body(op, function) for function in functions]
    if not bodies:
        raise ModelInvalid("E13014", "it has no branches", where=op.where)
    wanted, bodies = _wanted(op, bodies)
    last = len(bodies) - 1
    if op.is_constant(0):
        chosen = op.ints(0)[0]
        return _spread(wanted, run(op, op.graph, bodies[chosen if 0 <= chosen <= last else last], op.inputs[1:]))
    index = op.cast(op.input(0), DType.INT64)
    inside = op.add("And", op.add("GreaterOrEqual", index, op.const(0)), op.add("Less", index, op.const(last)))
    return _spread(wanted, _choose(op, op.add("Where", inside, index, op.const(last)), bodies, 0))


def _choose(op: Op, index: Value, bodies: Sequence[TfGraph], first: int) -> list[Value]:
    """What body `index - first` returns: half of them by each If."""
    if len(bodies) == 1:
        return run(op, op.graph, bodies[0], op.inputs[1:])
    half = len(bodies) // 2
    graphs = [Graph(f"{op.node.name}/{first + start}", names=op.graph.names) for start in (0, half)]
    condition = op.add("Less", index, op.const(first + half))
    returned = [
        _choose(replace(op, graph=graphs[0]), index, bodies[:half], first),
        _choose(replace(op, graph=graphs[1]), index, bodies[half:], first + half),
    ]
    return [value for value in _either(op, condition, graphs, returned) if value is not None]


@maps(
    "Switch",
    "RefSwitch",
    "_SwitchN",
    "Merge",
    "RefMerge",
    "Enter",
    "RefEnter",
    "NextIteration",
    "RefNextIteration",
    "LoopCond",
)
def loose(op: Op) -> Value:
    """A part of an If or Loop; refused where it stands alone"""
    raise op.refuse(f"a {op.node.op} that is no part of a loop, nor of a condition whose two sides meet")


@maps("IdentityN")
def hand_all_through(op: Op) -> list[Value | None]:
    """Its inputs"""
    return [*op.inputs]

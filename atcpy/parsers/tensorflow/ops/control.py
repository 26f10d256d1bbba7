"""Control flow: branches and loops over graphs of their own. What is no loop variable is read from outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Node, TensorDesc, Value
from atcpy.ir.desc import UNKNOWN, common_desc
from atcpy.ir.graph import walk
from atcpy.parsers.tensorflow.conditions import origin
from atcpy.parsers.tensorflow.graph import Ref, TfGraph
from atcpy.parsers.tensorflow.op import Op, maps
from atcpy.parsers.tensorflow.ops.lists import give_shape, is_shapeless

ROUNDS: Final = 4  # until the types that hold in every turn are found; then nothing is believed of their dims


@maps("If", "StatelessIf")
def if_(op: Op) -> list[Value | None]:
    """If; the condition is any number that is not 0. A constant one chooses here"""
    return branch(op, _truth(op, op.input(0)), op.body("then_branch"), op.body("else_branch"))


def branch(op: Op, condition: Value, chosen: TfGraph, other: TfGraph) -> list[Value | None]:
    """What one of two graphs returns for the inputs behind the first."""
    arguments = op.inputs[1:]
    if condition.tensor is not None:
        return [*_run(op, op.graph, chosen if condition.array.reshape(-1)[0] else other, arguments)]
    graphs = [Graph(f"{op.node.name}/{label}", names=op.graph.names) for label in ("then_branch", "else_branch")]
    bodies = zip(graphs, (chosen, other), strict=True)
    return _either(op, condition, graphs, [_run(op, graph, body, arguments) for graph, body in bodies])


def _run(op: Op, graph: Graph, body: TfGraph, arguments: Sequence[Value]) -> list[Value]:
    return op.bodies.read_body(op, graph.name.rpartition("/")[2], body, graph, arguments)


def _either(
    op: Op, condition: Value, graphs: Sequence[Graph], returned: Sequence[Sequence[Value]]
) -> list[Value | None]:
    """The If node over two graphs that return these values; what both return unchanged is no output of it."""
    if len(returned[0]) != len(returned[1]):
        what = f"its branches return {len(returned[0])} and {len(returned[1])} values"
        raise ModelInvalid("E13014", what, where=op.where)
    pairs = list(zip(*returned, strict=True))
    chosen = [pair for pair in pairs if pair[0] is not pair[1]]
    if any(is_shapeless(op, value) for pair in chosen for value in pair):
        raise op.refuse("a branch that writes first to a list whose elements have no shape", "give element_shape")
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


def _truth(op: Op, value: Value) -> Value:
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
    bodies = list(op.node.bodies.values())
    functions = op.attr("branches")
    if not bodies and isinstance(functions, tuple):
        bodies = [op.bodies.find_body(op, function) for function in functions]
    if not bodies:
        raise ModelInvalid("E13014", "it has no branches", where=op.where)
    last = len(bodies) - 1
    if op.is_constant(0):
        chosen = op.ints(0)[0]
        return [*_run(op, op.graph, bodies[chosen if 0 <= chosen <= last else last], op.inputs[1:])]
    index = op.cast(op.input(0), DType.INT64)
    inside = op.add("And", op.add("GreaterOrEqual", index, op.const(0)), op.add("Less", index, op.const(last)))
    return [*_choose(op, op.add("Where", inside, index, op.const(last)), bodies, 0)]


def _choose(op: Op, index: Value, bodies: Sequence[TfGraph], first: int) -> list[Value]:
    """What body `index - first` returns: half of them by each If."""
    if len(bodies) == 1:
        return _run(op, op.graph, bodies[0], op.inputs[1:])
    half = len(bodies) // 2
    graphs = [Graph(f"{op.node.name}/{first + start}", names=op.graph.names) for start in (0, half)]
    condition = op.add("Less", index, op.const(first + half))
    returned = [
        _choose(replace(op, graph=graphs[0]), index, bodies[:half], first),
        _choose(replace(op, graph=graphs[1]), index, bodies[half:], first + half),
    ]
    return [value for value in _either(op, condition, graphs, returned) if value is not None]


@maps("While", "StatelessWhile")
def while_(op: Op) -> list[Value | None]:
    """Loop; what the body hands on unchanged is read from outside, and `i < n` is the number of turns"""
    cond, body = op.body("cond"), op.body("body")
    count = len(op.inputs)
    if (len(cond.inputs), len(body.inputs), len(body.outputs)) != (count,) * 3 or len(cond.outputs) != 1:
        raise ModelInvalid("E13014", "its condition and body do not fit what it carries", where=op.where)
    return _Loop(op, cond, body).build()


@dataclass(slots=True)
class _Turn:
    """The body of the Loop: what it carries at the start of a turn, by its place, and at the end."""

    graph: Graph
    before: dict[int, Value]
    after: list[Value]


@dataclass(slots=True)
class _Loop:
    """A loop on its way: what it carries before the first turn, and the types that hold in every turn."""

    op: Op
    cond: TfGraph
    body: TfGraph
    starts: list[Value] = field(init=False)
    descs: list[TensorDesc] = field(init=False)
    fixed: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.starts = list(self.op.inputs)
        self.descs = [value.desc for value in self.starts]
        outputs = [origin(self.body.nodes, ref) for ref in self.body.outputs]
        self.fixed = {
            index
            for index, (ref, name) in enumerate(zip(outputs, self.body.inputs, strict=True))
            if ref == Ref(name, 0)
        }

    def build(self) -> list[Value | None]:
        """The Loop node; what it ends with."""
        op = self.op
        turn = self._settled_turn()
        if not turn.before:
            _discard(turn.graph)
            return [*self.starts]
        limits, others = self._limits()
        most: Value | None = None
        for limit in limits:
            most = limit if most is None else op.add("Min", most, limit)
        going: Value | None = None
        if others:
            going = _truth(op, _run(op, op.graph, self.cond, self.starts)[0])
            inner = replace(op, graph=turn.graph)
            again = _truth(inner, _run(inner, turn.graph, self.cond, turn.after)[0])
        else:
            again = replace(op, graph=turn.graph).const(True, DType.BOOL)
        moving = list(turn.before)
        turn.graph.append("NetOutput", [again, *[turn.after[i] for i in moving]], name="NetOutput", outputs=())
        inputs = [most, going, *[self.starts[i] for i in moving]]
        name = f"{op.node.name}/Loop"
        node = op.graph.append("Loop", inputs, {"body": turn.graph}, name=name, outputs=("",) * len(moving))
        node.sources = (op.node.name,)
        for value, index in zip(node.outputs, moving, strict=True):
            value.desc = self.descs[index]
        ends: list[Value | None] = [*self.starts]
        for value, index in zip(node.outputs, moving, strict=True):
            ends[index] = value
        return ends

    # --- types -----------------------------------------------------------------------------------

    def _settled_turn(self) -> _Turn:
        """The body, read with the types that hold before and after every turn."""
        for number in range(2 * ROUNDS):
            turn = self._read_turn()
            if not self._learns(turn, forget=number >= ROUNDS):
                return turn
            _discard(turn.graph)
        raise self.op.refuse("the types of what the loop carries do not settle")

    def _read_turn(self) -> _Turn:
        op = self.op
        graph = Graph(f"{op.node.name}/body", names=op.graph.names)
        for index, (name, dtype) in enumerate((("turn", DType.INT64), ("going", DType.BOOL))):
            data = graph.append("Data", (), {"index": index}, name=f"{op.node.name}/{name}")
            data.output.desc = TensorDesc.plain(dtype, ())
        values, before = list(self.starts), dict[int, Value]()
        for index, desc in enumerate(self.descs):
            if index in self.fixed:
                continue
            place = {"index": 2 + len(before)}
            data = graph.append("Data", (), place, name=f"{op.node.name}/{self.body.inputs[index]}")
            data.output.desc = desc
            values[index] = before[index] = data.output
            if is_shapeless(op, self.starts[index]):
                op.bodies.lists[data.output] = op.bodies.lists[self.starts[index]]
        return _Turn(graph, before, _run(op, graph, self.body, values))

    def _learns(self, turn: _Turn, *, forget: bool) -> bool:
        """Widens what is believed of the values by what a turn makes of them; False if it was right."""
        op, learnt = self.op, False
        for index, value in turn.before.items():
            after = turn.after[index]
            if after is value:
                self.fixed.add(index)
                learnt = True
                continue
            if is_shapeless(op, value):
                if is_shapeless(op, after):
                    raise op.refuse("a list whose elements have no shape in any turn", "give element_shape")
                self.starts[index] = give_shape(op, self.starts[index], op.shape_of(after)[1:])
                self.descs[index], learnt = self.starts[index].desc, True
                continue
            wider = common_desc(f"{op.node.name}.{index}", self.descs[index], after.desc)
            if wider is UNKNOWN:
                what = f"it carries {self.descs[index].dtype.long}, a turn makes {after.desc.dtype.long} of it"
                raise ModelInvalid("E13014", what, where=op.where)
            if wider != self.descs[index]:
                self.descs[index] = TensorDesc.plain(wider.dtype, None) if forget else wider
                learnt = True
        return learnt

    # --- how often ---------------------------------------------------------------------------------

    def _limits(self) -> tuple[list[Value], bool]:
        """The numbers of turns that the condition allows, and whether it says more than those."""
        limits: list[Value] = []
        others = False
        for ref in _conjuncts(self.cond, self.cond.outputs[0]):
            limit = self._limit(ref)
            if limit is None:
                others = True
            else:
                limits.append(limit)
        return limits, others

    def _limit(self, ref: Ref) -> Value | None:
        """n − i for `i < n`, where i counts up by one and n stays the same."""
        node = self.cond.nodes.get(ref.node)
        if node is None or node.op not in ("Less", "Greater"):
            return None
        sides = [self._outside(self.cond, origin(self.cond.nodes, side)) for side in node.inputs]
        (counter, start), (_, limit) = sides if node.op == "Less" else reversed(sides)
        if counter is None or limit is None or start is not None or not self._counts(counter):
            return None
        op, first = self.op, self.starts[counter]
        if not (first.desc.dtype.is_int and limit.desc.shape == () and first.desc.shape == ()):
            return None
        return op.add("Sub", op.cast(limit, DType.INT64), op.cast(first, DType.INT64))

    def _outside(self, graph: TfGraph, ref: Ref) -> tuple[int | None, Value | None]:
        """A value of a graph that is the same in every turn, as it is outside; the place of one that is carried."""
        if ref.node in graph.inputs:
            index = graph.inputs.index(ref.node)
            return index, self.starts[index] if index in self.fixed else None
        node = graph.nodes[ref.node]
        if node.op != "Const":
            return None, None
        alone = TfGraph({node.name: node}, [], [ref])
        return None, self.op.bodies.read_body(self.op, "cond", alone, self.op.graph, [])[0]

    def _counts(self, index: int) -> bool:
        """Does a turn add 1 to a carried value?"""
        ref = origin(self.body.nodes, self.body.outputs[index])
        node = self.body.nodes[ref.node]
        if node.op not in ("Add", "AddV2") or len(node.inputs) != 2:
            return False
        terms = [origin(self.body.nodes, term) for term in node.inputs]
        counter = Ref(self.body.inputs[index], 0)
        if counter not in terms:
            return False
        _, step = self._outside(self.body, terms[1 - terms.index(counter)])
        return step is not None and step.tensor is not None and step.array.shape == () and int(step.array) == 1


def _conjuncts(graph: TfGraph, ref: Ref) -> Iterator[Ref]:
    ref = origin(graph.nodes, ref)
    node = graph.nodes.get(ref.node)
    if node is not None and node.op == "LogicalAnd":
        for term in node.inputs:
            yield from _conjuncts(graph, term)
    else:
        yield ref


def _discard(graph: Graph) -> None:
    """Erases a graph that was read in vain, so that nobody outside has readers in it."""
    nodes: list[Node] = list(walk(graph))
    for node in reversed(nodes):  # `walk` gives a node before those of its bodies
        assert node.graph is not None
        node.graph.erase(node)


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

"""Loops over graphs of their own. What is no loop variable is read from outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from atcpy.errors import AtcError, ModelInvalid, raise_all
from atcpy.ir import DType, Graph, Node, Sym, TensorDesc, Value
from atcpy.ir.desc import UNKNOWN, common_desc
from atcpy.ir.graph import walk
from atcpy.ir.shape import Shape
from atcpy.parsers.tensorflow.conditions import origin
from atcpy.parsers.tensorflow.graph import Ref, TfGraph, needed, part
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.control import run, truth
from atcpy.parsers.tensorflow.ops.dropout import refusal
from atcpy.parsers.tensorflow.ops.lists import give_shape, give_shape_of, is_shapeless, list_size

ROUNDS: Final = 4  # until the types that hold in every turn are found; then nothing is believed of their dims
# What writes an element of a list: the places of the list, the index and the element.
_WRITES: Final = {"TensorListSetItem": (0, 1, 2), "TensorArrayWriteV3": (3, 1, 2)}


@maps("While", "StatelessWhile")
def while_(b: OpBuilder) -> list[Value | None]:
    """Loop; what the body hands on unchanged is read from outside, and `i < n` is the number of turns"""
    cond, body = b.body("cond"), b.body("body")
    count = len(b.inputs)
    if (len(cond.inputs), len(body.inputs), len(body.outputs)) != (count,) * 3 or len(cond.outputs) != 1:
        raise b.invalid("its condition and body do not fit what it carries")
    live = _live(b, cond, body)
    if len(live) == count:
        return _Loop(b, cond, body).build()
    carried = b.changed(inputs=[b.inputs[place] for place in live])
    made = dict(zip(live, _Loop(carried, part(cond, live, [0]), part(body, live, live)).build(), strict=True))
    return [made.get(place) for place in range(count)]


def _live(b: OpBuilder, cond: TfGraph, body: TfGraph) -> list[int]:
    """What must be carried: what is read behind the loop, what the condition needs, and what these need in a turn."""
    found: set[int] = set()
    stack = [(body, body.outputs[place], place) for place in range(len(b.inputs)) if b.is_read(place)]
    stack.append((cond, cond.outputs[0], -1))
    places = [{name: place for place, name in enumerate(graph.inputs)} for graph in (cond, body)]
    seen = [set[str](), set[str]()]
    while stack:
        graph, ref, place = stack.pop()
        if place >= 0:
            found.add(place)
        which = int(graph is body)
        argument = places[which].get(ref.node)
        if argument is not None and argument not in found:
            stack.append((body, body.outputs[argument], argument))
        if ref.node not in seen[which]:
            seen[which].add(ref.node)
            node = graph.nodes.get(ref.node)
            stack.extend((graph, other, -1) for other in (node.inputs if node is not None else ()))
    return sorted(found)


@dataclass(slots=True)
class _Turn:
    """The body of the Loop: what it carries at the start of a turn, by its place, and at the end."""

    graph: Graph
    before: dict[int, Value]
    after: list[Value]


@dataclass(slots=True)
class _Loop:
    """A loop on its way: what it carries before the first turn, and the types that hold in every turn."""

    b: OpBuilder
    cond: TfGraph
    body: TfGraph
    starts: list[Value] = field(init=False)
    descs: list[TensorDesc] = field(init=False)
    fixed: set[int] = field(init=False)
    collected: list[int] = field(init=False, default_factory=list)  # lists of which each turn writes one element

    def __post_init__(self) -> None:
        self.starts = list(self.b.inputs)
        self.descs = [value.desc for value in self.starts]
        outputs = [origin(self.body.nodes, ref) for ref in self.body.outputs]
        self.fixed = {
            index
            for index, (ref, name) in enumerate(zip(outputs, self.body.inputs, strict=True))
            if ref == Ref(name, 0)
        }

    def build(self) -> list[Value | None]:
        """The Loop node; what it ends with."""
        b = self.b
        limits, others = self._limits()
        if not others:
            self._find_collected(limits)
        turn = self._settled_turn()
        if not turn.before and not self.collected:
            _discard(turn.graph)
            return [*self.starts]
        most: Value | None = None
        for counter, limit in limits:
            left = b.op("Sub", b.cast(limit, DType.INT64), b.cast(self.starts[counter], DType.INT64))
            most = left if most is None else b.op("Min", most, left)
        going: Value | None = None
        inner = b.changed(graph=turn.graph)
        if others:
            going = truth(b, run(b, b.graph, self.cond, self.starts)[0])
            again = truth(inner, run(inner, turn.graph, self.cond, turn.after)[0])
        else:
            again = inner.const(True, DType.BOOL)
        moving = list(turn.before)
        items = [inner.op("Identity", turn.after[i]) for i in self.collected]
        results = [again, *[turn.after[i] for i in moving], *items]
        turn.graph.append("NetOutput", results, name="NetOutput", outputs=())
        inputs = [most, going, *[self.starts[i] for i in moving]]
        names = ("",) * (len(moving) + len(items))
        attrs = {"body": turn.graph}
        node = b.graph.append("Loop", inputs, attrs, name=f"{b.node.name}/Loop", outputs=names)
        node.sources = (b.node.name,)
        ends: list[Value | None] = [*self.starts]
        for value, index in zip(node.outputs, [*moving, *self.collected], strict=True):
            value.desc = self.descs[index] if index in turn.before else self._stacked(index, turn.after[index])
            ends[index] = value
        return ends

    # --- lists that are written in order -----------------------------------------------------------

    def _find_collected(self, limits: list[tuple[int, Value]]) -> None:
        """Finds the lists of which turn i writes element i, and nobody reads any, and cuts the writing off the body:
        what the turns make is the list.
        """
        outputs = list(self.body.outputs)
        for index, ref in enumerate(self.body.outputs):
            node = self.body.nodes[origin(self.body.nodes, ref).node]
            places = _WRITES.get(node.op)
            if places is None or len(node.inputs) <= max(places):
                continue
            held, at, item = [node.inputs[place] for place in places]
            target = Ref(self.body.inputs[index], 0)
            size = list_size(self.b, self.starts[index])
            if origin(self.body.nodes, held) != target or not self._is_turn(at) or self._is_read(target, node.name):
                continue
            counted = all(_is_zero(self.b, self.starts[i]) for i, _ in limits)
            if size is not None and counted and all(_is_same(self.b, limit, size) for _, limit in limits):
                self.collected.append(index)
                outputs[index] = item
        if self.collected:
            problems: list[AtcError] = []
            self.body = needed(TfGraph(self.body.nodes, self.body.inputs, outputs), problems)
            raise_all(problems)

    def _is_turn(self, ref: Ref) -> bool:
        """Is it the number of the turn: does it count from 0?"""
        source = origin(self.body.nodes, ref)
        if source.node not in self.body.inputs:
            return False
        index = self.body.inputs.index(source.node)
        return _is_zero(self.b, self.starts[index]) and self._counts(index)

    def _is_read(self, target: Ref, writer: str) -> bool:
        """Is the list read by others than the writer, or what that makes by others than who hands it on?"""
        nodes, written = self.body.nodes, Ref(writer, 0)
        for node in nodes.values():
            sources = [origin(nodes, ref) for ref in node.inputs]
            hands_on = bool(sources) and origin(nodes, Ref(node.name, 0)) == sources[0]
            if node.name != writer and not hands_on and (target in sources or written in sources):
                return True
        ends = [origin(nodes, ref) for ref in self.body.outputs]
        return ends.count(written) != 1 or target in ends

    def _stacked(self, index: int, item: Value) -> TensorDesc:
        known = self.b.known(list_size(self.b, self.starts[index]))
        turns = known[0] if known else Sym(f"{self.b.node.name}.{index}.turns")
        shape = None if item.desc.shape is None else (turns, *item.desc.shape)
        return TensorDesc.plain(item.desc.dtype, shape)

    # --- types -----------------------------------------------------------------------------------

    def _settled_turn(self) -> _Turn:
        """The body, read with the types that hold before and after every turn."""
        for number in range(2 * ROUNDS):
            turn = self._read_turn()
            if not self._learns(turn, forget=number >= ROUNDS):
                return turn
            _discard(turn.graph)
        raise self.b.unsupported("the types of what the loop carries do not settle")

    def _read_turn(self) -> _Turn:
        b = self.b
        graph = Graph(f"{b.node.name}/body", names=b.graph.names)
        for index, (name, dtype) in enumerate((("turn", DType.INT64), ("going", DType.BOOL))):
            data = graph.append("Data", (), {"index": index}, name=f"{b.node.name}/{name}")
            data.output.desc = TensorDesc.plain(dtype, ())
        values, before = list(self.starts), dict[int, Value]()
        for index, desc in enumerate(self.descs):
            if index in self.fixed or index in self.collected:
                continue
            if self.starts[index] in b.bodies.random:
                raise refusal(b)
            place = {"index": 2 + len(before)}
            data = graph.append("Data", (), place, name=f"{b.node.name}/{self.body.inputs[index]}")
            data.output.desc = desc
            values[index] = before[index] = data.output
            if is_shapeless(b, self.starts[index]):
                b.bodies.lists[data.output] = b.bodies.lists[self.starts[index]]
        return _Turn(graph, before, run(b, graph, self.body, values))

    def _learns(self, turn: _Turn, *, forget: bool) -> bool:
        """Widens what is believed of the values by what a turn makes of them; False if it was right."""
        b, learnt = self.b, False
        for index, value in turn.before.items():
            after = turn.after[index]
            if after is value:
                self.fixed.add(index)
                learnt = True
                continue
            if is_shapeless(b, value):
                if is_shapeless(b, after):
                    raise b.unsupported("a list whose elements have no shape in any turn", "give element_shape")
                self.starts[index] = self._with_shape(index, b.shape_of(after)[1:])
                self.descs[index], learnt = self.starts[index].desc, True
                continue
            wider = common_desc(f"{b.node.name}.{index}", self.descs[index], after.desc)
            if wider is UNKNOWN:
                what = f"it carries {self.descs[index].dtype.long}, a turn makes {after.desc.dtype.long} of it"
                raise ModelInvalid("E13014", what, where=b.where)
            if wider != self.descs[index]:
                self.descs[index] = TensorDesc.plain(wider.dtype, None) if forget else wider
                learnt = True
        return learnt

    def _with_shape(self, index: int, shape: Shape) -> Value:
        """A list before the first turn, whose elements get the shape that a turn gives them. Where only the turn knows
        their sizes, they are those of a first turn that is read for nothing else: what it computes goes once these
        are known.
        """
        b, start = self.b, self.starts[index]
        made = give_shape(b, start, shape)
        return give_shape_of(b, start, run(b, b.graph, self.body, self.starts)[index]) if made is None else made

    # --- how often ---------------------------------------------------------------------------------

    def _limits(self) -> tuple[list[tuple[int, Value]], bool]:
        """What counters must be less than by the condition, and whether that says more."""
        limits: list[tuple[int, Value]] = []
        others = False
        for ref in _conjuncts(self.cond, self.cond.outputs[0]):
            limit = self._limit(ref)
            if limit is None:
                others = True
            else:
                limits.append(limit)
        return limits, others or not limits

    def _limit(self, ref: Ref) -> tuple[int, Value] | None:
        """i and n of `i < n`, where i counts up by one and n stays the same."""
        node = self.cond.nodes.get(ref.node)
        if node is None or node.op not in ("Less", "Greater") or len(node.inputs) != 2:
            return None
        sides = [self._outside(self.cond, origin(self.cond.nodes, side)) for side in node.inputs]
        (counter, start), (_, limit) = sides if node.op == "Less" else reversed(sides)
        if counter is None or limit is None or start is not None or not self._counts(counter):
            return None
        first = self.starts[counter]
        is_number = first.desc.dtype.is_int and limit.desc.shape == () and first.desc.shape == ()
        return (counter, limit) if is_number else None

    def _outside(self, graph: TfGraph, ref: Ref) -> tuple[int | None, Value | None]:
        """A value of a graph that is the same in every turn, as it is outside; the place of one that is carried."""
        if ref.node in graph.inputs:
            index = graph.inputs.index(ref.node)
            return index, self.starts[index] if index in self.fixed else None
        node = graph.nodes[ref.node]
        if node.op != "Const":
            return None, None
        alone = TfGraph({node.name: node}, [], [ref])
        return None, self.b.bodies.read_body(self.b, "cond", alone, self.b.graph, [])[0]

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
        if step is None or step.tensor is None or not step.desc.dtype.is_int or step.desc.shape != ():
            return False
        return int(step.array) == 1


def _conjuncts(graph: TfGraph, ref: Ref) -> Iterator[Ref]:
    """What must all be true for a value to be."""
    stack, seen = [ref], set[Ref]()
    while stack:
        ref = origin(graph.nodes, stack.pop())
        node = graph.nodes.get(ref.node)
        if ref in seen:
            continue
        seen.add(ref)
        if node is not None and node.op == "LogicalAnd":
            stack.extend(node.inputs)
        else:
            yield ref


def _discard(graph: Graph) -> None:
    """Erases a graph that was read in vain, so that nobody outside has readers in it."""
    nodes: list[Node] = list(walk(graph))
    for node in reversed(nodes):  # `walk` gives a node before those of its bodies
        assert node.graph is not None
        node.graph.erase(node)


def _is_zero(b: OpBuilder, value: Value) -> bool:
    return b.known(value) == (0,)


def _is_same(b: OpBuilder, left: Value, right: Value) -> bool:
    """Are two numbers equal, whatever they are?"""
    known = b.known(left)
    if known is not None and known == b.known(right):
        return True
    return _number(left) is _number(right)


def _number(value: Value) -> Value:
    """What is left of a number without the nodes that change its type or shape."""
    while value.producer.op_type in ("Cast", "Reshape", "Squeeze", "Unsqueeze", "Identity"):
        value = value.producer.operand(0)
    return value

"""While loops: a Loop whose body reads what does not change from outside."""

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

MAX_ROUNDS: Final = 4  # until the types that hold in every iteration are found; then their shapes become unknown
# Ops that write an element of a list: the inputs that are the list, the index and the element.
_WRITES: Final = {"TensorListSetItem": (0, 1, 2), "TensorArrayWriteV3": (3, 1, 2)}


@maps("While", "StatelessWhile")
def while_(b: OpBuilder) -> list[Value | None]:
    """Loop; what the body hands on unchanged is read from outside, and `i < n` is the number of iterations"""
    cond, body = b.body("cond"), b.body("body")
    count = len(b.inputs)
    if (len(cond.inputs), len(body.inputs), len(body.outputs)) != (count,) * 3 or len(cond.outputs) != 1:
        raise b.invalid("its condition and body do not fit what it carries")
    live = _live(b, cond, body)
    if len(live) == count:
        return _Loop(b, cond, body).build()
    carried = b.changed(inputs=[b.inputs[index] for index in live])
    results = _Loop(carried, part(cond, live, [0]), part(body, live, live)).build()
    by_index = dict(zip(live, results, strict=True))
    return [by_index.get(index) for index in range(count)]


def _live(b: OpBuilder, cond: TfGraph, body: TfGraph) -> list[int]:
    """The loop variables that are needed: those read behind the loop or by the condition, and those that an iteration
    computes these from.
    """
    in_cond, in_body = ({name: index for index, name in enumerate(graph.inputs)} for graph in (cond, body))
    waiting = [index for index in range(len(b.inputs)) if b.is_read(index)]
    waiting += [in_cond[name] for name in _new_nodes(cond, cond.outputs[0], set()) if name in in_cond]
    found, seen = set[int](), set[str]()
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            waiting += [in_body[name] for name in _new_nodes(body, body.outputs[index], seen) if name in in_body]
    return sorted(found)


def _new_nodes(graph: TfGraph, output: Ref, seen: set[str]) -> Iterator[str]:
    """The names of nodes that an output depends on, but for those seen before."""
    stack = [output.node]
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            yield name
            stack.extend(ref.node for ref in (graph.nodes[name].inputs if name in graph.nodes else ()))


@dataclass(slots=True)
class _Iteration:
    """The body of the Loop: the values that it carries, by the index of the loop variable, and what it returns."""

    graph: Graph
    before: dict[int, Value]
    after: list[Value]


@dataclass(slots=True)
class _Loop:
    """A Loop under construction: the initial values of its variables, and the types that hold in every iteration."""

    b: OpBuilder
    cond: TfGraph
    body: TfGraph
    starts: list[Value] = field(init=False)
    descs: list[TensorDesc] = field(init=False)
    fixed: set[int] = field(init=False)
    collected: list[int] = field(init=False, default_factory=list)  # lists of which iteration i writes element i

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
        """Create the Loop; return the final values of all variables."""
        b = self.b
        limits, others = self._limits()
        if not others:
            self._find_collected(limits)
        iteration = self._settled_iteration()
        if not iteration.before and not self.collected:
            _discard(iteration.graph)
            return [*self.starts]
        trip_count: Value | None = None
        for counter, limit in limits:
            left = b.op("Sub", b.cast(limit, DType.INT64), b.cast(self.starts[counter], DType.INT64))
            trip_count = left if trip_count is None else b.op("Min", trip_count, left)
        start: Value | None = None
        inner = b.changed(graph=iteration.graph)
        if others:
            start = truth(b, run(b, b.graph, self.cond, self.starts)[0])
            again = truth(inner, run(inner, iteration.graph, self.cond, iteration.after)[0])
        else:
            again = inner.const(True, DType.BOOL)
        carried = list(iteration.before)
        items = [inner.op("Identity", iteration.after[i]) for i in self.collected]
        results = [again, *[iteration.after[i] for i in carried], *items]
        iteration.graph.append("NetOutput", results, name="NetOutput", outputs=())
        inputs = [trip_count, start, *[self.starts[i] for i in carried]]
        names = ("",) * (len(carried) + len(items))
        attrs = {"body": iteration.graph}
        node = b.graph.append("Loop", inputs, attrs, name=f"{b.node.name}/Loop", outputs=names)
        node.sources = (b.node.name,)
        ends: list[Value | None] = [*self.starts]
        for value, index in zip(node.outputs, [*carried, *self.collected], strict=True):
            value.desc = (
                self.descs[index] if index in iteration.before else self._stacked(index, iteration.after[index])
            )
            ends[index] = value
        return ends

    # --- lists that are written in order -----------------------------------------------------------

    def _find_collected(self, limits: list[tuple[int, Value]]) -> None:
        """Find the lists of which iteration i writes element i and that no node reads, and cut the writing off the
        body: the Loop stacks the elements as a scan output.
        """
        outputs = list(self.body.outputs)
        for index, ref in enumerate(self.body.outputs):
            node = self.body.nodes[origin(self.body.nodes, ref).node]
            inputs = _WRITES.get(node.op)
            if inputs is None or len(node.inputs) <= max(inputs):
                continue
            written, at, item = [node.inputs[i] for i in inputs]
            target = Ref(self.body.inputs[index], 0)
            size = list_size(self.b, self.starts[index])
            if (
                origin(self.body.nodes, written) != target
                or not self._is_iteration_number(at)
                or self._is_read(target, node.name)
            ):
                continue
            counted = all(_is_zero(self.b, self.starts[i]) for i, _ in limits)
            if size is not None and counted and all(_is_same(self.b, limit, size) for _, limit in limits):
                self.collected.append(index)
                outputs[index] = item
        if self.collected:
            problems: list[AtcError] = []
            self.body = needed(TfGraph(self.body.nodes, self.body.inputs, outputs), problems)
            raise_all(problems)

    def _is_iteration_number(self, ref: Ref) -> bool:
        """Whether it is the number of the iteration: it counts from 0."""
        source = origin(self.body.nodes, ref)
        if source.node not in self.body.inputs:
            return False
        index = self.body.inputs.index(source.node)
        return _is_zero(self.b, self.starts[index]) and self._counts(index)

    def _is_read(self, target: Ref, writer: str) -> bool:
        """Whether others than the writer read the list, or anything but the end of the body what it returns."""
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
        count = known[0] if known else Sym(f"{self.b.node.name}.{index}.iterations")
        shape = None if item.desc.shape is None else (count, *item.desc.shape)
        return TensorDesc.plain(item.desc.dtype, shape)

    # --- types -----------------------------------------------------------------------------------

    def _settled_iteration(self) -> _Iteration:
        """The body, read with the types that hold before and after every iteration."""
        for number in range(2 * MAX_ROUNDS):
            iteration = self._read_iteration()
            if not self._widens(iteration, forget=number >= MAX_ROUNDS):
                return iteration
            _discard(iteration.graph)
        raise self.b.unsupported("the types of what the loop carries do not settle")

    def _read_iteration(self) -> _Iteration:
        b = self.b
        graph = Graph(f"{b.node.name}/body", names=b.graph.names)
        for index, (name, dtype) in enumerate((("iteration", DType.INT64), ("condition", DType.BOOL))):
            data = graph.append("Data", (), {"index": index}, name=f"{b.node.name}/{name}")
            data.output.desc = TensorDesc.plain(dtype, ())
        values, before = list(self.starts), dict[int, Value]()
        for index, desc in enumerate(self.descs):
            if index in self.fixed or index in self.collected:
                continue
            if self.starts[index] in b.bodies.random:
                raise refusal(b)
            attrs = {"index": 2 + len(before)}
            data = graph.append("Data", (), attrs, name=f"{b.node.name}/{self.body.inputs[index]}")
            data.output.desc = desc
            values[index] = before[index] = data.output
            if is_shapeless(b, self.starts[index]):
                b.bodies.lists[data.output] = b.bodies.lists[self.starts[index]]
        return _Iteration(graph, before, run(b, graph, self.body, values))

    def _widens(self, iteration: _Iteration, *, forget: bool) -> bool:
        """Widen the types of the variables to those that an iteration returns; False if they hold already."""
        b, changed = self.b, False
        for index, value in iteration.before.items():
            after = iteration.after[index]
            if after is value:
                self.fixed.add(index)
                changed = True
                continue
            if is_shapeless(b, value):
                if is_shapeless(b, after):
                    raise b.unsupported("a list whose elements have no shape in any iteration", "give element_shape")
                self.starts[index] = self._with_shape(index, b.shape_of(after)[1:])
                self.descs[index], changed = self.starts[index].desc, True
                continue
            wider = common_desc(f"{b.node.name}.{index}", self.descs[index], after.desc)
            if wider is UNKNOWN:
                what = f"it carries {self.descs[index].dtype.long}, an iteration returns {after.desc.dtype.long}"
                raise ModelInvalid("E13014", what, where=b.where)
            if wider != self.descs[index]:
                self.descs[index] = TensorDesc.plain(wider.dtype, None) if forget else wider
                changed = True
        return changed

    def _with_shape(self, index: int, shape: Shape) -> Value:
        """The initial list, whose elements get the shape that an iteration gives them. Sizes that are known only inside
        the body are taken from a first iteration that is read before the loop; it is dead once they are known.
        """
        b, start = self.b, self.starts[index]
        shaped = give_shape(b, start, shape)
        return give_shape_of(b, start, run(b, b.graph, self.body, self.starts)[index]) if shaped is None else shaped

    # --- trip count --------------------------------------------------------------------------------

    def _limits(self) -> tuple[list[tuple[int, Value]], bool]:
        """The limits below which the condition wants counters, and whether it says more than that."""
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
        """A value of a graph as it is outside, if it is the same in every iteration; the index of a loop variable."""
        if ref.node in graph.inputs:
            index = graph.inputs.index(ref.node)
            return index, self.starts[index] if index in self.fixed else None
        node = graph.nodes[ref.node]
        if node.op != "Const":
            return None, None
        alone = TfGraph({node.name: node}, [], [ref])
        return None, self.b.bodies.read_body(self.b, "cond", alone, self.b.graph, [])[0]

    def _counts(self, index: int) -> bool:
        """Whether an iteration adds 1 to a variable."""
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
    """The terms of a conjunction."""
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
    """Erase a graph that is not used, so that values outside lose their readers in it."""
    nodes: list[Node] = list(walk(graph))
    for node in reversed(nodes):  # `walk` gives a node before those of its bodies
        assert node.graph is not None
        node.graph.erase(node)


def _is_zero(b: OpBuilder, value: Value) -> bool:
    return b.known(value) == (0,)


def _is_same(b: OpBuilder, left: Value, right: Value) -> bool:
    """Whether two numbers are equal in every run."""
    known = b.known(left)
    if known is not None and known == b.known(right):
        return True
    return _number(left) is _number(right)


def _number(value: Value) -> Value:
    """The number below nodes that change only its type or shape."""
    while value.producer.op_type in ("Cast", "Reshape", "Squeeze", "Unsqueeze", "Identity"):
        value = value.producer.operand(0)
    return value

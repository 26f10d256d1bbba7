"""The cut between known and unknown shapes (GE's dynamic shape partitioner).

Nodes whose shapes all follow from the graph's inputs become one known graph, which is compiled as a
whole. Behind it come the nodes that have to run before the next shapes are known; what reads their
results is the rest, a graph of its own that is compiled for what came out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from atcpy.errors import InternalError
from atcpy.ir import DType, Engine, Graph, Node, Tensor, TensorDesc, Value
from atcpy.ir.clone import extract
from atcpy.ir.specialization import Counted, Rest
from atcpy.ir.symbolic import Tracer, is_symbolic
from atcpy.kernels import _kernels
from atcpy.ops import Trait, find_opdef, has_trait
from atcpy.ops.core.steps import IN_PLAN
from atcpy.passes.split.assign_engines import choose_engine
from atcpy.passes.split.plan_control_flow import fits_plan
from atcpy.passes.split.shape_arithmetic import Arithmetic, decides_shapes, find_arithmetic


@dataclass(frozen=True, slots=True)
class KnownCut:
    """A graph in three: `known` or None, the nodes between, the `rest` or None; `counted`, `constants`
    and `outputs` as in `Specialization`.
    """

    known: Graph | None
    counted: dict[str, Counted]
    eager: tuple[Node, ...]
    constants: dict[str, Tensor]
    outputs: tuple[tuple[int, str], ...]
    rest: Rest | None


def has_memory(desc: TensorDesc) -> bool:
    """Can a plan hold it: a known shape, and elements of whole bytes, or of 2 or 4 bits packed?"""
    return desc.is_static and _is_numeric(desc.dtype)


def is_known(graph: Graph) -> bool:
    """True if the whole graph can be one plan."""
    ports = (*(node.output for node in graph.inputs), *graph.outputs)
    nodes = (node for node in graph.nodes if not node.is_structural)
    return all(map(_runs_in_plan, nodes)) and all(has_memory(value.desc) for value in ports)


def cut_known(graph: Graph, *, ahead: Tracer | None = None) -> KnownCut:
    """Cuts a graph whose inputs have the types of this run. If it is cut `ahead` of all runs, for the sizes
    of a tracer, cheap nodes are not run one by one for the sake of what follows: its shapes are symbols.
    """
    cut = _Cut(graph, ahead is not None)
    cut.classify()
    if ahead is not None:
        cut.repeat_arithmetic(find_arithmetic(cut.known, cut.by_value, ahead))
    known = cut.known_graph()
    counted = {} if known is None else count_results(known)
    return KnownCut(known, counted, tuple(cut.eager), cut.constants(), cut.finished_outputs(), cut.rest())


def count_results(graph: Graph) -> dict[str, Counted]:
    """Gives the results whose size depends on data memory for the largest that they can be, and a count beside them,
    which becomes an output of the graph.
    """
    counted: dict[str, Counted] = {}
    counts: list[Value] = []
    for node in graph.nodes:
        opdef = find_opdef(node)
        if opdef is None or opdef.bound is None:
            continue
        shapes = opdef.bound.shapes(node)
        count = graph.add_output(node, f"{node.name}.count", TensorDesc.plain(DType.INT64, (1,)))
        counts.append(count)
        for value, max_shape in zip(node.outputs, shapes, strict=False):
            assert value.desc.shape is not None
            counted[value.name] = Counted(value.desc.shape, count.name)
            value.desc = TensorDesc.plain(value.desc.dtype, max_shape)
    net_output = graph.net_output
    names = net_output.attrs["names"]
    assert isinstance(names, tuple)
    graph.set_inputs(net_output, [*net_output.operands, *counts])
    net_output.attrs["names"] = (*names, *(count.name for count in counts))
    return counted


@dataclass(slots=True)
class _Cut:
    graph: Graph
    ahead: bool
    known: list[Node] = field(default_factory=list)
    eager: list[Node] = field(default_factory=list)
    later: list[Node] = field(default_factory=list)
    by_value: set[Value] = field(default_factory=set)
    _repeated: set[Node] = field(default_factory=set)  # nodes of `known` that the rest has, too
    _in_plan: set[Value] = field(default_factory=set)
    _there: set[Value] = field(default_factory=set)  # once plan and eager nodes have run

    def classify(self) -> None:
        for node in self.graph.nodes:
            if node.op_type == "NetOutput":
                continue
            if node.is_source:
                self._there.update(node.outputs)
                if has_memory(node.output.desc):
                    self._in_plan.update(node.outputs)
            elif _runs_in_plan(node) and all(value in self._in_plan for value in node.operands):
                self.known.append(node)
                self._in_plan.update(node.outputs)
                self._there.update(node.outputs)
            elif _is_counted(node) and all(value in self._in_plan for value in node.operands):
                self.known.append(node)
                self._there.update(node.outputs)
            elif all(value in self._there for value in node.operands) and self._is_eager(node):
                self.eager.append(node)
                self._there.update(node.outputs)
            else:
                self.later.append(node)
        if self.later and not (self.known or self.eager or self.by_value):
            raise InternalError(
                "nothing of the graph can run before the types of all else are known", where=self.later[0]
            )

    def _is_eager(self, node: Node) -> bool:
        if node.has_subgraphs:
            return True
        if not all(value.desc.is_static or value.producer.op_type == "Data" for value in node.operands):
            return False  # once what comes before has run, its operands' types are known
        if _runs_in_plan(node) and not self._is_cheap(node) and all(has_memory(value.desc) for value in node.operands):
            return False  # it is compiled with what comes after those that are not, such as a Loop of known results
        decisive = [value for value in node.operands if decides_shapes(value)]
        if not decisive or self._is_cheap(node) or not all(_is_numeric(value.desc.dtype) for value in node.operands):
            return True
        # Of a list whose length is not known, each element would be a symbol: that is a shape only if nothing else is.
        few = [value for value in decisive if not is_symbolic(value.desc.elements)]
        self.by_value.update(few or decisive)
        return False

    def _is_cheap(self, node: Node) -> bool:
        """Does numpy do it as well as a plan computed for the operands' elements? Users' operators it does always."""
        return has_trait(node, Trait.CUSTOM if self.ahead else Trait.VIEW | Trait.EAGER | Trait.CUSTOM)

    def repeat_arithmetic(self, arithmetic: Arithmetic) -> None:
        """Compute the elements that decide shapes within the rest, from those that they follow from."""
        self._repeated = arithmetic.nodes
        self.by_value = arithmetic.sources

    def known_graph(self) -> Graph | None:
        if not self.known:
            return None
        computed = {value for node in self.known for value in node.outputs}
        inside = {value for node in self._repeated for value in node.outputs}
        read = self._read_by((*self.eager, self.graph.net_output))
        read += [value for value in self._read_by(self._rest_nodes()) if value not in inside]
        needed = [value for value in dict.fromkeys(read) if value in computed]
        if not needed:
            return None
        read_inside, nodes = set(needed), list[Node]()
        for node in reversed(self.known):  # what only the rest computes is left out
            if not read_inside.isdisjoint(node.outputs):
                nodes.append(node)
                read_inside.update(node.operands)
        return extract(self.graph, nodes[::-1], needed)

    def finished_outputs(self) -> tuple[tuple[int, str], ...]:
        outputs = enumerate(self.graph.outputs)
        return tuple((index, value.name) for index, value in outputs if value in self._there)

    def constants(self) -> dict[str, Tensor]:
        read = self._read_by((*self.eager, self.graph.net_output))
        return {value.name: value.tensor for value in read if value.tensor is not None}

    def rest(self) -> Rest | None:
        indices = tuple(index for index, value in enumerate(self.graph.outputs) if value not in self._there)
        if not indices:
            return None
        graph = extract(self.graph, self._rest_nodes(), [self.graph.outputs[index] for index in indices])
        return Rest(graph, frozenset(value.name for value in self.by_value), indices)

    def _rest_nodes(self) -> list[Node]:
        return [*(node for node in self.known if node in self._repeated), *self.later]

    def _read_by(self, nodes: Iterable[Node]) -> list[Value]:
        return list(dict.fromkeys(value for node in nodes for value in node.operands))


def _runs_in_plan(node: Node) -> bool:
    if not all(has_memory(value.desc) for value in node.outputs):
        return False
    if node.has_subgraphs:
        return node.attrs.get(IN_PLAN) == 1 and fits_plan(node, _runs_in_plan)
    return _fits_record(node)


def _is_counted(node: Node) -> bool:
    """Is the size of its results all that is not known, and has it a kernel that tells it?"""
    opdef = find_opdef(node)
    return (
        opdef is not None
        and opdef.bound is not None
        and all(value.desc.is_static for value in node.operands)
        and choose_engine(node)[0] is not Engine.HOST_CPU
    )


def _fits_record(node: Node) -> bool:
    """A node of the host has one task with all its operands; kernels' records may be several."""
    opdef = find_opdef(node)
    lowered = opdef is not None and opdef.lower is not None and Trait.CUSTOM not in opdef.traits
    return lowered or node.input_count + len(node.outputs) <= _kernels.MAX_SLOTS


def _is_numeric(dtype: DType) -> bool:
    return dtype not in {DType.UNDEFINED, DType.STRING} and (dtype.bits >= 8 or dtype.bits in (2, 4))

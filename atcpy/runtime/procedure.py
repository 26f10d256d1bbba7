"""A graph whose shapes are not all known before it runs, as steps: clusters of nodes, and nodes that run one by one.

A cluster runs by plans of the package. What none of them serves is compiled for the shapes of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from atcpy.errors import InternalError, ModelInvalid, ResourceLimit
from atcpy.ir import Graph, Node, PlannedCluster, Sym, Value, Variable, with_bodies
from atcpy.ir.tensor import Array
from atcpy.om.clusters import TaskRecord
from atcpy.ops.core.reference import EVALUATION_ERRORS
from atcpy.ops.core.steps import Cluster, Step, cluster_graph, find_steps
from atcpy.runtime.control import run_bodies
from atcpy.runtime.host import RuntimeValue, as_arrays, evaluate
from atcpy.runtime.hybrid import HybridGraph, ShapeCache, broken_package
from atcpy.runtime.iterations import BodyPlan
from atcpy.runtime.memory import owned
from atcpy.runtime.plan import ExecutionPlan
from atcpy.runtime.symbolic import PlanContext, SymbolicCluster


def load_procedure(graph: Graph, context: PlanContext, cache: ShapeCache) -> Procedure:
    """Return a package's graph, ready to run. Raises PackageCorrupt (P0005) for plans that are not its own."""
    graphs = with_bodies(graph)
    planned: dict[tuple[Graph, int], PlannedCluster[TaskRecord]] = {}
    for record in context.package.clusters:
        if record.graph >= len(graphs) or (graphs[record.graph], record.step) in planned:
            raise context.corrupt(f"it has plans of graph {record.graph} of {len(graphs)}, step {record.step}, twice")
        planned[graphs[record.graph], record.step] = record
    procedures: dict[Graph, Procedure] = {}
    for owner in reversed(graphs):  # bodies come after the graphs that they are in
        steps = find_steps(owner)
        records = {number: planned.pop((owner, number)) for number in range(len(steps)) if (owner, number) in planned}
        clusters = {number: _bind(record, owner, steps[number], context) for number, record in records.items()}
        procedures[owner] = Procedure(owner, steps, clusters, procedures, cache)
    if planned:
        raise context.corrupt("it has plans of steps that there are not")
    return procedures[graph]


def _bind(record: PlannedCluster[TaskRecord], owner: Graph, step: Step, context: PlanContext) -> SymbolicCluster:
    if not isinstance(step, Cluster) or not _is_of(record, step):
        raise context.corrupt(f"it has plans for other tensors than those of step {record.step} of {owner.name}")
    nodes = tuple(owner.nodes)
    is_checked = record.graph == 0 and step.is_whole  # the session checks what it is fed
    return SymbolicCluster(record, context, lambda: nodes, is_checked=is_checked)


def _is_of(record: PlannedCluster[TaskRecord], cluster: Cluster) -> bool:
    """Do plans have the inputs and the number of outputs of a cluster?"""
    return (
        len(record.inputs) == len(cluster.inputs)
        and all(map(_is_variable, record.inputs, cluster.inputs))
        and all(len(variant.outputs) == len(cluster.outputs) for variant in record.variants)
    )


def _is_variable(variable: Variable, value: Value) -> bool:
    desc = value.desc
    dims = None if desc.shape is None else tuple(-1 if isinstance(dim, Sym) else dim for dim in desc.shape)
    return variable.dtype is desc.dtype and variable.dims == dims


class Procedure:
    """A graph that runs step by step. Threads may share it."""

    def __init__(
        self,
        graph: Graph,
        steps: Sequence[Step],
        clusters: Mapping[int, SymbolicCluster],
        procedures: Mapping[Graph, Procedure],
        cache: ShapeCache,
    ) -> None:
        """`clusters` has the plans by the number of their step, `procedures` at least the bodies of the graph."""
        self._graph, self._steps, self._clusters = graph, steps, clusters
        self._inputs = tuple(node.output for node in graph.inputs)
        self._outputs = tuple(graph.outputs)
        self._is_whole = any(isinstance(step, Cluster) and step.is_whole for step in steps)
        self._bodies = {body: procedures[body] for node in graph.nodes for body in node.subgraphs}
        self._cache = cache
        self._compiled: dict[int, HybridGraph] = {}
        nodes = [step for step in steps if isinstance(step, Node)]
        read = (*(value for node in nodes for value in node.operands), *self._outputs)
        self._constants = {value: _read_only(value.tensor.array) for value in read if value.tensor is not None}
        self._released = self._find_released()

    def _find_released(self) -> list[list[Value]]:
        """The values that no step after each step reads."""
        last: dict[Value, int] = {}
        for number, step in enumerate(self._steps):
            last |= dict.fromkeys(_read_by(step), number)
            last |= {value: number for value in step.outputs if value not in last}
        released: list[list[Value]] = [[] for _ in self._steps]
        for value, number in last.items():
            if value not in self._outputs and value not in self._constants:
                released[number].append(value)
        return released

    def run_owned(self, values: Sequence[RuntimeValue], *, planned: bool = True) -> list[RuntimeValue]:
        """`run` with results that nobody else can change."""
        if planned and self._is_whole and 0 in self._clusters:
            results = self._clusters[0].run(values)
            if results is not None:
                return results
            planned = False
        return owned(self.run(values, planned=planned), values)

    def run(self, values: Sequence[RuntimeValue], *, planned: bool = True) -> list[RuntimeValue]:
        """The outputs for inputs in order; if not `planned`, all is compiled for them. Raises the errors of a session's
        `run`, and PackageCorrupt (P0005) for a graph that the compiler cannot have written.
        """
        try:
            environment: dict[Value, RuntimeValue] = self._constants | dict(zip(self._inputs, values, strict=True))
            for number, step in enumerate(self._steps):
                operands = [None if value is None else environment[value] for value in step.inputs]
                if isinstance(step, Node):
                    results: Sequence[RuntimeValue] = self._run_node(step, operands)
                else:
                    results = self._run_cluster(number, operands, planned=planned)
                environment.update(zip(step.outputs, results, strict=True))
                for value in self._released[number]:
                    environment.pop(value, None)
            return [environment[value] for value in self._outputs]
        except (InternalError, *EVALUATION_ERRORS) as error:
            raise broken_package(error, self._graph.name) from error
        except MemoryError as error:
            raise ResourceLimit("R0001", "no memory for the values of the graph", where=self._graph.name) from error

    def _run_cluster(self, number: int, operands: Sequence[RuntimeValue], *, planned: bool) -> Sequence[RuntimeValue]:
        cluster = self._clusters.get(number)
        results = cluster.run(operands) if cluster is not None and planned else None
        return self._compiled_cluster(number).run(operands) if results is None else results

    def _compiled_cluster(self, number: int) -> HybridGraph:
        """What compiles a cluster for the shapes that it meets."""
        found = self._compiled.get(number)
        if found is None:
            step = self._steps[number]
            assert isinstance(step, Cluster)
            found = self._compiled.setdefault(number, HybridGraph(cluster_graph(self._graph, step), self._cache))
        return found

    def _run_node(self, node: Node, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
        if not node.has_subgraphs:
            return as_arrays(evaluate(node, operands))
        try:
            return run_bodies(node, operands, {body: self._bodies[body] for body in node.subgraphs})
        except EVALUATION_ERRORS as error:
            raise ModelInvalid("D0001", f"{type(error).__name__}: {error}", where=node) from error

    def body_plan(self, values: Sequence[RuntimeValue]) -> BodyPlan | None:
        """The one plan that the graph is for these inputs; None if it takes several, or nodes that run one by one."""
        if len(self._steps) != 1 or self._constants:
            return None
        [step] = self._steps
        if isinstance(step, Node):
            return None
        inputs = {value: index for index, value in enumerate(self._inputs)}
        operands = [values[inputs[value]] for value in step.inputs]
        plan = self._clusters[0].body_plan(operands) if 0 in self._clusters else None
        plan = self._compiled_cluster(0).body_plan(operands) if plan is None else plan
        return plan

    def plans(self) -> Iterator[ExecutionPlan]:
        """The plans for shapes that were met, those of bodies too."""
        for number in range(len(self._steps)):
            if number in self._clusters:
                yield from self._clusters[number].instances()
            if number in self._compiled:
                yield from self._compiled[number].plans()
        for body in self._bodies.values():
            yield from body.plans()

    def eager_nodes(self) -> Iterator[Node]:
        """The nodes that run one by one."""
        for number, step in enumerate(self._steps):
            if isinstance(step, Node):
                yield step
            elif number in self._compiled:
                yield from self._compiled[number].eager_nodes()
        for body in self._bodies.values():
            yield from body.eager_nodes()


def _read_by(step: Step) -> Iterator[Value]:
    return (value for value in step.inputs if value is not None)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view

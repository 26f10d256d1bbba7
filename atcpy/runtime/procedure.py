"""A graph whose shapes are not all known before it runs, as steps: clusters of nodes, and nodes that run one by one.

A cluster runs by plans of the package. What none of them serves is compiled for the shapes of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from atcpy.errors import InternalError, ModelInvalid, ResourceLimit
from atcpy.ir import Graph, Node, PlannedCluster, Sym, Value, Variable, nodes_with_bodies, with_bodies
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.om.task_record import TaskRecords
from atcpy.ops.core.reference import EVALUATION_ERRORS
from atcpy.ops.core.steps import Cluster, Step, cluster_graph, find_steps
from atcpy.runtime.control import ControlNode
from atcpy.runtime.host import RuntimeValue
from atcpy.runtime.hybrid import HybridGraph, broken_package
from atcpy.runtime.iterations import BodyPlan
from atcpy.runtime.memory import owned
from atcpy.runtime.on_demand import ShapeCache
from atcpy.runtime.plan import DirectRun, ExecutionPlan
from atcpy.runtime.profile import Profile, run_alone
from atcpy.runtime.symbolic import PlanContext, SymbolicCluster


def load_procedure(graph: Graph, context: PlanContext, cache: ShapeCache) -> Procedure:
    """Return a package's graph, ready to run. Raises PackageCorrupt (P0005) for plans that are not its own."""
    graphs = with_bodies(graph)
    planned: dict[tuple[Graph, int], PlannedCluster[TaskRecords]] = {}
    for record in context.package.clusters:
        if record.states:
            continue
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


def _unplanned(graph: Graph, cache: ShapeCache) -> Procedure:
    """A graph without plans, whose control flow runs node by node."""
    procedures: dict[Graph, Procedure] = {}
    for owner in reversed(with_bodies(graph)):
        procedures[owner] = Procedure(owner, find_steps(owner, in_plans=False), {}, procedures, cache)
    return procedures[graph]


def _bind(record: PlannedCluster[TaskRecords], owner: Graph, step: Step, context: PlanContext) -> SymbolicCluster:
    if not isinstance(step, Cluster) or not _is_of(record, step):
        raise context.corrupt(f"it has plans for other tensors than those of step {record.step} of {owner.name}")
    is_checked = record.graph == 0 and step.is_whole  # the session checks what it is fed
    return SymbolicCluster(record, context, lambda: nodes_with_bodies(owner), is_checked=is_checked)


def _is_of(record: PlannedCluster[TaskRecords], cluster: Cluster) -> bool:
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


@dataclass(frozen=True, slots=True)
class _BoundStep:
    """A step, and where its values are: in slots of the list of all values. Slot 0 has no value."""

    step: Step
    number: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    released: tuple[int, ...]  # slots that no later step reads


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
        self._graph, self._clusters, self._cache = graph, clusters, cache
        self._bodies = {body: procedures[body] for node in graph.nodes for body in node.subgraphs}
        self._control = {node: ControlNode(node, self._bodies) for node in graph.nodes if node.has_subgraphs}
        self._compiled: dict[int, HybridGraph | Procedure] = {}
        self._is_whole = any(isinstance(step, Cluster) and step.is_whole for step in steps)
        self._values: list[RuntimeValue] = [None]  # constants, in their slots
        self._slots: dict[Value, int] = {}
        self._inputs = tuple([self._slot(node.output) for node in graph.inputs])
        bound = [
            _BoundStep(step, number, tuple(map(self._slot, step.inputs)), tuple(map(self._slot, step.outputs)), ())
            for number, step in enumerate(steps)
        ]
        self._outputs = tuple(map(self._slot, graph.outputs))
        self._steps = self._with_released(bound)

    def _slot(self, value: Value | None) -> int:
        if value is None:
            return 0
        if value not in self._slots:
            self._slots[value] = len(self._values)
            self._values.append(None if value.tensor is None else _read_only(value.tensor.array))
        return self._slots[value]

    def _with_released(self, steps: Sequence[_BoundStep]) -> list[_BoundStep]:
        last = {slot: step.number for step in steps for slot in (*step.outputs, *step.inputs)}
        released: list[list[int]] = [[] for _ in steps]
        for slot, number in last.items():
            if slot not in self._outputs and self._values[slot] is None:
                released[number].append(slot)
        return [replace(step, released=tuple(slots)) for step, slots in zip(steps, released, strict=True)]

    def find_run(self, values: Sequence[RuntimeValue]) -> DirectRun | None:
        """None: no one plan is all of a run."""
        return None

    def run_owned(
        self, values: Sequence[RuntimeValue], *, fed: frozenset[int] = frozenset(), profile: Profile | None = None
    ) -> list[RuntimeValue]:
        """`run` with results that nobody else can change. Plans have the defaults of inputs as constants: where a value
        replaces that of one of the inputs `fed`, all is compiled.
        """
        return owned(self.run(values, planned=not fed, profile=profile), values)

    def run(
        self, values: Sequence[RuntimeValue], *, planned: bool = True, profile: Profile | None = None
    ) -> list[RuntimeValue]:
        """The outputs for inputs in order; if not `planned`, all is compiled for them. `profile` times the tasks.

        Raises the errors of a session's `run`, and PackageCorrupt (P0005) for a graph that the compiler cannot have
        written.
        """
        try:
            slots = self._values.copy()
            for slot, value in zip(self._inputs, values, strict=True):
                slots[slot] = value
            for step in self._steps:
                _kernels.check_deadline()
                operands = [slots[slot] for slot in step.inputs]
                results = self._run_step(step, operands, profile, planned=planned)
                for slot, result in zip(step.outputs, results, strict=True):
                    slots[slot] = result
                for slot in step.released:
                    slots[slot] = None
            return [slots[slot] for slot in self._outputs]
        except (InternalError, *EVALUATION_ERRORS) as error:
            raise broken_package(error, self._graph.name) from error
        except MemoryError as error:
            raise ResourceLimit("R0001", "no memory for the values of the graph", where=self._graph.name) from error

    def _run_step(
        self, step: _BoundStep, operands: Sequence[RuntimeValue], profile: Profile | None, *, planned: bool
    ) -> Sequence[RuntimeValue]:
        if isinstance(step.step, Node):
            return self._run_node(step.step, operands, profile)
        cluster = self._clusters.get(step.number) if planned else None
        results = None if cluster is None else cluster.run(operands, profile)
        return self._compiled_cluster(step).run(operands, profile=profile) if results is None else results

    def _compiled_cluster(self, step: _BoundStep) -> HybridGraph | Procedure:
        """What compiles a cluster for the shapes that it meets; control flow in it runs node by node."""
        found = self._compiled.get(step.number)
        if found is None:
            assert isinstance(step.step, Cluster)
            graph = cluster_graph(self._graph, step.step)
            has_control_flow = any(node.has_subgraphs for node in step.step.nodes)
            compiled = _unplanned(graph, self._cache) if has_control_flow else HybridGraph(graph, self._cache)
            found = self._compiled.setdefault(step.number, compiled)
        return found

    def _run_node(
        self, node: Node, operands: Sequence[RuntimeValue], profile: Profile | None
    ) -> Sequence[RuntimeValue]:
        control = self._control.get(node)
        if control is None:
            return run_alone(node, operands, profile)
        try:
            return control.run(operands, profile)
        except AssertionError as error:  # an attribute of another type than it has
            raise broken_package(error, self._graph.name) from error
        except EVALUATION_ERRORS as error:
            raise ModelInvalid("D0001", f"{type(error).__name__}: {error}", where=node) from error

    def body_plan(self, values: Sequence[RuntimeValue], *, planned: bool = True) -> BodyPlan | None:
        """The one plan that the graph is for these inputs; None if it takes several, or nodes that run one by one. If
        not `planned`, the plan is that which is compiled for them.
        """
        if not self._is_whole:
            return None
        plan = self._clusters[0].body_plan(values) if planned and 0 in self._clusters else None
        return self._compiled_cluster(self._steps[0]).body_plan(values) if plan is None else plan

    def plans(self) -> Iterator[ExecutionPlan]:
        """The plans for shapes that were met, those of bodies too."""
        for step in self._steps:
            if step.number in self._clusters:
                yield from self._clusters[step.number].instances()
            if step.number in self._compiled:
                yield from self._compiled[step.number].plans()
        for body in self._bodies.values():
            yield from body.plans()

    def eager_nodes(self) -> Iterator[Node]:
        """The nodes that run one by one."""
        for step in self._steps:
            if isinstance(step.step, Node):
                yield step.step
            elif step.number in self._compiled:
                yield from self._compiled[step.number].eager_nodes()
        for body in self._bodies.values():
            yield from body.eager_nodes()


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view

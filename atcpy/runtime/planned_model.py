"""A model that the plans of a package serve as a whole. Its graph is read only for sizes that they do not serve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from atcpy.errors import UsageError
from atcpy.runtime.memory import owned
from atcpy.runtime.plan import PlanPort
from atcpy.runtime.symbolic import PlanContext, SymbolicCluster

if TYPE_CHECKING:
    from atcpy.ir import Graph, Node, PlannedCluster, TensorDesc, Variable
    from atcpy.ir.shape import StaticShape
    from atcpy.ir.tensor import Array
    from atcpy.om.package import Package
    from atcpy.om.ports import OpenPort
    from atcpy.om.task_record import TaskRecords
    from atcpy.runtime.host import RuntimeValue
    from atcpy.runtime.on_demand import ShapeCache
    from atcpy.runtime.plan import DirectRun, ExecutionPlan
    from atcpy.runtime.procedure import Procedure
    from atcpy.runtime.profile import Profile


def load_model(context: PlanContext, shapes: ShapeCache, find_graph: Callable[[], Graph]) -> Procedure | PlannedModel:
    """Return a package whose shapes are not all known, ready to run; `find_graph` reads its graph.

    Raises PackageCorrupt (P0005) for plans that are not its own.
    """

    @cache
    def procedure() -> Procedure:
        # The steps of a graph need the records of all operators.
        from atcpy.ops.core.reference import EVALUATION_ERRORS
        from atcpy.runtime.hybrid import broken_package
        from atcpy.runtime.procedure import load_procedure

        graph = find_graph()
        if not _lists_ports_of(context.package, graph):
            raise context.corrupt("it lists other inputs or outputs than those of its graph")
        try:
            return load_procedure(graph, context, shapes)
        except (UsageError, *EVALUATION_ERRORS) as error:
            raise broken_package(error, graph.name) from error

    record = next((record for record in context.package.clusters if record.is_whole), None)
    return procedure() if record is None else PlannedModel(record, context, shapes, find_graph, procedure)


class PlannedModel:
    """Runs a model by the plans of its one cluster. Threads may share it."""

    def __init__(
        self,
        record: PlannedCluster[TaskRecords],
        context: PlanContext,
        shapes: ShapeCache,
        find_graph: Callable[[], Graph],
        find_procedure: Callable[[], Procedure],
    ) -> None:
        """`find_procedure` gives what runs sizes that no plan serves; `shapes` says for how many plans are kept."""
        package = context.package
        plain = [record for record in package.clusters if not record.states]
        if len(plain) > 1 or not _has_ports(record, package.open_inputs, package.open_outputs):
            raise context.corrupt("it has plans for other tensors than the model's inputs and outputs")
        # The session compares what it is fed with the inputs.
        self._cluster = SymbolicCluster(record, context, lambda: nodes_of(find_graph()), is_checked=True)
        self._inputs = record.inputs
        self._find_procedure = find_procedure
        self._kept_shapes = shapes.size
        self._is_compiled = False  # by now, for sizes that were met
        # By the shapes of the inputs; None where it takes several plans, or nodes that run one by one.
        self._compiled_runs: dict[tuple[StaticShape, ...], DirectRun | None] = {}

    def run_owned(
        self, values: Sequence[RuntimeValue], *, fed: frozenset[int] = frozenset(), profile: Profile | None = None
    ) -> list[RuntimeValue]:
        """The outputs for inputs in order, which nobody else can change. `fed`: those whose default a value replaces.
        Raises the errors of a session's `run`.
        """
        results = self._cluster.run(values, profile, fed)
        if results is not None:
            return results
        self._is_compiled = True
        procedure = self._find_procedure()
        results = owned(procedure.run(values, planned=False, profile=profile), values)
        if not fed:
            self._remember(procedure, values)
        return results

    def _remember(self, procedure: Procedure, values: Sequence[RuntimeValue]) -> None:
        """Keep what was compiled for inputs of such shapes, if it is one plan: the next run begins with it."""
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        shapes = _shapes(arrays)
        if len(arrays) < len(values) or shapes in self._compiled_runs:
            return
        body = procedure.body_plan(arrays, planned=False)
        pairs = zip(self._inputs, arrays, strict=True)
        ports = [PlanPort(variable.name, variable.dtype, array.shape) for variable, array in pairs]
        if len(self._compiled_runs) >= self._kept_shapes:
            self._compiled_runs.clear()
        self._compiled_runs[shapes] = None if body is None else body.direct_run(ports)

    def find_run(self, values: Sequence[Array]) -> DirectRun | None:
        """What is all of a run with these inputs, if that is one plan, and one with such inputs was run."""
        run = self._cluster.find_run(values)
        return self._compiled_runs.get(_shapes(values)) if run is None and self._is_compiled else run

    def plans(self) -> Iterator[ExecutionPlan]:
        """The plans for shapes that were met."""
        yield from self._cluster.instances()
        if self._is_compiled:
            yield from self._find_procedure().plans()

    def eager_nodes(self) -> Iterator[Node]:
        """The nodes that run one by one, in what was compiled."""
        if self._is_compiled:
            yield from self._find_procedure().eager_nodes()


def _shapes(arrays: Sequence[Array]) -> tuple[StaticShape, ...]:
    return tuple([array.shape for array in arrays])


def nodes_of(graph: Graph) -> list[Node]:
    """Return the nodes by the index that tasks have."""
    from atcpy.ir import nodes_with_bodies

    return nodes_with_bodies(graph)


def _has_ports(record: PlannedCluster[TaskRecords], inputs: Sequence[OpenPort], outputs: Sequence[OpenPort]) -> bool:
    """Do plans have the inputs and the number of outputs of a model?"""
    return (
        len(record.inputs) == len(inputs)
        and all(map(is_variable, record.inputs, inputs))
        and all(len(variant.outputs) == len(outputs) for variant in record.variants)
    )


def _lists_ports_of(package: Package, graph: Graph) -> bool:
    """Are the inputs and outputs that a package lists, which the session goes by, those of its graph?"""
    return (
        len(package.open_inputs) == len(graph.inputs)
        and len(package.open_outputs) == len(graph.outputs)
        and all(map(_is_port, package.open_inputs, (node.output.desc for node in graph.inputs)))
        and all(map(_is_port, package.open_outputs, (value.desc for value in graph.outputs)))
    )


def _is_port(port: OpenPort, desc: TensorDesc) -> bool:
    dims = None if desc.shape is None else tuple(dim if isinstance(dim, int) else dim.name for dim in desc.shape)
    return port.dtype is desc.dtype and port.shape == dims


def is_variable(variable: Variable, port: OpenPort) -> bool:
    """Has a variable of plans the type of an input?"""
    dims = None if port.shape is None else tuple(-1 if isinstance(dim, str) else dim for dim in port.shape)
    return variable.dtype is port.dtype and variable.dims == dims

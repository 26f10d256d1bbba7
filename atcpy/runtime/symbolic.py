"""Plans for all sizes of open dims: completed for the shapes of a run, without a compiler.

A plan's records lack what depends on symbols. For sizes that were not met yet, C computes that, places the arena's
blocks and checks the records as it checks fixed ones; what results is an ordinary plan, and is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

from atcpy.errors import PackageCorrupt, ResourceLimit, Where
from atcpy.ir import DType, Node
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.om.reader import Package, PlanRecord
from atcpy.runtime.distributed.world import World
from atcpy.runtime.plan import ExecutionPlan, PlanPort

# A plan, the bytes of its inputs and outputs, the shapes of its outputs, and the bytes of its arena.
_Instance = tuple[_kernels.Plan, list[int], list[tuple[int, ...]], int]
MAX_INSTANCES = 256  # of plans for shapes that were met; some kilobytes each


@dataclass(frozen=True, slots=True)
class SymbolicPorts:
    """Names and element types of a package's inputs, with their numbers of dims, and of its outputs."""

    inputs: tuple[tuple[str, DType, int], ...]
    outputs: tuple[tuple[str, DType], ...]


class SymbolicExecutor:
    """Runs a package's symbolic plans. Threads may share it."""

    def __init__(
        self,
        package: Package,
        ports: SymbolicPorts,
        find_nodes: Callable[[], Sequence[Node]],
        *,
        threads: int,
        world: World,
    ) -> None:
        """Check the plans. Raises PackageCorrupt (P0005) for plans that are malformed, or are not of these ports."""
        self._package, self._ports = package, ports
        self._find_nodes, self._world = find_nodes, world
        self._fed = [index for index in range(len(ports.inputs)) if index not in package.default_inputs]
        for plan in package.plans:
            for dim in plan.symbols:
                if not (dim.input_index in self._fed and dim.axis < ports.inputs[dim.input_index][2]):
                    raise self._corrupt(f'its symbol "{dim.name}" is no dim of an input')
        self._plans = [_Plan(record, package, threads) for record in package.plans]
        self._instances: OrderedDict[tuple[int, ...], ExecutionPlan] = OrderedDict()
        self._lock = Lock()

    def _corrupt(self, what: str) -> PackageCorrupt:
        return PackageCorrupt("P0005", what, where=Where(file=self._package.container.source))

    def run(self, values: Sequence[Array]) -> list[Array] | None:
        """The outputs for all inputs of the model, those with a default not being replaced; None if no plan serves
        these shapes. Raises what `ExecutionPlan.run` does.
        """
        fed = [values[index] for index in self._fed]
        for number, plan in enumerate(self._plans):
            sizes = tuple([values[dim.input_index].shape[dim.axis] for dim in plan.record.symbols])
            instance = self._instance(plan, (number, *sizes), fed)
            if instance is not None:
                return instance.run(fed)
        return None

    def instances(self) -> Iterator[ExecutionPlan]:
        """The plans for shapes that were met."""
        with self._lock:
            return iter(list(self._instances.values()))

    def _instance(self, plan: _Plan, key: tuple[int, ...], fed: Sequence[Array]) -> ExecutionPlan | None:
        with self._lock:
            found = self._instances.get(key)
            if found is not None:
                self._instances.move_to_end(key)
                return found
            instance = self._complete(plan, key[1:], fed)
            if instance is None:
                return None
            self._instances[key] = instance
            while len(self._instances) > MAX_INSTANCES:
                self._instances.popitem(last=False)
            return instance

    def _complete(self, plan: _Plan, sizes: tuple[int, ...], fed: Sequence[Array]) -> ExecutionPlan | None:
        try:
            completed = plan.complete(sizes)
        except ValueError as error:  # the program has more symbols than the package lists, or fewer
            raise self._corrupt(f"its plan is of other symbols: {error}") from error
        if completed is None:
            return None
        bound, port_bytes, shapes, arena_bytes = completed
        named = [self._ports.inputs[index][:2] for index in self._fed]
        inputs = [PlanPort(*port, array.shape) for port, array in zip(named, fed, strict=True)]
        if len(shapes) != len(self._ports.outputs):
            raise self._corrupt("its plan has other outputs")
        outputs = [PlanPort(*port, shape) for port, shape in zip(self._ports.outputs, shapes, strict=True)]
        if port_bytes != [port.nbytes for port in (*inputs, *outputs)]:
            raise self._corrupt("its plan has inputs or outputs of another size")
        tasks, weights = plan.record.tasks, self._package.weights
        return ExecutionPlan(
            bound, tasks, weights, arena_bytes, tuple(inputs), tuple(outputs), self._find_nodes, self._world
        )


class _Plan:
    """A symbolic plan as C holds it."""

    def __init__(self, record: PlanRecord, package: Package, threads: int) -> None:
        self.record = record
        records = b"".join(task.record for task in record.tasks)
        try:
            self._plan = _kernels.SymbolicPlan(record.program, records, package.weights, threads)
        except _kernels.Refused as refused:
            reason, _ = refused.args
            where = Where(file=package.container.source)
            raise PackageCorrupt("P0005", f"the plan is refused: {reason}", where=where) from refused

    def complete(self, sizes: tuple[int, ...]) -> _Instance | None:
        """The plan for these sizes, or None if it serves others. What its kernels refuse, the compiler is asked about,
        which can say what is wrong.
        """
        try:
            return self._plan.instantiate(sizes)
        except _kernels.Refused:
            return None
        except MemoryError as error:
            raise ResourceLimit("R0001", f"no memory for a plan of {len(self.record.tasks)} tasks") from error

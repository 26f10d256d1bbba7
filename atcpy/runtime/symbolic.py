"""Plans for all sizes of open dims: completed for the shapes of a run, without a compiler.

A plan's records lack what depends on symbols. For sizes that were not met yet, C computes that, places the arena's
blocks and checks the records as it checks fixed ones; what results is an ordinary plan, and is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from atcpy.errors import PackageCorrupt, ResourceLimit, Where
from atcpy.ir import DType, Node
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.om.reader import Package, PlanRecord
from atcpy.runtime.distributed.world import World
from atcpy.runtime.plan import ExecutionPlan, PlanPort

MAX_INSTANCES = 256  # of plans for shapes that were met; some kilobytes each


class SymbolicExecutor:
    """Runs a package's symbolic plans. Threads may share it."""

    def __init__(
        self,
        package: Package,
        names: tuple[Sequence[str], Sequence[str]],
        dtypes: tuple[Sequence[DType], Sequence[DType]],
        find_nodes: Callable[[], Sequence[Node]],
        *,
        threads: int,
        world: World,
    ) -> None:
        self._package, self._names, self._dtypes = package, names, dtypes
        self._find_nodes, self._world = find_nodes, world
        self._fed = [index for index in range(len(package.inputs)) if index not in package.default_inputs]
        self._plans = [_Plan(record, package, threads) for record in package.plans]
        self._instances: OrderedDict[tuple[int, ...], ExecutionPlan] = OrderedDict()
        self._lock = Lock()

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
            completed = plan.complete(key[1:])
            if completed is None:
                return None
            bound, shapes, arena_bytes = completed
            (input_names, output_names), (input_dtypes, output_dtypes) = self._names, self._dtypes
            ports = [(input_names[index], input_dtypes[index]) for index in self._fed]
            inputs = [(*port, value.shape) for port, value in zip(ports, fed, strict=True)]
            outputs = zip(output_names, output_dtypes, shapes, strict=True)
            instance = ExecutionPlan(
                bound,
                plan.record.tasks,
                self._package.weights,
                arena_bytes,
                tuple(PlanPort(*port) for port in inputs),
                tuple(PlanPort(*port) for port in outputs),
                self._find_nodes,
                self._world,
            )
            self._instances[key] = instance
            while len(self._instances) > MAX_INSTANCES:
                self._instances.popitem(last=False)
            return instance


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

    def complete(self, sizes: tuple[int, ...]) -> tuple[_kernels.Plan, Sequence[tuple[int, ...]], int] | None:
        """The plan for these sizes, the shapes of its outputs and the bytes of its arena; None if it serves others.
        What its kernels refuse, the compiler is asked about, which can say what is wrong.
        """
        try:
            instance = self._plan.instantiate(sizes)
        except _kernels.Refused:
            return None
        except MemoryError as error:
            raise ResourceLimit("R0001", f"no memory for a plan of {len(self.record.tasks)} tasks") from error
        if instance is None:
            return None
        plan, _, shapes, arena_bytes = instance
        return plan, shapes, arena_bytes

"""Plans for all sizes of open dims: completed for the shapes of a run, without a compiler.

A plan's records lack what depends on symbols. For sizes that were not met yet, C computes that, places the arena's
blocks, unless the package says where they lie, and checks the records as it checks fixed ones; what results is an
ordinary plan, and is kept.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, islice
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from atcpy.errors import CODES, ModelInvalid, PackageCorrupt, ResourceLimit, Where
from atcpy.ir import ClusterVariant, PlannedCluster, SymbolicPlan, Variable
from atcpy.ir.shape import element_count
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.kernels.symbolic_program import MAX_NUMBER, VERSION
from atcpy.om.package import Package
from atcpy.om.task_record import TaskRecords
from atcpy.runtime.distributed.world import World
from atcpy.runtime.iterations import BodyOutput, BodyPlan, Origin
from atcpy.runtime.memory import cut, new_buffers, owned
from atcpy.runtime.plan import DirectRun, ExecutionPlan, Feed, PlanPort, Ports, Segment, segments_of
from atcpy.runtime.workers import Workers
from atcpy.sizes import MemoryLimit

if TYPE_CHECKING:  # their modules import the records of all operators
    from atcpy.ir import Node
    from atcpy.runtime.host import RuntimeValue
    from atcpy.runtime.profile import Profile

InstanceT = TypeVar("InstanceT")
# The shapes of the inputs of a run, and the content of those whose elements plans are made for.
_Key = tuple[tuple[tuple[int, ...], ...], tuple[bytes, ...]]
# A plan, the bytes of its inputs and outputs, the shapes of its outputs, and the bytes of its arena.
Completed = tuple[_kernels.Plan, list[int], list[tuple[int, ...]], int]
MAX_INSTANCES = 256  # of plans for shapes that were met; some kilobytes each


@dataclass(slots=True)
class PlanContext:
    """What binding the plans of a package takes."""

    package: Package
    workers: Workers
    world: World
    memory_limit: MemoryLimit | None = None
    _first: _kernels.SymbolicPlan | None = None  # whose arenas all plans share

    def load(self, plan: SymbolicPlan[TaskRecords]) -> _kernels.SymbolicPlan:
        """Check a plan of the package. Raises PackageCorrupt for what is malformed (P0005) or of a newer version
        (P0002), ResourceLimit (R0001) for an arena beyond the limit, if it is the same for all sizes.
        """
        records = plan.tasks.records
        weights = self.package.weights
        if (version := int.from_bytes(plan.program[:4], "little")) > VERSION:
            what = f"plans for open dims have version {version}, this atcpy reads {VERSION}"
            raise PackageCorrupt("P0002", what, where=self._where, hint=CODES["P0002"].help)
        try:
            threads, _, group = self.workers
            loaded = _kernels.SymbolicPlan(
                plan.program, records, weights, threads, arenas_of=self._first, workers=group
            )
        except _kernels.Refused as refused:
            reason, _ = refused.args
            raise self.corrupt(f"the plan is refused: {reason}") from refused
        if self.memory_limit is not None:
            self.memory_limit.check(loaded.arena_bytes() or 0, "the arena for the largest sizes")
        self._first = self._first or loaded
        return loaded

    def check_first(self, variants: Iterable[Sequence[PlanTemplate]]) -> None:
        """Check the plans of the first variant, which is the general one. Others are checked when they are first tried,
        but with a memory limit, which all have to keep. Raises what `load` does.
        """
        for plan in chain.from_iterable(islice(variants, 1 if self.memory_limit is None else None)):
            plan.load()

    def corrupt(self, what: str) -> PackageCorrupt:
        """The error for plans that the compiler cannot have written."""
        return PackageCorrupt("P0005", what, where=self._where, hint=CODES["P0005"].help)

    @property
    def _where(self) -> Where:
        return Where(file=self.package.container.source)


class Instances(Generic[InstanceT]):
    """The plans for sizes that were met; those that were not used for longest are forgotten. Threads may share it."""

    def __init__(self) -> None:
        self._plans: OrderedDict[tuple[int, ...], InstanceT] = OrderedDict()
        self._lock = Lock()

    def find(self, key: tuple[int, ...], complete: Callable[[], InstanceT | None]) -> InstanceT | None:
        """The plan of a key, completed if it is not there; None if it cannot be."""
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                return found
            completed = complete()
            if completed is None:
                return None
            self._plans[key] = completed
            if len(self._plans) > MAX_INSTANCES:
                self._plans.popitem(last=False)
            return completed

    def all(self) -> list[InstanceT]:
        """All of them."""
        with self._lock:
            return list(self._plans.values())


class SymbolicCluster:
    """Runs the plans of a cluster. Threads may share it."""

    def __init__(
        self,
        record: PlannedCluster[TaskRecords],
        context: PlanContext,
        find_nodes: Callable[[], Sequence[Node]],
        *,
        is_checked: bool = False,
    ) -> None:
        """`is_checked`: the inputs of a run are known to have the types that the plans expect. Raises PackageCorrupt
        (P0005) for what is malformed.
        """
        self._record, self._find_nodes, self._is_checked = record, find_nodes, is_checked
        self._origins = _origins(record.variants)
        self._is_direct = [serves_directly(variant, record.inputs) for variant in record.variants]
        # The inputs whose elements the plans of direct runs are made for.
        direct = (variant.plans[0] for variant in compress(record.variants, self._is_direct))
        symbols = (symbol for plan in direct for symbol in plan.symbols)
        self._by_content = sorted({symbol.variable for symbol in symbols if symbol.is_element})
        self._plans: list[list[PlanTemplate]] = []
        for variant, origins, is_direct in zip(record.variants, self._origins, self._is_direct, strict=True):
            self._plans.append(list(_load(variant, record.inputs, context, origins, self._plans, is_direct=is_direct)))
        context.check_first(self._plans)
        self._instances = Instances[ExecutionPlan]()
        self._read = [
            frozenset(index for plan in variant.plans for index in plan.inputs) for variant in record.variants
        ]
        self._last = 0  # the variant that served last
        self._known: dict[_Key, tuple[int, DirectRun | None]] = {}  # the variant that served such inputs last

    def run(
        self, values: Sequence[RuntimeValue], profile: Profile | None = None, fed: frozenset[int] = frozenset()
    ) -> list[Array] | None:
        """The outputs for the inputs; None if no variant serves them. `fed` are inputs whose defaults these values
        replace: most variants have the defaults as constants. Raises what `ExecutionPlan.run` does.
        """
        if not self._serves(values):
            return None
        done: dict[tuple[int, int], list[Array]] = {}  # results of plans with which several variants begin
        if fed:
            numbers = (number for number, read in enumerate(self._read) if fed <= read)
            return next(filter(None, (self._run_variant(number, values, profile, done) for number in numbers)), None)
        key = self._key(values)
        number, direct = self._known.get(key, (None, None))
        if direct is not None:
            return direct.run(values, profile)
        results = None if number is None else self._run_variant(number, values, profile, done)
        if results is not None:
            return results
        # Any variant that serves is right; the next shape of a model that decodes is mostly for that of the last.
        last = self._last
        for number in (last, *(other for other in range(len(self._plans)) if other != last)):
            results = self._run_variant(number, values, profile, done)
            if results is not None:
                self._remember(key, number, values)
                return results
        return None

    def find_run(self, values: Sequence[Array]) -> DirectRun | None:
        """What serves all of a run with these inputs, if one with such inputs was served before by one plan."""
        return self._known.get(self._key(values), (None, None))[1]

    def _key(self, values: Sequence[Array]) -> _Key:
        """What plans of direct runs depend on."""
        shapes = tuple([value.shape for value in values])
        return shapes, tuple([values[index].tobytes() for index in self._by_content]) if self._by_content else ()

    def _remember(self, key: _Key, number: int, values: Sequence[Array]) -> None:
        if len(self._known) >= MAX_INSTANCES:
            self._known.clear()
        self._last = number
        self._known[key] = number, self._direct_run(key, number, values) if self._is_direct[number] else None

    def _direct_run(self, key: _Key, number: int, values: Sequence[Array]) -> DirectRun | None:
        variant, variables = self._record.variants[number], self._record.inputs
        [plan] = variant.plans
        instance = self._instance(self._plans[number][0], (self._origins[number][0], 0), values)
        if instance is None:
            return None
        outputs = tuple([index - len(variables) for index in variant.outputs])
        shapes, contents = key
        takes_all = plan.inputs == tuple(range(len(variables))) and not contents
        if takes_all and outputs == tuple(range(len(plan.outputs))) and not plan.counted:
            return DirectRun(instance)
        content_of = dict(zip(self._by_content, contents, strict=True))
        feeds = tuple(
            Feed(PlanPort(variable.name, variable.dtype, shape), content_of.get(index))
            for index, (variable, shape) in enumerate(zip(variables, shapes, strict=True))
        )
        counted = {item.output: item for item in plan.counted}
        return DirectRun(instance, Ports(feeds, plan.inputs, tuple((index, counted.get(index)) for index in outputs)))

    def _serves(self, values: Sequence[RuntimeValue]) -> bool:
        return self._is_checked or all(map(_fits, self._record.inputs, values))

    def _run_variant(
        self, number: int, values: Sequence[Array], profile: Profile | None, done: dict[tuple[int, int], list[Array]]
    ) -> list[Array] | None:
        variant, variables = self._record.variants[number], list(values)
        for stage, plan in enumerate(self._plans[number]):
            key = self._origins[number][stage], stage
            results = done.get(key)
            if results is None:
                instance = self._instance(plan, key, variables)
                if instance is None:
                    return None
                arrays = [variables[index] for index in plan.record.inputs]
                try:
                    results = instance.run(arrays) if profile is None else profile.run_plan(instance, arrays)
                except ModelInvalid:
                    if variant.condition is not None:
                        return None  # a rule may be broken for that alone
                    raise
                for counted in plan.record.counted:
                    results[counted.output] = cut(results, counted)
                done[key] = results
            variables += results
        if variant.condition is not None and variables[variant.condition].any():
            return None
        outputs = [variables[index] for index in variant.outputs]
        return outputs if self._is_direct[number] else owned(outputs, values)

    def body_plan(self, values: Sequence[RuntimeValue]) -> BodyPlan | None:
        """The one plan that the cluster is for these inputs; None if it takes several, or no variant serves them."""
        if not self._serves(values):
            return None
        first = len(values)
        for number, variant in enumerate(self._record.variants):
            if len(variant.plans) != 1 or variant.plans[0].counted or variant.condition is not None:
                continue
            [plan] = self._plans[number]
            if plan.has_elements:  # they may change from one iteration to the next
                continue
            instance = self._instance(plan, (number, 0), values)
            if instance is not None:
                outputs = [
                    BodyOutput(Origin.BODY_INPUT, index)
                    if index < first
                    else BodyOutput(Origin.PLAN_OUTPUT, index - first)
                    for index in variant.outputs
                ]
                return BodyPlan(instance, plan.record.inputs, tuple(outputs))
        return None

    def instances(self) -> Iterator[ExecutionPlan]:
        """The plans for shapes that were met."""
        return iter(self._instances.all())

    def _instance(self, plan: PlanTemplate, key: tuple[int, int], variables: Sequence[Array]) -> ExecutionPlan | None:
        sizes = plan.sizes(variables)
        if sizes is None:
            return None
        return self._instances.find((*key, *sizes), lambda: plan.complete(sizes, variables, self._find_nodes))


def serves_directly(variant: ClusterVariant[TaskRecords], inputs: Sequence[Variable]) -> bool:
    """Is a variant one plan, which the shapes of the inputs determine, and the content of small ones?"""
    if len(variant.plans) != 1 or variant.condition is not None:
        return False
    [plan] = variant.plans
    read = [inputs[symbol.variable] for symbol in plan.symbols if symbol.is_element]
    return (
        all(index >= len(inputs) for index in variant.outputs)
        and len(set(variant.outputs)) == len(variant.outputs)
        and all(-1 not in variable.dims and element_count(variable.dims) <= len(plan.symbols) for variable in read)
    )


def _origins(variants: Sequence[ClusterVariant[TaskRecords]]) -> list[list[int]]:
    """For each plan of each variant, the first of those that are the same up to it."""
    first: dict[tuple[int, int, SymbolicPlan[TaskRecords]], int] = {}
    found: list[list[int]] = []
    for number, variant in enumerate(variants):
        found.append([])
        before, last = 0, len(variant.plans) - 1
        for stage, plan in enumerate(variant.plans):
            # The last plan is the variant's own: else there were no need of two. To hash its tasks takes a while.
            before = number if stage == last else first.setdefault((before, stage, plan), number)
            found[-1].append(before)
    return found


def _load(
    variant: ClusterVariant[TaskRecords],
    inputs: Sequence[Variable],
    context: PlanContext,
    origins: Sequence[int],
    loaded: Sequence[Sequence[PlanTemplate]],
    *,
    is_direct: bool,
) -> Iterator[PlanTemplate]:
    variables = list(inputs)
    for stage, plan in enumerate(variant.plans):
        if origins[stage] < len(loaded):
            yield loaded[origins[stage]][stage]
            variables += plan.outputs
            continue
        # What goes through further steps is copied if it is a view, as results in shared memory are.
        buffers = tuple(new_buffers() for _ in plan.outputs) if is_direct and not plan.counted else None
        yield PlanTemplate(plan, variables, context, buffers)
        variables += plan.outputs


def _fits(variable: Variable, value: RuntimeValue) -> bool:
    """Is a value of the type that a plan was made for?"""
    return (
        isinstance(value, np.ndarray)
        and value.dtype == variable.dtype.numpy
        and value.ndim == len(variable.dims)
        and all(dim in (-1, size) for dim, size in zip(variable.dims, value.shape, strict=True))
    )


class PlanTemplate:
    """A symbolic plan, which C checks and holds from its first use on: packages have up to 16 for a cluster, most
    sessions meet the sizes of few. `variables` are those that are there when it runs.
    """

    def __init__(
        self,
        record: SymbolicPlan[TaskRecords],
        variables: Sequence[Variable],
        context: PlanContext,
        buffers: tuple[deque[Array], ...] | None,
    ) -> None:
        self.record = record
        self._buffers = buffers
        self._inputs = [variables[index] for index in record.inputs]
        self._context = context
        self.has_elements = any(symbol.is_element for symbol in record.symbols)

    @cached_property
    def _plan(self) -> _kernels.SymbolicPlan:
        return self._context.load(self.record)

    @cached_property
    def _segments(self) -> tuple[Segment, ...]:
        return segments_of(self.record.tasks)

    def load(self) -> None:
        """Check the plan, as its first use does otherwise. Raises what `PlanContext.load` does."""
        _ = self._plan

    def sizes(self, variables: Sequence[Array]) -> tuple[int, ...] | None:
        """The values of the symbols; None if elements that decide them are not there."""
        symbols = self.record.symbols
        if not self.has_elements:
            return tuple([variables[symbol.variable].shape[symbol.index] for symbol in symbols])
        sizes: list[int] = []
        for symbol in symbols:
            array = variables[symbol.variable]
            if not symbol.is_element:
                sizes.append(array.shape[symbol.index])
                continue
            element = int(array.reshape(-1)[symbol.index]) if symbol.index < array.size else None
            if element is None or abs(element) > MAX_NUMBER:
                return None
            sizes.append(element)
        return tuple(sizes)

    def instantiate(self, sizes: tuple[int, ...]) -> Completed | None:
        """What C completes for these sizes, or None if the plan serves others. What its kernels refuse, the compiler is
        asked about, which can say what is wrong.
        """
        try:
            return self._plan.instantiate(sizes)
        except _kernels.Refused:
            return None
        except ValueError as error:  # the program has more symbols than the package lists, or fewer
            raise self._context.corrupt(f"its plan is of other symbols: {error}") from error
        except MemoryError as error:
            raise ResourceLimit("R0001", f"no memory for a plan of {len(self.record.tasks)} tasks") from error

    def complete(
        self, sizes: tuple[int, ...], variables: Sequence[Array], find_nodes: Callable[[], Sequence[Node]]
    ) -> ExecutionPlan | None:
        """The plan for these sizes, or None if it serves others."""
        record, context = self.record, self._context
        completed = self.instantiate(sizes)
        if completed is None:
            return None
        _, port_bytes, shapes, _ = completed
        inputs = [
            PlanPort(variable.name, variable.dtype, variables[index].shape)
            for variable, index in zip(self._inputs, record.inputs, strict=True)
        ]
        if len(shapes) != len(record.outputs):
            raise context.corrupt("its plan has other outputs")
        outputs = [
            PlanPort(variable.name, variable.dtype, shape)
            for variable, shape in zip(record.outputs, shapes, strict=True)
        ]
        if port_bytes != [port.nbytes for port in (*inputs, *outputs)]:
            raise context.corrupt("its plan has inputs or outputs of another size")
        if any(len(shape) != len(variable.dims) for shape, variable in zip(shapes, record.outputs, strict=True)):
            raise context.corrupt("its plan has outputs of another rank")
        return self.execution_plan(completed, find_nodes, tuple(inputs), tuple(outputs))

    def execution_plan(
        self,
        completed: Completed,
        find_nodes: Callable[[], Sequence[Node]],
        inputs: tuple[PlanPort, ...] = (),
        outputs: tuple[PlanPort, ...] = (),
    ) -> ExecutionPlan:
        """What C completed, with the tasks of the package."""
        bound, _, _, arena_bytes = completed
        if self._context.memory_limit is not None:
            self._context.memory_limit.check(bound.run_bytes(), "a run with inputs of these sizes")
        shared = self.record.tasks, self._segments, self._context.package.weights
        ports, world = (inputs, outputs), self._context.world
        return ExecutionPlan(bound, *shared, arena_bytes, *ports, find_nodes, world, buffers=self._buffers)

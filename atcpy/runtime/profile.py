"""How long each task of a run took, and when it ran, whatever plans the run consists of."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from atcpy.errors import UsageError
from atcpy.ir import DType, Node
from atcpy.ir.tensor import Array
from atcpy.kernels.record import HOST_FAMILY
from atcpy.kernels.table import kernel_table
from atcpy.runtime.host import RuntimeValue, as_arrays, evaluate
from atcpy.runtime.plan import ExecutionPlan
from atcpy.runtime.recording import EventBuffer, Recording

MAX_EVENTS = 100_000  # some 40 MB as a trace
# What kernels multiply in float32, whatever type their operands are stored in.
_COMPUTED_IN_FLOAT32 = frozenset({DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16})
_PRODUCTS_OF_BFLOAT16 = frozenset({"avx512bf16", "amx"})  # the instruction sets of rows that multiply that type


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as it is bound on this CPU: its node, the kernel row that runs it, and the model's nodes
    that it stands for.
    """

    node: str
    op_type: str
    engine: str
    kernel: str
    sources: tuple[str, ...]
    passes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskCost:
    """What a launch of a task touches and computes. Bytes are those of all operands, each counted once. `flops`: twice
    the products that it sums, None for a task that sums none, and `multiplied` the type of their factors. `work` is
    the estimate of its kernel's family, in element operations; `items` are the parts that threads share, 1 where it has
    too little work to wake them. `items_of` returns those that so many threads would share.
    """

    stream: int
    read_bytes: int
    written_bytes: int
    flops: int | None
    multiplied: str = "float32"
    work: int = 0
    items: int = 1
    items_of: Callable[[int], int] | None = field(default=None, compare=False)

    @property
    def bytes(self) -> int:
        """Bytes that are read and written."""
        return self.read_bytes + self.written_bytes

    def busy_threads(self, threads: int) -> float:
        """How many of so many threads, which this machine need not have, are busy on average while the task runs, if
        its items take equally long.
        """
        items = self.items if self.items_of is None else self.items_of(threads)
        return items / -(-items // threads) if items > 0 else 1.0


@dataclass(frozen=True, slots=True)
class TaskTime:
    """A task, how often it ran, the seconds that this took, and what one launch costs."""

    task: TaskInfo
    runs: int
    seconds: float
    cost: TaskCost


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """A launch of a task: from when to when, in nanoseconds of `time.monotonic_ns`, and the number of the thread of the
    run that ran it or shared its work out; 0 is the thread that called the run, None is that of its collectives.
    """

    task: TaskInfo
    cost: TaskCost
    start_ns: int
    end_ns: int
    thread: int | None


class _Profiled:
    """A plan, or a node that runs on its own, with the totals of its tasks."""

    def __init__(self, subject: ExecutionPlan | Node, events: EventBuffer) -> None:
        self.subject = subject
        self.recording = Recording(1 if isinstance(subject, Node) else len(subject.tasks), events)

    def describe(self) -> list[tuple[TaskInfo, TaskCost]]:
        """The tasks with their costs. A node of its own has no bytes: its operands may be of any type and size."""
        if isinstance(self.subject, Node):
            return [(_task_of(self.subject, HOST_FAMILY), TaskCost(0, 0, 0, None))]
        return list(zip(tasks_of(self.subject), costs_of(self.subject), strict=True))


class Profile:
    """Times the runs that get it, one after the other: `session.run(names, feeds, profile=profile)`.

    max_events: how many launches are kept with their times; the totals count all. Raises UsageError for less than 0.
    """

    def __init__(self, *, max_events: int = MAX_EVENTS) -> None:
        if max_events < 0:
            raise UsageError("E10013", f"max_events: {max_events} is less than 0")
        self._events = EventBuffer(max_events)
        self._profiled: dict[int, _Profiled] = {}  # they hold their subjects, so that no id is used again
        self._current: _Profiled | None = None  # what ran last
        self._firsts: list[tuple[_Profiled, int]] = []  # whose events begin where
        self._runs = array("q")  # begin and end of each

    @property
    def runs(self) -> list[tuple[int, int]]:
        """When each run began and ended, in nanoseconds of `time.monotonic_ns`."""
        return list(zip(self._runs[::2], self._runs[1::2], strict=True))

    @property
    def dropped(self) -> int:
        """How many launches were not kept."""
        return max(0, self._events.count + self._events.host_count - self._events.room)

    # Plans may take a few microseconds: what this adds to each run is little.
    def run_plan(self, plan: ExecutionPlan, arrays: Sequence[Array], targets: Mapping[int, Array] = {}) -> list[Array]:
        """The outputs of a plan. Raises what it does."""
        if self._current is None or self._current.subject is not plan:
            self._current = self._next(plan)
        return plan.run(arrays, self._current.recording, targets)

    def run_plan_in(self, plan: ExecutionPlan, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run a plan in the memory of these arrays. Raises what it does."""
        self._current = self._next(plan)
        plan.run_in(inputs, outputs, self._current.recording)

    def run_node(self, node: Node, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
        """The results of a node that runs on the host, on its own."""
        self._current = self._next(node)
        start = time.monotonic_ns()
        results = evaluate(node, operands)
        self._current.recording.note(0, start, time.monotonic_ns())
        return results

    def note_run(self, start_ns: int) -> None:
        """Add a whole run that ends now."""
        if len(self._runs) < 2 * MAX_EVENTS:
            self._runs.append(start_ns)
            self._runs.append(time.monotonic_ns())

    def _next(self, subject: ExecutionPlan | Node) -> _Profiled:
        """What the launches of a plan or node that runs now are noted in."""
        profiled = self._profiled.get(id(subject))
        if profiled is None:
            profiled = self._profiled[id(subject)] = _Profiled(subject, self._events)
        if self._events.count < self._events.room:
            self._firsts.append((profiled, self._events.count))
        return profiled

    def times(self) -> list[TaskTime]:
        """The tasks in the order in which they ran first."""
        return [
            TaskTime(task, int(runs), float(ns) * 1e-9, cost)
            for profiled in self._profiled.values()
            for (task, cost), (ns, runs) in zip(profiled.describe(), profiled.recording.totals, strict=True)
        ]

    def events(self) -> list[TaskEvent]:
        """The launches that are kept, the first ones of all, in the order in which they began."""
        events = sorted(self._all_events(), key=lambda event: event.start_ns)
        return events[: self._events.room]

    def _all_events(self) -> Iterator[TaskEvent]:
        described = {id(profiled.recording): profiled.describe() for profiled in self._profiled.values()}
        lasts = [*(first for _, first in self._firsts), min(self._events.count, self._events.room)][1:]
        for (profiled, first), last in zip(self._firsts, lasts, strict=True):
            tasks = described[id(profiled.recording)]
            for start, end, number, thread in self._events.rows[first:last].tolist():
                task, cost = tasks[number]
                yield TaskEvent(task, cost, start, end, thread)
        for each in self._events.on_host:
            task, cost = described[id(each.recording)][each.task]
            yield TaskEvent(task, cost, each.start_ns, each.end_ns, None if each.is_beside else 0)


def run_alone(node: Node, operands: Sequence[RuntimeValue], profile: Profile | None) -> list[RuntimeValue]:
    """The results of a node that runs on the host, on its own."""
    return as_arrays(evaluate(node, operands) if profile is None else profile.run_node(node, operands))


def tasks_of(plan: ExecutionPlan) -> list[TaskInfo]:
    """The tasks of a plan in order of execution."""
    rows = zip(plan.tasks, plan.plan.rows(), strict=True)
    return [_task_of(plan.node(record.op_index), row or record.kernel) for record, row in rows]


def costs_of(plan: ExecutionPlan) -> list[TaskCost]:
    """What a launch of each task of a plan costs."""
    items = cache(plan.plan.items)  # of all tasks, if one is asked for

    def items_of(number: int, threads: int) -> int:
        return items(threads)[number]

    pairs = zip(plan.plan.rows(), plan.plan.footprints(), strict=True)
    return [
        _cost(footprint, _multiplied_by().get(row or "", ""), partial(items_of, number))
        for number, (row, footprint) in enumerate(pairs)
    ]


def _cost(
    footprint: tuple[int, int, int, int | None, int, int], multiplied: str, items_of: Callable[[int], int]
) -> TaskCost:
    stream, read, written, products, work, items = footprint
    flops = None if products is None else 2 * products
    return TaskCost(stream, read, written, flops, multiplied, work, items, items_of)


@cache
def _multiplied_by() -> dict[str, str]:
    """The type that each kernel row multiplies; those for any type that sum products multiply bytes."""
    types = {}
    for row in kernel_table():
        dtype = DType.FLOAT32 if row.dtype in _COMPUTED_IN_FLOAT32 else row.dtype
        if row.isa in _PRODUCTS_OF_BFLOAT16 and dtype is DType.FLOAT32:
            dtype = DType.BFLOAT16
        elif dtype is DType.UNDEFINED:
            dtype = DType.INT8
        types[row.name] = dtype.numpy.name
    return types


def _task_of(node: Node, kernel: str) -> TaskInfo:
    engine = node.engine.value if node.engine is not None else ""
    return TaskInfo(node.name, node.op_type, engine, kernel, node.sources, node.passes)

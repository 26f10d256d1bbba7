"""Streams: independent branches of a graph that run beside each other, each on one thread.

Launches that lie between two nodes on which all others depend, or that depend on all others, fall into branches that
no value connects:

    x → Conv → Relu ─┐              stream_active   3 tasks
    x → Conv ────────┼→ Concat        Conv, Relu    stream 0
                     ┘                Conv          stream 1
                                    Concat

The branches become streams of a section, the ones that take longest first, where that pays on two threads by the costs
of their kernels; the loader decides again, for the threads that a session has. Nothing orders the streams of a section,
so that no event is needed; what comes behind waits for all of it. GE has streams like these from its passes
AssignByDependency and IndependentStream.

Branches are found as the weakly connected components between points of the order that are comparable with all nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from atcpy.ir import Engine, Graph, Task, Value
from atcpy.kernels import _kernels
from atcpy.kernels.record import HOST_FAMILY, STREAM_ACTIVE
from atcpy.kernels.table import pack_params
from atcpy.ops import KernelCall
from atcpy.passes.compile.launch_steps import Step, connect_steps, launches_by_node
from atcpy.passes.compile.lower import Border, Launch
from atcpy.passes.compile.task_accesses import task_accesses

MAX_STREAMS = 16  # of a section: more branches share one
_THREADS = 2  # for which it has to pay
_NODE = "StreamActive"


def form_streams(launches: Sequence[Launch], roots: Mapping[Value, Value]) -> list[Launch]:
    """Return the launches of a graph with sections: that of a new node StreamActive, those of the streams, and a border
    at the end. `roots` maps values to those whose memory they have.
    """
    formed: list[Launch] = []
    for on_host, part in groupby(launches_by_node(launches), _is_barrier):
        if on_host:
            formed += (launch for step in part for launch in step)
        else:
            formed += _form_part(list(part), roots)
    return formed


def _is_barrier(step: Sequence[Launch]) -> bool:
    return any(launch.call.family == HOST_FAMILY or launch.is_collective for launch in step)


def _form_part(part: Sequence[list[Launch]], roots: Mapping[Value, Value]) -> Iterator[Launch]:
    """Yield launches none of which the host runs, with sections."""
    steps = connect_steps(part, roots)
    points = [-1, *_points(steps), len(steps)]
    for before, point in pairwise(points):
        branches = _branches(steps, before + 1, point) if point - before > 2 else []
        streams = _streams(branches) if len(branches) > 1 else None
        if streams is None:
            yield from (launch for step in steps[before + 1 : point] for launch in step.launches)
        else:
            yield from _section(streams)
        if point < len(steps):
            yield from steps[point].launches


def _points(steps: Sequence[Step]) -> list[int]:
    """The steps that depend on all earlier ones and on which all later ones depend."""
    numbered = list(enumerate(steps))
    last = _connected_to_all((number, step.operands) for number, step in numbered)
    first = _connected_to_all((number, step.users) for number, step in reversed(numbered))
    return sorted(last & first)


def _connected_to_all(steps: Iterable[tuple[int, Sequence[int]]]) -> set[int]:
    """The steps to which all before them lead: once they have come, no other is without a step behind it."""
    ends: set[int] = set()
    found: set[int] = set()
    for number, others in steps:
        ends.difference_update(others)
        if not ends:
            found.add(number)
        ends.add(number)
    return found


def _branches(steps: Sequence[Step], first: int, end: int) -> list[list[Step]]:
    """The steps of a range that no value connects within it, branch by branch."""
    leader = list(range(first, end))

    def find(number: int) -> int:
        while leader[number - first] != number:
            leader[number - first] = leader[leader[number - first] - first]
            number = leader[number - first]
        return number

    for number in range(first, end):
        for operand in steps[number].operands:
            if operand >= first:
                leader[find(number) - first] = find(operand)
    branches: dict[int, list[Step]] = defaultdict(list)
    for number in range(first, end):
        branches[find(number)].append(steps[number])
    return list(branches.values())


def _streams(branches: Sequence[Sequence[Step]]) -> list[list[Launch]] | None:
    """The launches of branches by stream, if streams pay."""
    costs = [[_cost(launch) for step in branch for launch in step.launches] for branch in branches]
    streams: list[list[int]] = [[] for _ in range(min(len(branches), MAX_STREAMS))]
    work = [0] * len(streams)
    for number in sorted(range(len(branches)), key=lambda number: -_work(costs[number])):
        least = work.index(min(work))
        streams[least].append(number)
        work[least] += _work(costs[number])
    streams.sort(key=lambda numbers: -sum(_work(costs[number]) for number in numbers))
    if not _kernels.section_pays([[cost for n in numbers for cost in costs[n]] for numbers in streams], _THREADS):
        return None
    return [
        [launch for n in sorted(numbers) for step in branches[n] for launch in step.launches] for numbers in streams
    ]


def _cost(launch: Launch) -> tuple[int, int]:
    return _kernels.task_cost(launch.call.family, pack_params(launch.call.family, launch.call.params))


def _work(costs: Sequence[tuple[int, int]]) -> int:
    return sum(work for _, work in costs)


def _section(streams: Sequence[Sequence[Launch]]) -> Iterator[Launch]:
    first = streams[0][0].node
    assert first.graph is not None
    node = first.graph.append(_NODE, [], {"active_stream_list": tuple(range(len(streams)))}, outputs=(), before=first)
    node.engine = Engine.GE_LOCAL
    yield Launch(node, KernelCall(STREAM_ACTIVE, (), (), {}))
    for stream, launches in enumerate(streams):
        yield from (replace(launch, stream=stream) for launch in launches)
    yield Launch(node, KernelCall("", (), (), {}), border=Border.END)


@dataclass(frozen=True, slots=True)
class Section:
    """Launches or tasks from `first` to before `end` whose streams run beside each other; its record is before them."""

    first: int
    end: int

    @property
    def numbers(self) -> range:
        """Those of the launches or tasks."""
        return range(self.first, self.end)


def launch_sections(launches: Sequence[Launch | None]) -> Iterator[Section]:
    """Yield the sections of a list of launches, in order."""
    first: int | None = None
    for number, launch in enumerate(launches):
        if launch is not None and launch.call.family == STREAM_ACTIVE:
            first = number + 1
        elif launch is not None and launch.border is Border.END and first is not None:
            yield Section(first, number)
            first = None


def task_sections(tasks: Sequence[Task]) -> Iterator[Section]:
    """Yield the sections of a list of tasks, in order."""
    for number, task in enumerate(tasks):
        if task.kernel == STREAM_ACTIVE:
            count = int.from_bytes(task.params, "little")
            yield Section(number + 1, number + 1 + count)


def racing_sections(tasks: Sequence[Task]) -> set[str]:
    """Return the nodes StreamActive of sections in which a stream writes what another one uses."""
    return {
        tasks[section.first - 1].node
        for section in task_sections(tasks)
        if _kernels.streams_race(
            [
                (access.memory, tasks[number].stream, access.first, access.end, access.writes)
                for number in section.numbers
                for access in task_accesses(tasks[number])
            ]
        )
    }


def dissolve_sections(graph: Graph, launches: list[Launch | None], names: Set[str]) -> None:
    """Let launches of sections run in order, and remove the nodes StreamActive of these names."""
    for section in list(launch_sections(launches)):
        begin = launches[section.first - 1]
        assert begin is not None
        if begin.node.name not in names:
            continue
        graph.erase(begin.node)
        launches[section.first - 1] = launches[section.end] = None
        for number in section.numbers:
            launch = launches[number]
            launches[number] = None if launch is None else replace(launch, stream=0)

"""The memory plan of a package, read out of its task records: which bytes of the arena hold what, from which task to
which.

Records name no buffers. A write begins a piece, which lives until the last task that reads it before something else
is written there. Pieces are one buffer if they share bytes at one task (a kernel that works in place, a value that a
loop carries on), if one operand covers them (a Concat without a copy), or if a task reads what either of two branches
has written. An iteration reads again what the first one has read: that lives until the loop ends. What a collective
uses lives until a task waits for it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from atcpy.ir import Node, Region
from atcpy.kernels import _kernels
from atcpy.kernels.record import HOST_FAMILY, STREAM_ACTIVE, read_op_index, read_order, read_slots, record_family
from atcpy.kernels.table import TASK_BYTES, read_number
from atcpy.passes.compile.memory_bound import Block, Peak, align, find_peak


@dataclass(eq=False, slots=True)
class ArenaBuffer:
    """Bytes of the arena and the values that they hold, each with the first task that writes it, in that order. `block`
    is its block in the plan, and `stream` that of the first task.
    """

    values: tuple[tuple[int, str], ...]
    block: Block
    stream: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(dict.fromkeys(name for _, name in self.values))

    def value_at(self, task: int) -> str:
        """The value that was written last, up to a task."""
        return next((name for first, name in reversed(self.values) if first <= task), self.values[0][1])

    @property
    def end(self) -> int:
        """The offset behind its block."""
        return self.block.offset + self.block.nbytes


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """The arena of a plan: the name of the plan, where there are several; the node of each task; the sections of tasks
    whose streams run beside each other; buffers by their first task; and the peak of their blocks, below which no arena
    can be.
    """

    plan: str
    arena_bytes: int
    tasks: tuple[str, ...]
    sections: tuple[range, ...]
    buffers: tuple[ArenaBuffer, ...]
    peak: Peak

    @property
    def at_peak(self) -> list[ArenaBuffer]:
        """The buffers that bound the arena, the largest first."""
        bounding = set(self.peak.blocks)
        found = [buffer for buffer in self.buffers if buffer.block in bounding]
        return sorted(found, key=lambda buffer: (-buffer.block.nbytes, buffer.block.offset))

    @property
    def above_bound(self) -> list[ArenaBuffer]:
        """The buffers that end above the lower bound."""
        return [buffer for buffer in self.buffers if buffer.end > self.peak.nbytes]


def read_arena_plan(plan: str, bound: _kernels.Plan, arena_bytes: int, nodes: Sequence[Node]) -> ArenaPlan:
    """Return the plan that the loader has checked and bound; `nodes` are those that its records name by index."""
    records = bound.records()
    tasks = [_Task.read(records[at : at + TASK_BYTES], nodes) for at in range(0, len(records), TASK_BYTES)]
    pieces = _Pieces(_ends_of_collectives(tasks, bound.joins()))
    for number, task in enumerate(tasks):
        pieces.add_task(number, task)
    buffers = tuple(pieces.buffers(tasks))
    peak = find_peak([buffer.block for buffer in buffers], pieces.sections)
    return ArenaPlan(plan, arena_bytes, tuple(task.node for task in tasks), tuple(pieces.sections), buffers, peak)


@dataclass(frozen=True, slots=True)
class _Task:
    """A record: bytes [first, end) of the arena that it reads, and those that it writes, each with its value's name."""

    node: str
    op_index: int
    stream: int
    family: str
    record: bytes
    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int, str], ...]

    @classmethod
    def read(cls, record: bytes, nodes: Sequence[Node]) -> _Task:
        sources, results = read_slots(record)
        op_index = read_op_index(record)
        node = nodes[op_index] if op_index < len(nodes) else None
        values = [] if node is None else list(node.outputs)
        name = "" if node is None else node.name
        writes = []
        for number, (region, _, offset, nbytes) in enumerate(results):
            if region is Region.ARENA and nbytes:
                # A body's tasks name the node around it, and a node's first tasks may write what its last one reads.
                fits = number < len(values) and values[number].desc.is_static and values[number].desc.nbytes == nbytes
                writes.append((offset, offset + nbytes, values[number].name if fits else name))
        reads = tuple((s[2], s[2] + s[3]) for s in sources if s is not None and s[0] is Region.ARENA and s[3])
        family = record_family(record)
        return cls(name, op_index, read_order(record)[0], family, record, reads, tuple(writes))


def _ends_of_collectives(tasks: Sequence[_Task], joins: Sequence[int]) -> dict[int, int]:
    """Map each collective to the task that waits for it, or to the last. `joins`: how many have ended before a task."""
    collectives = [number for number, task in enumerate(tasks) if task.family == HOST_FAMILY and task.stream]
    ends = dict.fromkeys(collectives, len(tasks) - 1)
    ended = 0
    for number, count in enumerate(joins):
        for collective in collectives[ended:count]:
            ends[collective] = number
        ended = max(ended, count)
    return ends


class _Owners:
    """Which pieces hold each byte of the arena: of interval i, from starts[i] to the next, those in owners[i]."""

    def __init__(self) -> None:
        self._starts = [0]
        self._owners: list[tuple[int, ...]] = [()]

    def copy(self) -> _Owners:
        other = _Owners()
        other._starts, other._owners = list(self._starts), list(self._owners)
        return other

    def of(self, first: int, end: int) -> set[int]:
        """The pieces that hold any byte of [first, end)."""
        low, high = bisect_right(self._starts, first) - 1, bisect_left(self._starts, end)
        return {piece for owners in self._owners[low:high] for piece in owners}

    def write(self, first: int, end: int, piece: int) -> None:
        """Let a piece hold [first, end), and nothing else."""
        low, high = self._split(first), self._split(end)
        self._starts[low:high] = [first]
        self._owners[low:high] = [(piece,)]

    def merge(self, other: _Owners) -> None:
        """Let each byte be held by the pieces of both: either may have been written."""
        starts = sorted({*self._starts, *other._starts})
        pairs = [(self._at(start), other._at(start)) for start in starts]
        self._starts = starts
        self._owners = [a if a == b else tuple(sorted({*a, *b})) for a, b in pairs]

    def _at(self, at: int) -> tuple[int, ...]:
        return self._owners[bisect_right(self._starts, at) - 1]

    def _split(self, at: int) -> int:
        index = bisect_left(self._starts, at)
        if index == len(self._starts) or self._starts[index] != at:
            self._starts.insert(index, at)
            self._owners.insert(index, self._owners[index - 1])
        return index


@dataclass(slots=True)
class _Piece:
    name: str
    op_index: int
    begin: int
    end: int
    first: int
    last: int
    is_read: bool = False
    streams: set[tuple[int, int]] = field(default_factory=set)  # sections and their streams that use it


@dataclass(slots=True)
class _Branch:
    """Tasks up to `end` that may not run, or, in a loop, several times. `other`: who holds the bytes if they do not."""

    first: int
    end: int
    other: _Owners
    else_tasks: int = 0
    is_loop: bool = False


class _Pieces:
    """Follows tasks in their order."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        """`ends` maps tasks that run beside those behind them to the ones that wait for them."""
        self._ends = ends
        self.sections: list[range] = []
        self._owners = _Owners()
        self._pieces: list[_Piece] = []
        self._parents: list[int] = []
        self._branches: list[_Branch] = []

    def add_task(self, number: int, task: _Task) -> None:
        self._leave_branches(number)
        self._enter_branch(number, task)
        in_section = bool(self.sections) and number in self.sections[-1]
        stream = (len(self.sections) - 1, task.stream) if in_section else None
        for first, end in task.reads:
            self._read(number, self._owners.of(first, end), stream)
        for first, end, name in task.writes:
            self._write(number, first, end, name, task.op_index, stream)

    def _leave_branches(self, number: int) -> None:
        while self._branches and self._branches[-1].end <= number:
            branch = self._branches.pop()
            if branch.else_tasks:
                self._branches.append(_Branch(number, number + branch.else_tasks, self._owners.copy()))
            else:
                self._owners.merge(branch.other)

    def _enter_branch(self, number: int, task: _Task) -> None:
        def count(name: str) -> int:
            return read_number(task.record, task.family, name)

        if task.family == "if":
            ends = number + 1 + count("then_tasks")
            self._branches.append(_Branch(number, ends, self._owners.copy(), count("else_tasks")))
        elif task.family == "loop":
            ends = number + 1 + count("body_tasks")
            self._branches.append(_Branch(number, ends, self._owners.copy(), is_loop=True))
        elif task.family == STREAM_ACTIVE:
            self.sections.append(range(number + 1, number + 1 + count("body_tasks")))

    def _read(self, number: int, owners: set[int], stream: tuple[int, int] | None) -> None:
        first = min(owners, default=-1)
        for owner in sorted(owners):
            piece = self._pieces[owner]
            # What a loop reads that was there before it, each iteration reads: the outermost such loop counts.
            loops = (branch.end - 1 for branch in self._branches if branch.is_loop and piece.first < branch.first)
            piece.last = max(piece.last, next(loops, self._ends.get(number, number)))
            piece.is_read = True
            if stream is not None:
                piece.streams.add(stream)
            self._join(first, owner)

    def _write(
        self, number: int, first: int, end: int, name: str, op_index: int, stream: tuple[int, int] | None
    ) -> None:
        own = len(self._pieces)
        piece = _Piece(name, op_index, first, end, number, self._ends.get(number, number))
        if stream is not None:
            piece.streams.add(stream)
        self._pieces.append(piece)
        self._parents.append(own)
        for owner in self._owners.of(first, end):
            other = self._pieces[owner]
            # Several tasks of a node may write one value.
            is_same = (other.op_index, other.begin, other.end) == (op_index, first, end) and not other.is_read
            if other.last >= number or is_same:
                self._join(owner, own)
        self._owners.write(first, end, own)

    def _join(self, one: int, other: int) -> None:
        first, second = sorted((self._find(one), self._find(other)))
        self._parents[second] = first

    def _find(self, piece: int) -> int:
        while self._parents[piece] != piece:
            self._parents[piece] = self._parents[self._parents[piece]]
            piece = self._parents[piece]
        return piece

    def buffers(self, tasks: Sequence[_Task]) -> Iterator[ArenaBuffer]:
        """Yield the buffers by their first task."""
        groups: dict[int, list[_Piece]] = defaultdict(list)
        for number, piece in enumerate(self._pieces):
            groups[self._find(number)].append(piece)
        for pieces in groups.values():
            begin, end = min(piece.begin for piece in pieces), max(piece.end for piece in pieces)
            first, last = min(piece.first for piece in pieces), max(piece.last for piece in pieces)
            block = Block(align(end - begin), first, last, begin)
            self._note_streams(block, {use for piece in pieces for use in piece.streams})
            values = tuple((piece.first, piece.name) for piece in pieces)
            yield ArenaBuffer(values, block, tasks[first].stream)

    def _note_streams(self, block: Block, uses: set[tuple[int, int]]) -> None:
        """Note where a block begins and ends in a section; one that several streams use is live in all of it."""
        first, last = block.first, block.last
        for number in sorted({section for section, _ in uses}):
            streams = [stream for section, stream in uses if section == number]
            tasks = self.sections[number]
            begins, ends = first in tasks, last in tasks
            if len(streams) > 1:
                block.first = tasks.start if begins else block.first
                block.last = tasks.stop - 1 if ends else block.last
                continue
            block.begins_in = (number, streams[0]) if begins else block.begins_in
            block.ends_in = (number, streams[0]) if ends else block.ends_in

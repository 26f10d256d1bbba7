"""Several ranks as threads of one process: for tests, and to try a package without MPI.

Sums are made in the order of the ranks, so the results depend on nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from atcpy.errors import ModelInvalid, ResourceLimit
from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.ops.collectives import WORLD
from atcpy.runtime.collectives import World
from atcpy.runtime.failures import RankFailed
from atcpy.runtime.groups import NO_GROUPS, unknown_group
from atcpy.runtime.reductions import chunks, fold

Result = TypeVar("Result")


class _OtherFailed(Exception):
    """Ends a rank because of another one."""


@dataclass(slots=True)
class _Meeting:
    """A group: what its members bring, and which of them are there."""

    members: tuple[int, ...]
    arrays: list[Array | None]
    arrived: set[int] = field(default_factory=set)
    turn: int = 0


@dataclass
class _Board:
    """What the ranks share."""

    ranks: int
    seconds: float
    meetings: Mapping[str, _Meeting]
    changed: threading.Condition = field(default_factory=threading.Condition)
    ended: set[int] = field(default_factory=set)
    failure: RankFailed | None = None
    numbers: dict[int, int] = field(default_factory=dict)

    def fail(self, rank: int, error: BaseException) -> None:
        """The first error ends all."""
        with self.changed:
            if self.failure is None:
                self.failure = RankFailed(rank, self.ranks, error)
            self.changed.notify_all()

    def end(self, rank: int) -> None:
        """A rank has nothing more to do."""
        with self.changed:
            self.ended.add(rank)
            self.changed.notify_all()

    def wait(self, meeting: _Meeting, rank: int, node: Node | None) -> None:
        """Until all members are there. Raises if one of them never will be."""
        with self.changed:
            turn = meeting.turn
            meeting.arrived.add(rank)
            if len(meeting.arrived) == len(meeting.members):
                meeting.arrived.clear()
                meeting.turn += 1
                self.changed.notify_all()
                return
            deadline = time.monotonic() + self.seconds
            while meeting.turn == turn:
                if self.failure is not None:
                    raise _OtherFailed
                missing = [member for member in meeting.members if member not in meeting.arrived]
                for member in missing:
                    if member in self.ended:
                        error = ResourceLimit("EI0007", f"it ended while rank {rank} waits for it", where=node)
                        self.fail(member, error)
                left = deadline - time.monotonic()
                if left <= 0:
                    who = ", ".join(map(str, missing))
                    self.fail(
                        rank, ResourceLimit("EI0007", f"waits for rank {who} since {self.seconds:g} s", where=node)
                    )
                if self.failure is None:
                    self.changed.wait(left)


class SimulatedWorld:
    """The world as one of the threads sees it."""

    def __init__(self, board: _Board, rank: int) -> None:
        self.rank = rank
        self.ranks = board.ranks
        self._board = board
        self._node: Node | None = None

    def size(self, group: str) -> int:
        """How many ranks a group has."""
        return len(self._meeting(group).members)

    def knows(self, group: str) -> bool:
        """Has anybody said which ranks a group has?"""
        return group in self._board.meetings

    def is_in(self, group: str) -> bool:
        """Is this rank one of a group?"""
        return self.rank in self._meeting(group).members

    @contextmanager
    def during(self, node: Node) -> Iterator[None]:
        """Says which node this rank is at."""
        self._node = node
        yield
        self._node = None

    def exchange(self, number: int) -> list[int]:
        """The numbers of all ranks."""
        board = self._board
        board.numbers[self.rank] = number
        self._wait(WORLD)
        found = [board.numbers[rank] for rank in range(self.ranks)]
        self._wait(WORLD)
        return found

    def all_reduce(self, array: Array, reduction: str, group: str) -> None:
        """Each rank makes its share of the elements, for all of them."""
        arrays = self._bring(array.reshape(-1), group)
        place = self._place(group)
        share = -(-array.size // len(arrays))
        own = slice(place * share, min(array.size, (place + 1) * share))
        for part in chunks(max(0, own.stop - own.start), array.itemsize):
            piece = slice(own.start + part.start, own.start + part.stop)
            whole = fold([each[piece] for each in arrays], reduction)
            for each in arrays:
                each[piece] = whole
        self._wait(group)

    def all_gather(self, array: Array, whole: Array, group: str) -> None:
        """The arrays of all ranks, in their order."""
        arrays = self._bring(array, group)
        rows = whole.reshape(len(arrays), -1)
        for row, each in zip(rows, arrays, strict=True):
            row[:] = each.reshape(-1)
        self._wait(group)

    def broadcast(self, array: Array, root: int, group: str) -> None:
        """The array of one rank."""
        arrays = self._bring(array, group)
        if self._place(group) != root:
            array[...] = arrays[root]
        self._wait(group)

    def reduce_scatter(self, array: Array, part: Array, reduction: str, group: str) -> None:
        """This rank's part of the reduction."""
        arrays = self._bring(array, group)
        place = self._place(group)
        part[...] = fold([each.reshape(len(arrays), -1)[place] for each in arrays], reduction).reshape(part.shape)
        self._wait(group)

    def _meeting(self, group: str) -> _Meeting:
        meetings = self._board.meetings
        if group not in meetings:
            raise unknown_group(group, sorted(meetings))
        return meetings[group]

    def _place(self, group: str) -> int:
        return self._meeting(group).members.index(self.rank)

    def _bring(self, array: Array, group: str) -> list[Array]:
        meeting = self._meeting(group)
        meeting.arrays[self._place(group)] = array
        self._wait(group)
        arrays = [each for each in meeting.arrays if each is not None]
        other = next((place for place, each in enumerate(arrays) if each.shape != arrays[0].shape), None)
        if other is not None:
            found = f"{list(arrays[other].shape)}, rank {meeting.members[0]} {list(arrays[0].shape)}"
            what = f"rank {meeting.members[other]} brings {found}"
            raise ModelInvalid("D0001", what, where=self._node)
        return arrays

    def _wait(self, group: str) -> None:
        self._board.wait(self._meeting(group), self.rank, self._node)


def run_simulated(
    work: Callable[[World], Result],
    ranks: int,
    groups: Mapping[str, Sequence[int]] = NO_GROUPS,
    seconds: float = 60.0,
) -> list[Result]:
    """What `work` gives on each rank. A rank waits for others so many `seconds`.

    Raises RankFailed for the first one that fails or ends while others wait for it; then all have ended.
    """
    members = {WORLD: tuple(range(ranks)), **{name: tuple(group) for name, group in groups.items()}}
    meetings = {name: _Meeting(group, [None] * len(group)) for name, group in members.items()}
    board = _Board(ranks, seconds, meetings)
    results: dict[int, Result] = {}

    def run_rank(rank: int) -> None:
        try:
            results[rank] = work(SimulatedWorld(board, rank))
        except _OtherFailed:
            pass
        except BaseException as error:  # noqa: BLE001  whatever ends a rank is told by the one that asked
            board.fail(rank, error)
        finally:
            board.end(rank)

    threads = [threading.Thread(target=run_rank, args=(rank,), name=f"rank {rank}") for rank in range(ranks)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:
        board.fail(0, error)  # an interrupt: the ranks end at their next meeting
        raise
    if board.failure is not None:
        raise board.failure from board.failure.error
    return [results[rank] for rank in range(ranks)]

"""Several ranks as threads of one process: for tests, and to try a package without MPI.

Sums are computed in the order of the ranks, so that results are reproducible.
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
from atcpy.runtime.distributed.collective_thread import CollectiveThread
from atcpy.runtime.distributed.failures import RankFailed
from atcpy.runtime.distributed.groups import NO_GROUPS, unknown_group
from atcpy.runtime.distributed.reductions import chunks, fold
from atcpy.runtime.distributed.world import World

Result = TypeVar("Result")


class _OtherFailed(Exception):
    """Ends a rank because another one failed."""


@dataclass(slots=True)
class _Barrier:
    """A group: the arrays of its members, and which of them have arrived; `generation` counts the times that all
    have.
    """

    members: tuple[int, ...]
    arrays: list[Array | None]
    arrived: set[int] = field(default_factory=set)
    generation: int = 0


@dataclass
class _Shared:
    """What the ranks share."""

    ranks: int
    seconds: float
    barriers: Mapping[str, _Barrier]
    changed: threading.Condition = field(default_factory=threading.Condition)
    ended: set[int] = field(default_factory=set)
    failure: RankFailed | None = None
    numbers: dict[int, int] = field(default_factory=dict)

    def fail(self, rank: int, error: BaseException) -> None:
        """Record an error; the first one ends all ranks."""
        with self.changed:
            if self.failure is None:
                self.failure = RankFailed(rank, self.ranks, error)
            self.changed.notify_all()

    def end(self, rank: int) -> None:
        """Record that a rank has finished."""
        with self.changed:
            self.ended.add(rank)
            self.changed.notify_all()

    def wait(self, barrier: _Barrier, rank: int, node: Node | None) -> None:
        """Wait until all members have arrived. Raises if one of them never will."""
        with self.changed:
            generation = barrier.generation
            barrier.arrived.add(rank)
            if len(barrier.arrived) == len(barrier.members):
                barrier.arrived.clear()
                barrier.generation += 1
                self.changed.notify_all()
                return
            deadline = time.monotonic() + self.seconds
            while barrier.generation == generation:
                if self.failure is not None:
                    raise _OtherFailed
                missing = [member for member in barrier.members if member not in barrier.arrived]
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

    def __init__(self, shared: _Shared, rank: int, thread: CollectiveThread) -> None:
        self.rank = rank
        self.ranks = shared.ranks
        self._shared = shared
        self._node: Node | None = None
        self.start = thread.start

    def size(self, group: str) -> int:
        """The number of ranks in a group."""
        return len(self._barrier(group).members)

    def knows(self, group: str) -> bool:
        """Whether the members of a group were given."""
        return group in self._shared.barriers

    def is_in(self, group: str) -> bool:
        """Whether this rank is a member of a group."""
        return self.rank in self._barrier(group).members

    @contextmanager
    def during(self, node: Node) -> Iterator[None]:
        """Note which node this rank runs."""
        self._node = node
        yield
        self._node = None

    def exchange(self, number: int) -> list[int]:
        """The numbers of all ranks."""
        shared = self._shared
        shared.numbers[self.rank] = number
        self._wait(WORLD)
        found = [shared.numbers[rank] for rank in range(self.ranks)]
        self._wait(WORLD)
        return found

    def all_reduce(self, array: Array, reduction: str, group: str) -> None:
        """Each rank reduces its share of the elements, for all of them."""
        arrays = self._gather(array.reshape(-1), group)
        index = self._index(group)
        share = -(-array.size // len(arrays))
        own = slice(index * share, min(array.size, (index + 1) * share))
        for part in chunks(max(0, own.stop - own.start), array.itemsize):
            piece = slice(own.start + part.start, own.start + part.stop)
            whole = fold([each[piece] for each in arrays], reduction)
            for each in arrays:
                each[piece] = whole
        self._wait(group)

    def all_gather(self, array: Array, whole: Array, group: str) -> None:
        """The arrays of all ranks, in their order."""
        arrays = self._gather(array, group)
        rows = whole.reshape(len(arrays), -1)
        for row, each in zip(rows, arrays, strict=True):
            row[:] = each.reshape(-1)
        self._wait(group)

    def broadcast(self, array: Array, root: int, group: str) -> None:
        """The array of one rank."""
        arrays = self._gather(array, group)
        if self._index(group) != root:
            array[...] = arrays[root]
        self._wait(group)

    def reduce_scatter(self, array: Array, part: Array, reduction: str, group: str) -> None:
        """This rank's part of the reduction."""
        arrays = self._gather(array, group)
        index = self._index(group)
        part[...] = fold([each.reshape(len(arrays), -1)[index] for each in arrays], reduction).reshape(part.shape)
        self._wait(group)

    def _barrier(self, group: str) -> _Barrier:
        barriers = self._shared.barriers
        if group not in barriers:
            raise unknown_group(group, sorted(barriers))
        return barriers[group]

    def _index(self, group: str) -> int:
        return self._barrier(group).members.index(self.rank)

    def _gather(self, array: Array, group: str) -> list[Array]:
        barrier = self._barrier(group)
        barrier.arrays[self._index(group)] = array
        self._wait(group)
        arrays = [each for each in barrier.arrays if each is not None]
        other = next((index for index, each in enumerate(arrays) if each.shape != arrays[0].shape), None)
        if other is not None:
            found = f"{list(arrays[other].shape)}, rank {barrier.members[0]} {list(arrays[0].shape)}"
            what = f"rank {barrier.members[other]} brings {found}"
            raise ModelInvalid("D0001", what, where=self._node)
        return arrays

    def _wait(self, group: str) -> None:
        self._shared.wait(self._barrier(group), self.rank, self._node)


def run_simulated(
    work: Callable[[World], Result],
    ranks: int,
    groups: Mapping[str, Sequence[int]] = NO_GROUPS,
    seconds: float = 60.0,
) -> list[Result]:
    """Run `work` on each rank and return the results. A rank waits for others at most `seconds`.

    Raises RankFailed for the first rank that fails, or ends while others wait for it; then all have ended.
    """
    members = {WORLD: tuple(range(ranks)), **{name: tuple(group) for name, group in groups.items()}}
    barriers = {name: _Barrier(group, [None] * len(group)) for name, group in members.items()}
    shared = _Shared(ranks, seconds, barriers)
    results: dict[int, Result] = {}

    def run_rank(rank: int) -> None:
        try:
            with CollectiveThread() as thread:
                results[rank] = work(SimulatedWorld(shared, rank, thread))
        except _OtherFailed:
            pass
        except BaseException as error:  # noqa: BLE001  the caller raises whatever ended a rank
            shared.fail(rank, error)
        finally:
            shared.end(rank)

    threads = [threading.Thread(target=run_rank, args=(rank,), name=f"rank {rank}") for rank in range(ranks)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:
        shared.fail(0, error)  # an interrupt: the ranks end at their next barrier
        raise
    if shared.failure is not None:
        raise shared.failure from shared.failure.error
    return [results[rank] for rank in range(ranks)]

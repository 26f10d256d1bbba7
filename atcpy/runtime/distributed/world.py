"""What a rank needs of the others, and the world of a single rank."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from atcpy.ir import Node
    from atcpy.ir.tensor import Array


class World(Protocol):
    """The ranks of a run, as one of them sees them. Arrays are contiguous; every member of a group calls the same
    functions in the same order.
    """

    @property
    def rank(self) -> int:
        """The number of this rank among all."""

    @property
    def ranks(self) -> int:
        """The number of ranks."""

    def size(self, group: str) -> int:
        """The number of ranks in a group."""

    def knows(self, group: str) -> bool:
        """Whether the members of a group were given."""

    def is_in(self, group: str) -> bool:
        """Whether this rank is a member of a group. Raises UsageError (EI0004) if its members were not given."""

    def during(self, node: Node) -> AbstractContextManager[object]:
        """Note which node this rank runs, for the errors of a rank that waits too long."""

    def start(self, collective: Callable[[], None]) -> Future[None]:
        """Run a collective behind those that were started before: beside what the rank computes, or at once."""

    def exchange(self, number: int) -> list[int]:
        """Gather one 64-bit number of each rank, in the order of the ranks."""

    def all_reduce(self, array: Array, reduction: str, group: str) -> None:
        """Reduce `array` in place over the ranks, by sum, prod, max or min."""

    def all_gather(self, array: Array, whole: Array, group: str) -> None:
        """Write the arrays of all ranks into `whole`, in their order."""

    def broadcast(self, array: Array, root: int, group: str) -> None:
        """Write the array of the rank `root` into `array`."""

    def reduce_scatter(self, array: Array, part: Array, reduction: str, group: str) -> None:
        """Write this rank's part of the reduction over the ranks into `part`."""


class SingleRank:
    """A world of one rank, which is in every group."""

    rank = 0
    ranks = 1

    def size(self, group: str) -> int:
        """One."""
        return 1

    def knows(self, group: str) -> bool:
        """True: a group can have no other member."""
        return True

    def is_in(self, group: str) -> bool:
        """True."""
        return True

    def during(self, node: Node) -> AbstractContextManager[object]:
        """Do nothing: nobody waits."""
        return nullcontext()

    def start(self, collective: Callable[[], None]) -> Future[None]:
        """Run it at once: it waits for nobody."""
        from atcpy.runtime.distributed.collective_thread import run_at_once

        return run_at_once(collective)

    def exchange(self, number: int) -> list[int]:
        """Return the number."""
        return [number]

    def all_reduce(self, array: Array, reduction: str, group: str) -> None:
        """Do nothing: the reduction of one array is that array."""

    def all_gather(self, array: Array, whole: Array, group: str) -> None:
        """Copy the array."""
        whole[...] = array.reshape(whole.shape)

    def broadcast(self, array: Array, root: int, group: str) -> None:
        """Do nothing: the array is already here."""

    def reduce_scatter(self, array: Array, part: Array, reduction: str, group: str) -> None:
        """Copy the array: this rank's part is all of it."""
        part[...] = array.reshape(part.shape)

"""The ranks of a run under MPI. This is the one module that imports mpi4py, and only where several ranks run."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from atcpy.errors import ResourceLimit, UsageError
from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.ops.collectives import WORLD
from atcpy.runtime.distributed.collective_thread import CollectiveThread, run_at_once
from atcpy.runtime.distributed.failures import no_mpi
from atcpy.runtime.distributed.groups import unknown_group
from atcpy.runtime.distributed.reductions import CHUNK_BYTES, chunks, sum_type

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of another MPI's mpiexec: `check_size` reports it
        from mpi4py import MPI
except (ImportError, RuntimeError) as error:  # RuntimeError: it finds no library of MPI
    raise no_mpi() from error

_OPS = {"sum": MPI.SUM, "prod": MPI.PROD, "max": MPI.MAX, "min": MPI.MIN}
_MAX_BYTES = 1 << 30  # per call: counts have 31 bits
_POLL_SECONDS = 0.5
_PAUSE_SECONDS = 0.002
_FORWARD_SECONDS = 0.2  # in which mpiexec passes on what a rank printed
_PAUSE_BESIDE_SECONDS = 20e-6
_BYTES_BESIDE = 32 << 20  # per call beside kernels


def check_size(ranks: int) -> None:
    """Raise UsageError (EI0005) if MPI knows of another number of ranks than were started."""
    if MPI.COMM_WORLD.size != ranks:
        what = f"{ranks} ranks were started, MPI knows of {MPI.COMM_WORLD.size}"
        raise UsageError("EI0005", what, hint="start them with the mpiexec of the MPI that mpi4py uses")


def meet(seconds: float) -> None:
    """Wait at most so many seconds until all ranks arrive here: mpiexec stops no rank if all end at once."""
    everyone, deadline = MPI.COMM_WORLD.Ibarrier(), time.monotonic() + seconds
    while not everyone.Test() and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)


def end_rank(error: ResourceLimit) -> None:
    """Print why this rank waits in vain, and end all ranks: those that wait for nothing do not see it by themselves."""
    sys.stderr.write(f"atcpy: rank {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size}: {error}\n")
    sys.stderr.flush()
    time.sleep(_FORWARD_SECONDS)  # mpiexec drops what it has not read when it sees the abort
    MPI.COMM_WORLD.Abort(error.exit_code)


class MpiWorld:
    """All ranks that mpiexec started. `groups` has the members of each group, and must be the same on every rank.

    A rank that waits for others more than `seconds` calls `on_stall`, which ends the process. Collectives run beside
    kernels where `overlaps` says so, on every rank alike; by default where they wait for a network, or leave cores
    idle: on several hosts, or with two cores a rank.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[int]] = MappingProxyType({}),
        seconds: float = 60.0,
        on_stall: Callable[[ResourceLimit], object] = end_rank,
        *,
        overlaps: bool | None = None,
    ) -> None:
        world = MPI.COMM_WORLD
        self.rank: int = world.rank
        self.ranks: int = world.size
        self._seconds = seconds
        self._on_stall = on_stall
        self._since: tuple[str, float] | None = None
        self._thread = CollectiveThread()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        self._comms: dict[str, Any] = {WORLD: world}
        self._since = ("groups", time.monotonic())
        for name in sorted(groups.keys() - {WORLD}):  # making one is collective itself
            self._comms[name] = world.Create(world.group.Incl(list(groups[name])))
        self._overlaps = self._has_idle_cores() if overlaps is None else overlaps
        self._since = None

    def _has_idle_cores(self) -> bool:
        """Whether cores idle while a rank waits for others; the same on every rank."""
        world = self._comms[WORLD]
        host = world.Split_type(MPI.COMM_TYPE_SHARED)
        idles = host.size < world.size or 2 * host.size <= len(os.sched_getaffinity(0))
        host.Free()
        return bool(world.allreduce(idles, MPI.LAND))

    def start(self, collective: Callable[[], None]) -> Future[None]:
        """Run a collective behind those that were started before: beside what the rank computes, or at once."""
        return self._thread.start(collective) if self._overlaps else run_at_once(collective)

    def size(self, group: str) -> int:
        """The number of ranks in a group."""
        size: int = self._comm(group).size
        return size

    def knows(self, group: str) -> bool:
        """Whether the members of a group were given."""
        return group in self._comms

    def is_in(self, group: str) -> bool:
        """Whether this rank is a member of a group."""
        return bool(self._comm(group) != MPI.COMM_NULL)

    @contextmanager
    def during(self, node: Node) -> Iterator[None]:
        """Note which node this rank runs. Raises ResourceLimit (EI0007) with the message of MPI if that fails."""
        self._since = (f'node "{node.name}" ({node.op_type})', time.monotonic())
        try:
            yield
        except MPI.Exception as error:
            raise ResourceLimit("EI0007", str(error), where=node) from error
        finally:
            self._since = None

    def exchange(self, number: int) -> list[int]:
        """The numbers of all ranks."""
        found = np.empty(self.ranks, np.uint64)
        self._since = ("the comparison of packages", time.monotonic())
        request = self._comms[WORLD].Iallgather(np.array([number], np.uint64), found)
        while not request.Test():  # others still start, and need the core more than a wait of MPI does
            time.sleep(_PAUSE_SECONDS)
        self._since = None
        return [int(each) for each in found]

    def all_reduce(self, array: Array, reduction: str, group: str) -> None:
        """In place, in parts that stay in the cache; beside kernels in larger ones: it sleeps some times in each."""
        comm, op = self._comm(group), _OPS[reduction]
        flat = array.reshape(-1)
        kind = sum_type(flat)
        for part in chunks(flat.size, kind.itemsize, _BYTES_BESIDE if self._thread.is_current() else CHUNK_BYTES):
            piece = flat[part].astype(kind, copy=False)
            self._call(comm, "Allreduce", MPI.IN_PLACE, piece, op)
            if kind != flat.dtype:
                flat[part] = piece

    def all_gather(self, array: Array, whole: Array, group: str) -> None:
        """The arrays of all ranks, in their order."""
        comm = self._comm(group)
        flat, rows = _bytes(array), _bytes(whole).reshape(comm.size, -1)
        for part in chunks(flat.size, 1, _MAX_BYTES // comm.size):
            piece = rows[:, part]
            found = piece if piece.flags.c_contiguous else np.empty(piece.shape, np.uint8)
            self._call(comm, "Allgather", flat[part], found)
            if found is not piece:
                piece[...] = found

    def broadcast(self, array: Array, root: int, group: str) -> None:
        """The array of one rank."""
        flat = _bytes(array)
        for part in chunks(flat.size, 1, _MAX_BYTES):
            self._call(self._comm(group), "Bcast", flat[part], root)

    def reduce_scatter(self, array: Array, part: Array, reduction: str, group: str) -> None:
        """This rank's part of the reduction."""
        comm, op = self._comm(group), _OPS[reduction]
        rows, own = array.reshape(comm.size, -1), part.reshape(-1)
        kind = sum_type(own)
        for span in chunks(own.size, kind.itemsize * comm.size, _MAX_BYTES):
            reduced = np.empty(span.stop - span.start, kind)
            self._call(comm, "Reduce_scatter_block", np.ascontiguousarray(rows[:, span], kind), reduced, op)
            own[span] = reduced

    def _call(self, comm: Any, name: str, *operands: object) -> None:
        """Run a collective of MPI. Beside kernels it sleeps where MPI has to wait, which else takes a core for it."""
        if not self._thread.is_current():
            getattr(comm, name)(*operands)
            return
        request = getattr(comm, f"I{name.lower()}")(*operands)
        while not request.Test():
            time.sleep(_PAUSE_BESIDE_SECONDS)

    def _comm(self, group: str) -> Any:
        if group not in self._comms:
            raise unknown_group(group, sorted(self._comms))
        return self._comms[group]

    def _watch(self) -> None:
        while True:
            time.sleep(min(_POLL_SECONDS, self._seconds / 4))
            waits = self._since
            if waits is not None and time.monotonic() - waits[1] > self._seconds:
                what = f"waits for other ranks since {self._seconds:g} s"
                self._on_stall(ResourceLimit("EI0007", f"{waits[0]}: {what}"))


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)

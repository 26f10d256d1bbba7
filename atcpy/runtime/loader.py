"""Stage 5, load: a package becomes a plan, bound to the kernels of this CPU.

MODEL_DEF is parsed only if a task runs on the host, or when somebody asks about the model.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

from atcpy.errors import PackageCorrupt, ResourceLimit, Where
from atcpy.ir import Node
from atcpy.kernels import _kernels
from atcpy.kernels.table import HOST_FAMILY, record_family
from atcpy.om.container import Verify
from atcpy.om.reader import Package, PackagedModel, parse_package, read_model, read_package


@dataclass(frozen=True, slots=True)
class Segment:
    """Tasks [first, last) that run in C without a break, or the one task `first` of the host."""

    first: int
    last: int
    on_host: bool


@dataclass(frozen=True)
class ExecutionPlan:
    """A loaded package."""

    package: Package
    plan: _kernels.Plan
    segments: tuple[Segment, ...]

    @cached_property
    def model(self) -> PackagedModel:
        """What MODEL_DEF tells, parsed on first use."""
        return read_model(self.package)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes by the index that task records give."""
        return tuple(self.model.graph.nodes)


def load(
    source: str | os.PathLike[str] | bytes, *, threads: int, verify: Verify = Verify.FULL, mmap: bool = True
) -> ExecutionPlan:
    """Reads, checks and binds a package. PackageCorrupt for anything that is not as it should be."""
    if isinstance(source, bytes):
        package = parse_package(source, verify=verify)
    else:
        package = read_package(source, mmap=mmap, verify=verify)
    for number, task in enumerate(package.tasks):
        if record_family(task.record) != task.kernel:
            where = Where(file=package.container.source, node=f"task {number}")
            raise PackageCorrupt("P0005", f"its record is not of the kernel {task.kernel}", where=where)
    records = b"".join(task.record for task in package.tasks)
    try:
        plan = _kernels.Plan(
            records,
            package.weights,
            package.arena_bytes,
            [port.nbytes for port in package.inputs],
            [port.nbytes for port in package.outputs],
            threads,
        )
    except _kernels.Refused as refused:
        reason, task = refused.args
        where = Where(file=package.container.source, node=f"task {task}" if task >= 0 else "")
        raise PackageCorrupt("P0005", f"the plan is refused: {reason}", where=where) from refused
    except MemoryError as error:
        raise ResourceLimit("R0001", f"no memory for {len(package.tasks)} tasks") from error
    return ExecutionPlan(package, plan, _segments([task.kernel for task in package.tasks]))


def _segments(kernels: list[str]) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    first = 0
    for index, kernel in enumerate(kernels):
        if kernel == HOST_FAMILY:
            if first < index:
                segments.append(Segment(first, index, on_host=False))
            segments.append(Segment(index, index + 1, on_host=True))
            first = index + 1
    if first < len(kernels):
        segments.append(Segment(first, len(kernels), on_host=False))
    return tuple(segments)

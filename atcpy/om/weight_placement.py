"""Which constants lie in the package and which in files beside it: `convert --external_weight`, docs/big-models.md."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import xxhash

from atcpy.errors import Unsupported, Where
from atcpy.ir import CompiledModel, Weight, plans_of
from atcpy.ir.region import Region
from atcpy.ir.symbolic import is_symbolic
from atcpy.om import weights as partition
from atcpy.om.weight_files import COMBINED, MAX_FILES, SEAL_BYTES, WeightFile, space_offsets
from atcpy.options import ExternalWeight

MIN_BYTES = partition.GE_ALIGN  # a smaller constant takes less than the alignment that GE gives it
_ALIGN = 64


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file and its constants, whose offsets are those in the file."""

    file: WeightFile
    weights: tuple[Weight, ...]

    def buffers(self) -> Iterator[bytes | memoryview]:
        """What is in it; constants are packed one by one."""
        yield from partition.packed_buffers(self.weights, self.file.content_bytes)
        yield self.file.sha256[: self.file.nbytes - self.file.content_bytes]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the constants of a package are. `inside` have their offsets in WEIGHTS_DATA.

    planned, placed: offsets in ascending order as they were planned, and where in the space each of these is.
    in_files: the file of a constant that is in one, and its offset there, by its planned offset.
    """

    inside: tuple[Weight, ...]
    files: tuple[FileContent, ...] = ()
    planned: tuple[int, ...] = ()
    placed: tuple[int, ...] = ()
    in_files: Mapping[int, tuple[WeightFile, int]] = field(default_factory=dict)

    def moved(self, offset: int) -> int:
        """Where in the space something is that was planned at an offset: in a constant, or in front of all."""
        number = bisect_right(self.planned, offset) - 1
        return offset if number < 0 else self.placed[number] + offset - self.planned[number]


def place(compiled: CompiledModel, how: ExternalWeight, stem: str) -> Placement:
    """Choose what goes into files; the name of the combined one begins with `stem`. The package records their digests:
    constants are packed here and again when they are written, and never are in memory together.
    """
    if how is ExternalWeight.INSIDE:
        return Placement(tuple(compiled.weights))
    _check_slots(compiled)
    distinct: dict[int, Weight] = {}
    for weight in sorted(compiled.weights, key=lambda weight: (weight.offset, weight.nbytes)):
        distinct[weight.offset] = weight  # of those at one offset one that has bytes
    large = [weight for weight in distinct.values() if weight.nbytes >= MIN_BYTES]
    if how is ExternalWeight.COMBINED:
        groups = [large] if large else []
    else:
        largest = {weight.offset for weight in sorted(large, key=lambda weight: -weight.nbytes)[:MAX_FILES]}
        groups = [[weight] for weight in large if weight.offset in largest]
    contents: dict[str, FileContent] = {}
    in_files: dict[int, tuple[WeightFile, int]] = {}
    for group in groups:
        own = _in_a_row(group, 0)
        file = _hashed(own, how, stem)
        contents.setdefault(file.name, FileContent(file, own))  # equal bytes of two types share a file
        in_files.update((weight.offset, (file, at.offset)) for weight, at in zip(group, own, strict=True))
    others = [weight for weight in distinct.values() if weight.offset not in in_files]
    inside = _in_a_row(others, partition.GE_ALIGN)
    offsets, _ = space_offsets(partition.partition_bytes(inside), (c.file.nbytes for c in contents.values()))
    begin = dict(zip(contents, offsets, strict=True))
    placed = {weight.offset: own.offset for weight, own in zip(others, inside, strict=True)}
    placed.update((planned, begin[file.name] + at) for planned, (file, at) in in_files.items())
    return Placement(
        inside, tuple(contents.values()), tuple(distinct), tuple(map(placed.__getitem__, distinct)), in_files
    )


def _check_slots(compiled: CompiledModel) -> None:
    """Tasks address constants by numbers: an offset that a program computes at run time cannot be moved."""
    tasks = (*compiled.tasks, *(task for plan in plans_of(compiled.clusters) for task in plan.tasks))
    for task in tasks:
        if any(slot.region is Region.WEIGHTS and is_symbolic(slot.offset) for slot in filter(None, task.src)):
            what = "--external_weight: which part of a constant a task reads depends on open dims"
            raise Unsupported("E10055", what, where=Where(node=task.node, op=task.op_type), hint="--external_weight=0")


def _in_a_row(weights: Sequence[Weight], first: int) -> tuple[Weight, ...]:
    moved = []
    for weight in weights:
        moved.append(replace(weight, offset=first))
        first += -(-weight.nbytes // _ALIGN) * _ALIGN
    return tuple(moved)


def _hashed(weights: Sequence[Weight], how: ExternalWeight, stem: str) -> WeightFile:
    """The file with these constants, packed one by one for its digests."""
    nbytes = max(weight.offset + weight.nbytes for weight in weights)
    fast, slow = xxhash.xxh3_128(), hashlib.sha256()
    for buffer in partition.packed_buffers(weights, nbytes):
        fast.update(buffer)
        slow.update(buffer)
    if how is ExternalWeight.COMBINED:
        return WeightFile(stem + COMBINED, nbytes + SEAL_BYTES, fast.digest(), slow.digest())
    return WeightFile(f"weight_{slow.hexdigest()}", nbytes, fast.digest(), slow.digest())

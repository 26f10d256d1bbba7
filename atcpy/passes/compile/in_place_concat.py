"""Concat and Split without copies: the buffer of a part becomes a range of the buffer of the whole.

A copy of one contiguous range of bytes, all of its smaller side, is removed by placing that side within the other:

    inner buffer                       outer buffer     contiguous along
    inputs of Concat and Pad           the result       the outermost dim that is not 1, blocks of channels included
    outputs of Split, Slice, Gather    the input        the same; Gather where its indices are neighbours
    data that Scatter updates          the result       all of it

Neither side may be overwritten while the other is read, and the arena may not grow: the outer buffer is live from its
first part to its last reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from atcpy.ir import Engine, Graph, PassRecord, Region, Reject, Value
from atcpy.ir.symbolic import example, same
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, has_trait
from atcpy.ops.core.opdef import KernelCall
from atcpy.passes.base import graph_pass
from atcpy.passes.compile.access_intervals import Access, AccessIntervals, can_share
from atcpy.passes.compile.buffer_assignment import Buffer, LoweredGraph
from atcpy.passes.compile.lower import Launch, Run, ints_param, run_of
from atcpy.passes.compile.memory_bound import Block
from atcpy.passes.phase import Phase

SPLIT = "SplitNotaskPass"
CONCAT = "ConcatNotaskPass"
AXIS = "axis"
MAX_ACCESSES = 256  # to both sides of a copy, all of which are compared


@graph_pass(SPLIT, Phase.IN_PLACE)
def split_without_copies(graph: Graph, record: PassRecord, lowered: LoweredGraph) -> None:
    """Read the results of Split, Slice and Gather from the buffer of their input."""
    _remove_copies(record, lowered, Trait.EXTRACTS)


@graph_pass(CONCAT, Phase.IN_PLACE, after=(SPLIT,))
def concat_without_copies(graph: Graph, record: PassRecord, lowered: LoweredGraph) -> None:
    """Write what Concat, Pad and Scatter copy directly into the buffer of their result."""
    _remove_copies(record, lowered, Trait.INSERTS)


def _remove_copies(record: PassRecord, lowered: LoweredGraph, traits: Trait) -> None:
    if not lowered.options.reuse_memory:
        return
    copies = [
        (number, launch)
        for number, launch in enumerate(lowered.launches)
        if launch is not None and has_trait(launch.node, traits) and _is_copy(launch.call)
    ]
    runs = {number: run for number, launch in copies if (run := run_of(launch)) is not None}
    memory = _Memory(lowered, runs) if runs else None
    launches = Counter(launch.node for launch in lowered.launches if launch is not None) if runs else Counter()
    for node, group in groupby(copies, key=lambda copy: copy[1].node):
        record.matched += 1
        removed = 0
        numbers = [number for number, _ in group]
        if memory is None or any(number not in runs for number in numbers):
            record.reject(Reject("in-pieces", node.name, f"axis {node.attrs[AXIS]}" if AXIS in node.attrs else ""))
        elif record.may_apply():
            for number in numbers:
                reason = memory.join(number, runs[number])
                removed += reason is None
                if reason is not None:
                    record.reject(reason)
        if removed:
            record.fire([node])
            node.passes = (*node.passes, record.name)
        if removed and removed == launches[node]:
            node.engine = Engine.GE_LOCAL
    for number, run in runs.items():
        if memory is not None:
            memory.narrow(number, run)


def _is_copy(call: KernelCall) -> bool:
    """Whether each element of the source is copied once."""
    if call.family != "strided_copy" or not call.src:
        return False
    return all(ints_param(call.params, "src_strides"))


class _Copy(NamedTuple):
    """The copy at launch `number` as a way to place one buffer within another at `offset`. `into`: it copies into the
    outer buffer, else out of it.
    """

    number: int
    inner: Buffer
    outer: Buffer
    offset: int
    into: bool


class _Memory:
    """The buffers that copies connect, the accesses to each, and the bytes of the arena in use at each launch."""

    def __init__(self, lowered: LoweredGraph, runs: Mapping[int, Run]) -> None:
        self._launches, self._buffers = lowered.launches, lowered.buffers
        self._alive = _bytes_alive(lowered.buffers.blocks(), len(lowered.launches))
        self._peak = int(self._alive.max(initial=0))
        self._accesses: dict[Buffer, AccessIntervals] = {}
        self._removed: set[int] = set()  # launches
        for number in runs:
            for value in _operands(self._launch(number)):
                buffer, _ = self._locate(value)
                if buffer not in self._accesses:
                    self._accesses[buffer] = AccessIntervals(buffer.size)
                    self._accesses[buffer].add(_outside_accesses(buffer, len(lowered.launches)))
        self._record_accesses()

    def _launch(self, number: int) -> Launch:
        launch = self._launches[number]
        assert launch is not None
        return launch

    def _locate(self, value: Value) -> tuple[Buffer, int]:
        found = self._buffers.find(value)
        assert found is not None
        return found

    def _record_accesses(self) -> None:
        for number, launch in enumerate(self._launches):
            if launch is None:
                continue
            for values, writes in ((launch.call.src, False), (launch.call.dst, True)):
                for value in values:
                    found = None if value is None else self._buffers.find(value)
                    accesses = None if found is None else self._accesses.get(found[0])
                    if value is None or found is None or accesses is None:
                        continue
                    first, nbytes = found[1], value.desc.nbytes
                    if (run := run_of(launch)) is not None:
                        first, nbytes = first + (run.written if writes else run.read), run.nbytes
                    accesses.add((Access(number, first, first + nbytes, writes),))

    def join(self, number: int, run: Run) -> Reject | None:
        """Place one side of a copy within the other and remove the copy, or return why that cannot be."""
        launch = self._launch(number)
        (source, read), (target, written) = map(self._locate, _operands(launch))
        offset = written + run.written - read - run.read
        rejects = []
        for copy in (_Copy(number, source, target, offset, True), _Copy(number, target, source, -offset, False)):
            if not same(copy.inner.size, run.nbytes) or source is target:
                continue
            reject = self._objection(copy)
            if reject is not None and reject.reason == "overwritten" and self._split_and_join(copy):
                return None
            if reject is None:
                self._nest(copy)
                return None
            rejects.append(reject)
        return rejects[0] if rejects else Reject("shares-memory", launch.node.name, _operands(launch)[0].name)

    def _split_and_join(self, copy: _Copy) -> bool:
        """Join the sides if that works once the values written over them later have buffers of their own."""
        for sides in ((copy.inner,), (copy.outer,), (copy.inner, copy.outer)):
            splits = [(side, later) for side in sides if (later := self._split(side, copy.number))]
            if splits and self._objection(copy) is None:
                self._nest(copy)
                return True
            for side, later in reversed(splits):
                self._unsplit(side, later)
        return False

    def _split(self, buffer: Buffer, number: int) -> Buffer | None:
        later = self._buffers.split(buffer, number)
        if later is not None:
            assert later.block is not None
            first = later.block.first
            self._alive[first] += example(later.block.nbytes)
            self._accesses[later] = self._accesses[buffer].split_off((first, True))
        return later

    def _unsplit(self, buffer: Buffer, later: Buffer) -> None:
        assert later.block is not None
        self._alive[later.block.first] -= example(later.block.nbytes)
        self._accesses[buffer].add(self._accesses.pop(later).shifted(0))
        self._buffers.unsplit(buffer, later)

    def _objection(self, copy: _Copy) -> Reject | None:
        """Return why one buffer cannot lie within another, or None if it can."""
        inner, outer, launch = copy.inner, copy.outer, self._launch(copy.number)
        where, name = launch.node.name, _operands(launch)[0].name
        if inner.block is None or outer.region is Region.WEIGHTS or inner.is_unshared or outer.is_unshared:
            return Reject("fixed-memory", where, name)
        to_inner = self._accesses[inner].overlapping(0, inner.size)
        to_outer = self._accesses[outer].overlapping(copy.offset, copy.offset + inner.size)
        if len(to_inner) + len(to_outer) > MAX_ACCESSES:
            return Reject("too-many-accesses", where, name)
        sides = [self._others(copy, side) for side in ((to_inner, to_outer) if copy.into else (to_outer, to_inner))]
        if not can_share(copy.number, *sides):
            return Reject("overwritten", where, name)
        peak = self._peak_with(inner.block, outer.block)
        if peak > self._peak:
            return Reject("more-memory", where, f"{name}: {peak} bytes instead of {self._peak}")
        return None

    def _others(self, copy: _Copy, accesses: Iterable[Access]) -> list[Access]:
        """The accesses by other launches than the copy and the copies that are removed."""
        return [access for access in accesses if access.number != copy.number and access.number not in self._removed]

    def _peak_with(self, inner: Block, outer: Block | None) -> int:
        """The largest number of bytes in use during the lifetime of the joint block."""
        first, last = _joint(inner, outer)
        alive = self._alive[first : last + 1].copy()
        _change(alive, inner, outer, first)
        return int(alive.max())

    def _nest(self, copy: _Copy) -> None:
        inner, outer = copy.inner, copy.outer
        assert inner.block is not None
        _change(self._alive, inner.block, outer.block, 0)
        if outer.block is not None:
            outer.block.first, outer.block.last = _joint(inner.block, outer.block)
        inner.outer, inner.outer_offset, outer.has_inner = outer, copy.offset, True
        self._accesses[outer].add(self._accesses.pop(inner).shifted(copy.offset))
        self._removed.add(copy.number)
        self._launches[copy.number] = None

    def narrow(self, number: int, run: Run) -> None:
        """Restrict a remaining copy to the bytes that it reads and writes, if both operands lie in one buffer now."""
        launch = self._launches[number]
        if launch is None or len({self._locate(value)[0] for value in _operands(launch)}) > 1:
            return
        params = {**launch.call.params, "src_offset": 0, "dst_offset": 0}
        self._launches[number] = replace(launch, call=replace(launch.call, params=params), run=run)


def _operands(launch: Launch) -> tuple[Value, Value]:
    """Source and target of a copy."""
    source, target = launch.call.src[0], launch.call.dst[0]
    assert source is not None
    return source, target


def _outside_accesses(buffer: Buffer, count: int) -> list[Access]:
    """Inputs and constants are written before the first launch; ports and constants are read after the last."""
    if buffer.block is not None:
        return []
    read = Access(count, 0, buffer.size, writes=False)
    return [read] if buffer.region is Region.OUTPUT else [Access(-1, 0, buffer.size, writes=True), read]


def _bytes_alive(blocks: Iterable[Block], count: int) -> Array:
    """The number of bytes of the arena that are in use at each launch, for the examples of symbolic sizes."""
    change = np.zeros(count + 1, np.int64)
    for block in blocks:
        change[block.first] += example(block.nbytes)
        change[block.last + 1] -= example(block.nbytes)
    return change[:count].cumsum()


def _joint(inner: Block, outer: Block | None) -> tuple[int, int]:
    """The lifetime, first and last launch, of a block that holds another; of the inner one if the outer is no block."""
    if outer is None:
        return inner.first, inner.last
    return min(inner.first, outer.first), max(inner.last, outer.last)


def _change(alive: Array, inner: Block, outer: Block | None, start: int) -> None:
    """Update the bytes in use, counted from launch `start` on, for one block placed within another."""
    first, last = _joint(inner, outer)
    alive[inner.first - start : inner.last + 1 - start] -= example(inner.nbytes)
    if outer is not None:
        alive[first - start : outer.first - start] += example(outer.nbytes)
        alive[outer.last + 1 - start : last + 1 - start] += example(outer.nbytes)

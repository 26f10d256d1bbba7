"""Concat and Split without copies: parts are made where the whole has them, and read where the whole has them.

A copy of one run of bytes, all of the smaller side, has nothing to do if that side lies within the other. Memory of
the part                  is then a place within that of   along
what Concat, Pad read     what they make                   the outermost dim that is not 1, blocks of channels included
what Split, Slice make    what they read                   the same; so for what Gather takes of neighbours
what Scatter changes      what it makes                    all of it

It must not be overwritten as long as the other side is read, and the arena must not become larger: the whole is alive
from its first part to its last reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod
from typing import NamedTuple

import numpy as np

from atcpy.ir import Engine, Graph, PassRecord, Region, Reject, Value
from atcpy.ir.tensor import Array
from atcpy.ops.opdef import KernelCall, ParamValue
from atcpy.options import Stage
from atcpy.passes.base import graph_pass
from atcpy.passes.compile.access_intervals import Access, Uses, can_share
from atcpy.passes.compile.buffer_assignment import Home, Lowered
from atcpy.passes.compile.lower import Launch
from atcpy.passes.compile.plan_memory import Block

SPLIT = "SplitNotaskPass"
CONCAT = "ConcatNotaskPass"
AXIS = "axis"
AROUND = frozenset({"Concat", "Pad", "CenterCropPad", "ScatterND", "ScatterElements", "TensorScatter"})
MAX_ACCESSES = 256  # to the two sides of a copy: all of them are looked at


@graph_pass(SPLIT, Stage.COMPILE)
def split_without_copies(graph: Graph, record: PassRecord, lowered: Lowered) -> None:
    """Let readers find the results of Split, Slice and Gather where the input has them."""
    _leave_out_copies(record, lowered, frozenset({"Split", "Slice", "Gather"}))


@graph_pass(CONCAT, Stage.COMPILE, after=(SPLIT,))
def concat_without_copies(graph: Graph, record: PassRecord, lowered: Lowered) -> None:
    """Let what Concat, Pad and Scatter copy be made in its place in their result."""
    _leave_out_copies(record, lowered, AROUND)


def _leave_out_copies(record: PassRecord, lowered: Lowered, ops: frozenset[str]) -> None:
    if not lowered.options.reuse_memory:
        return
    copies = [
        (number, launch)
        for number, launch in enumerate(lowered.launches)
        if launch is not None and launch.node.op_type in ops and _is_copy(launch.call)
    ]
    runs = {number: run for number, launch in copies if (run := _run_of(launch)) is not None}
    memory = _Memory(lowered, runs) if runs else None
    launches = Counter(launch.node for launch in lowered.launches if launch is not None) if runs else Counter()
    for node, group in groupby(copies, key=lambda copy: copy[1].node):
        record.matched += 1
        left_out = 0
        numbers = [number for number, _ in group]
        if memory is None or any(number not in runs for number in numbers):
            record.reject(Reject("in-pieces", node.name, f"axis {node.attrs[AXIS]}" if AXIS in node.attrs else ""))
        elif record.may_apply():
            for number in numbers:
                reason = memory.join(number, runs[number])
                left_out += reason is None
                if reason is not None:
                    record.reject(reason)
        if left_out:
            record.fire([node])
            node.passes = (*node.passes, record.name)
        if left_out and left_out == launches[node]:
            node.engine = Engine.GE_LOCAL
    for number, run in runs.items():
        if memory is not None:
            memory.narrow(number, run)


class _Run(NamedTuple):
    """Bytes that a copy reads and writes: the first one of each operand, and how many."""

    read: int
    written: int
    nbytes: int


def _is_copy(call: KernelCall) -> bool:
    """Is each element of the source copied to one place?"""
    if call.family != "strided_copy" or not call.src:
        return False
    return all(_ints(call.params, "src_strides"))


def _run_of(launch: Launch) -> _Run | None:
    """What a copy moves, or a fill sets, if that is one run of bytes."""
    call, params = launch.call, launch.call.params
    if launch.run is not None:
        return _Run(*launch.run)
    if call.family != "strided_copy":
        return None
    read, written = _ints(params, "src_strides"), _ints(params, "dst_strides")
    if len(written) > 1 or any(stride != 1 for stride in (*(read if call.src else ()), *written)):
        return None
    item, offsets = _int(params, "item"), (_int(params, "src_offset"), _int(params, "dst_offset"))
    return _Run(offsets[0] * item, offsets[1] * item, prod(_ints(params, "dims")) * item)


def _int(params: Mapping[str, ParamValue], name: str) -> int:
    value = params.get(name, 0)
    assert isinstance(value, int)
    return value


def _ints(params: Mapping[str, ParamValue], name: str) -> Sequence[int]:
    value = params.get(name, ())
    assert isinstance(value, tuple | list)
    return value


class _Copy(NamedTuple):
    """A copy as a way to put one home within another, from its byte `at` on: `into` that, or out of it."""

    number: int
    inner: Home
    outer: Home
    at: int
    into: bool


class _Memory:
    """The homes that copies lead from and to, who uses them when, and how much of the arena is in use when."""

    def __init__(self, lowered: Lowered, runs: Mapping[int, _Run]) -> None:
        self._launches, self._homes = lowered.launches, lowered.homes
        self._alive = _bytes_alive(lowered.homes.blocks(), len(lowered.launches))
        self._most = int(self._alive.max(initial=0))
        self._uses: dict[Home, Uses] = {}
        self._gone: set[int] = set()  # launches
        for number in runs:
            for value in _operands(self._launch(number)):
                home, _ = self._place(value)
                if home not in self._uses:
                    self._uses[home] = Uses(home.size)
                    self._uses[home].add(_from_outside(home, len(lowered.launches)))
        self._note_uses()

    def _launch(self, number: int) -> Launch:
        launch = self._launches[number]
        assert launch is not None
        return launch

    def _place(self, value: Value) -> tuple[Home, int]:
        place = self._homes.find(value)
        assert place is not None
        return place

    def _note_uses(self) -> None:
        for number, launch in enumerate(self._launches):
            if launch is None:
                continue
            run = _run_of(launch)
            for values, writes in ((launch.call.src, False), (launch.call.dst, True)):
                for value in values:
                    place = None if value is None else self._homes.find(value)
                    uses = None if place is None else self._uses.get(place[0])
                    if value is None or place is None or uses is None:
                        continue
                    first, nbytes = place[1], value.desc.nbytes
                    if run is not None:
                        first, nbytes = first + (run.written if writes else run.read), run.nbytes
                    uses.add((Access(number, first, first + nbytes, writes),))

    def join(self, number: int, run: _Run) -> Reject | None:
        """Puts one side of a copy within the other, so that there is nothing to copy; or says why that cannot be."""
        launch = self._launch(number)
        (source, read), (target, written) = map(self._place, _operands(launch))
        into = written + run.written - read - run.read
        rejects = []
        for copy in (_Copy(number, source, target, into, True), _Copy(number, target, source, -into, False)):
            if copy.inner.size != run.nbytes or source is target:
                continue
            reject = self._against(copy)
            if reject is not None and reject.reason == "overwritten" and self._is_joined_apart(copy):
                return None
            if reject is None:
                self._put(copy)
                return None
            rejects.append(reject)
        return rejects[0] if rejects else Reject("shares-memory", launch.node.name, _operands(launch)[0].name)

    def _is_joined_apart(self, copy: _Copy) -> bool:
        """Joins the sides if nothing is against it once what is written over them later has memory of its own."""
        for sides in ((copy.inner,), (copy.outer,), (copy.inner, copy.outer)):
            apart = [(side, made) for side in sides if (made := self._separate(side, copy.number))]
            if apart and self._against(copy) is None:
                self._put(copy)
                return True
            for side, made in reversed(apart):
                self._rejoin(side, made)
        return False

    def _separate(self, home: Home, number: int) -> Home | None:
        apart = self._homes.separate(home, number)
        if apart is not None:
            assert apart.block is not None
            first = apart.block.first
            self._alive[first] += apart.block.nbytes
            self._uses[apart] = self._uses[home].cut((first, True))
        return apart

    def _rejoin(self, home: Home, apart: Home) -> None:
        assert apart.block is not None
        self._alive[apart.block.first] -= apart.block.nbytes
        self._uses[home].add(self._uses.pop(apart).moved(0))
        self._homes.rejoin(home, apart)

    def _against(self, copy: _Copy) -> Reject | None:
        """Why one home cannot lie within another."""
        inner, outer, launch = copy.inner, copy.outer, self._launch(copy.number)
        where, name = launch.node.name, _operands(launch)[0].name
        if inner.block is None or outer.region is Region.WEIGHTS:
            return Reject("fixed-memory", where, name)
        mine = self._uses[inner].within(0, inner.size)
        others = self._uses[outer].within(copy.at, copy.at + inner.size)
        if len(mine) + len(others) > MAX_ACCESSES:
            return Reject("crowded", where, name)
        sides = [self._others(copy, uses) for uses in ((mine, others) if copy.into else (others, mine))]
        if not can_share(copy.number, *sides):
            return Reject("overwritten", where, name)
        most = self._most_with(inner.block, outer.block)
        if most > self._most:
            return Reject("more-memory", where, f"{name}: {most} bytes instead of {self._most}")
        return None

    def _others(self, copy: _Copy, uses: Iterable[Access]) -> list[Access]:
        """Accesses without those of the copy and of copies that are left out."""
        return [access for access in uses if access.number != copy.number and access.number not in self._gone]

    def _most_with(self, inner: Block, outer: Block | None) -> int:
        """The most bytes in use while the joint block is."""
        first, last = _joint(inner, outer)
        alive = self._alive[first : last + 1].copy()
        _change(alive, inner, outer, first)
        return int(alive.max())

    def _put(self, copy: _Copy) -> None:
        inner, outer, at = copy.inner, copy.outer, copy.at
        assert inner.block is not None
        _change(self._alive, inner.block, outer.block, 0)
        if outer.block is not None:
            outer.block.first, outer.block.last = _joint(inner.block, outer.block)
        inner.outer, inner.at, outer.has_inner = outer, at, True
        self._uses[outer].add(self._uses.pop(inner).moved(at))
        self._gone.add(copy.number)
        self._launches[copy.number] = None

    def narrow(self, number: int, run: _Run) -> None:
        """Lets a copy that stays name only the bytes that it reads and writes, if its operands share a home now."""
        launch = self._launches[number]
        if launch is None or len({self._place(value)[0] for value in _operands(launch)}) > 1:
            return
        params = {**launch.call.params, "src_offset": 0, "dst_offset": 0}
        self._launches[number] = replace(launch, call=replace(launch.call, params=params), run=run)


def _operands(launch: Launch) -> tuple[Value, Value]:
    """From where and to where a copy goes."""
    source, target = launch.call.src[0], launch.call.dst[0]
    assert source is not None
    return source, target


def _from_outside(home: Home, count: int) -> list[Access]:
    """What comes into a port or a constant is there before the first launch, and what is in it afterwards is wanted."""
    if home.block is not None:
        return []
    wanted = Access(count, 0, home.size, writes=False)
    return [wanted] if home.region is Region.OUTPUT else [Access(-1, 0, home.size, writes=True), wanted]


def _bytes_alive(blocks: Iterable[Block], count: int) -> Array:
    """How many bytes of the arena are in use at each launch."""
    change = np.zeros(count + 1, np.int64)
    for block in blocks:
        change[block.first] += block.nbytes
        change[block.last + 1] -= block.nbytes
    return change[:count].cumsum()


def _joint(inner: Block, outer: Block | None) -> tuple[int, int]:
    """The life time of one block within another, or within a port."""
    if outer is None:
        return inner.first, inner.last
    return min(inner.first, outer.first), max(inner.last, outer.last)


def _change(alive: Array, inner: Block, outer: Block | None, start: int) -> None:
    """Counts, from launch `start` on, what is in use once the one block lies within the other."""
    first, last = _joint(inner, outer)
    alive[inner.first - start : inner.last + 1 - start] -= inner.nbytes
    if outer is not None:
        alive[first - start : outer.first - start] += outer.nbytes
        alive[outer.last + 1 - start : last + 1 - start] += outer.nbytes

"""Take at once what is taken in steps, and from where it was before it was joined with something else.

Slice(Slice(x, 2 … 9), 1 … 3)           →  Slice(x, 3 … 5)
Slice(Slice(x, rows), columns)          →  Slice(x, rows and columns)
Slice(Concat(a, b), within b)           →  Slice(b),            or b
Slice(Concat(a, b, c), those of a, b)   →  Concat(a, b)
Split(x), if one part alone is read     →  Slice(x)
Gather(x, [4, 6, 8])                    →  Slice(x, 4 … 9, step 2)
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from atcpy.ir import Graph, Node, PassRecord, Reject
from atcpy.ops.move.slice import Extent
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase
from atcpy.passes.slices import Cut, cut_of, insert_slice, joined


@graph_pass("SliceMergePass", Phase.MOVE, before=("SliceSplitFusionPass",), repeats=True)
def merge_slices(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Take by one Slice what several take, from the part of a Concat that has it."""
    finisher = Finisher(graph, record, options)
    others: dict[Node, Node | None] = {}  # of a Slice, a reader that is none
    for node in graph.nodes_of("Slice", "Split"):
        if node.op_type == "Split":
            _take_one_part(node, finisher)
        cut = cut_of(node)
        above = node.operand(0).producer if cut else None
        if cut is None or above is None or above.domain:
            continue
        if above.op_type == "Slice":
            if above not in others:
                others[above] = next((user for user in above.output.users if cut_of(user) is None), None)
            _merge(node, cut, others[above], finisher)
        elif above.op_type == "Concat":
            _take_from_parts(node, cut, above, finisher)


def _merge(node: Node, cut: Cut, other: Node | None, finisher: Finisher) -> None:
    """Merges a Slice with the one above, which goes: as `other` says, Slices alone read it."""
    above = node.operand(0).producer
    before = cut_of(above)
    if before is None:
        return
    rejects = [] if other is None else [Reject("second-consumer", above.name, other.name)]
    rw = finisher.match(node, above, rejects=rejects)
    if rw is not None:
        finisher.finish(rw, [(node.output, insert_slice(rw, above.operand(0), joined(before, cut)))], [node])


def _take_from_parts(node: Node, cut: Cut, concat: Node, finisher: Finisher) -> None:
    """Slices those parts of a Concat in which all lies that is taken."""
    axis = concat.int_attr("axis", 0) % len(node.operand(0).desc.shape or (0,))
    taken = cut.get(axis)
    shapes = [part.desc.shape for part in concat.operands]
    sizes = [None if shape is None else shape[axis] for shape in shapes]
    if taken is None or not taken.count or not all(isinstance(size, int) for size in sizes):
        return
    ends = list(accumulate(size for size in sizes if isinstance(size, int)))
    bounds = taken.start, taken.start + (taken.count - 1) * taken.step
    first, last = (next(at for at, end in enumerate(ends) if index < end) for index in (min(bounds), max(bounds)))
    begin = ends[first - 1] if first else 0
    whole = taken.step == 1 and taken.start == begin and taken.count == ends[last] - begin
    rejects = []
    if first != last and not (whole and len(cut) == 1 and concat.output.use_count == 1):
        rejects.append(Reject("not-a-partition", node.name, f"{taken.count} places of {last - first + 1} parts"))
    rw = finisher.match(node, concat, rejects=rejects)
    if rw is not None:
        parts = concat.operands[first : last + 1]
        rest = {**cut, axis: Extent(taken.start - begin, taken.step, taken.count)}
        if whole:
            del rest[axis]
        value = parts[0] if first == last else rw.op("Concat", *parts, axis=axis)
        finisher.finish(rw, [(node.output, insert_slice(rw, value, rest) if rest else value)], [node])


def _take_one_part(node: Node, finisher: Finisher) -> None:
    """Makes a Split of which one part alone is read a Slice."""
    read = [value for value in node.outputs if value.use_count]
    if len(read) != 1 or len(node.outputs) == 1:
        return
    shapes = [value.desc.shape for value in node.outputs[: read[0].index + 1]]
    axis = node.int_attr("axis", 0) % len(shapes[0] or (0,))
    sizes = [size for shape in shapes if shape is not None and isinstance(size := shape[axis], int)]
    if len(sizes) < len(shapes):
        return
    rw = finisher.match(node)
    if rw is not None:
        cut = {axis: Extent(sum(sizes[:-1]), 1, sizes[-1])}
        finisher.finish(rw, [(read[0], insert_slice(rw, node.operand(0), cut))], [node])


@graph_pass("GatherSliceFusionPass", Phase.FINISH, makes=("Slice",))
def slice_for_gather(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Replace Gather by Slice where the indices follow each other in equal steps."""
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of("Gather"):
        cut = _run_of(node)
        rw = None if cut is None else finisher.match(node)
        if rw is not None and cut is not None:
            finisher.finish(rw, [(node.output, insert_slice(rw, node.operand(0), cut))], [node])


def _run_of(node: Node) -> Cut | None:
    """What a Gather takes, if its indices, two at least, follow each other in equal steps."""
    shape, indices = node.operand(0).desc.shape, node.operand(1)
    if shape is None or indices.tensor is None or len(indices.desc.shape or ()) != 1 or indices.desc.elements < 2:
        return None
    axis = node.int_attr("axis", 0) % len(shape)
    size = shape[axis]
    if not isinstance(size, int):
        return None
    numbers = np.where(indices.array < 0, indices.array.astype(np.int64) + size, indices.array)
    step = int(numbers[1] - numbers[0])
    if step == 0 or (np.diff(numbers) != step).any():
        return None
    return {axis: Extent(int(numbers[0]), step, len(numbers))}

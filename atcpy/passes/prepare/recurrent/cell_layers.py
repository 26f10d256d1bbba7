"""The recurrent cells that a Loop or Scan over the steps of a sequence computes, and its results in terms of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from atcpy.ir import DType, Reject, Value
from atcpy.ir.shape import Dim
from atcpy.ops import Trait, has_trait
from atcpy.ops.core.reference import evaluate_node
from atcpy.ops.core.shape_values import UNNAMED
from atcpy.passes.prepare.recurrent.cells import Cell, State, find_cells
from atcpy.passes.prepare.recurrent.loop_values import Carried, Induction, LoopBody, Sequence, Stack, plain
from atcpy.passes.prepare.recurrent.polynomials import NotACell, Polynomials, rows, width
from atcpy.passes.prepare.recurrent.splat import is_zero


class ResultKind(Enum):
    """Kinds of results of a loop."""

    H = "the last h"
    C = "the last c"
    STEPS = "h of all steps"
    ONE = "a list of one element, the last h"
    FRONT = "a list with h of all steps at its front"
    COUNT = "a counter"
    START = "the initial value"


@dataclass(frozen=True, slots=True)
class Result:
    """A result of the loop: its kind, the carried value or stack, and the cell. Where a row is masked, h of a step is
    0, or the h of the step before if it `keeps_previous`.
    """

    value: Value
    kind: ResultKind
    of: Carried | Stack
    cell: Cell | None = None
    keeps_previous: bool = False


@dataclass(frozen=True, slots=True)
class Mask:
    """The rows that run in an iteration: those whose length is greater than the iteration; or those at which the
    element of `steps` is true, or false if true means `skipped`. Lengths and steps are values outside of the loop.
    """

    lengths: Value | None = None
    steps: Sequence | None = None
    element: Value | None = field(default=None, compare=False)  # of `steps`, in the body
    skipped: bool = False


@dataclass(slots=True)
class Layer:
    """The cells of a loop. Raises NotACell if the loop computes something else."""

    loop: LoopBody
    cells: list[Cell] = field(init=False)
    states: dict[Value, Carried] = field(init=False, default_factory=dict)  # by their value before an iteration
    sequences: dict[Value, Sequence] = field(init=False, default_factory=dict)  # by their element in the body
    rows: tuple[Dim, ...] = field(init=False)
    mask: Mask | None = field(init=False, default=None)
    results: list[Result] = field(init=False)

    def __post_init__(self) -> None:
        loop = self.loop
        if not loop.only_counts:
            raise NotACell(Reject("condition", loop.node.name))
        counters = list(loop.counters())
        moving = [each for each in loop.carried if each.new is not each.old and each not in counters]
        lists = [each for each in moving if each.new.producer.op_type == "ScatterND"]
        states = self._states([each for each in moving if each not in lists and each.old.use_count])
        self.rows = rows(states[0].old)
        if len(self.rows) > 1:
            raise NotACell(Reject("rank", states[0].old.name))
        self.sequences = self._elements()
        sources = frozenset((*[state.new for state in states], *self.sequences))
        self.cells = self._in_order(find_cells(Polynomials(loop.constant, self.rows, sources), states))
        for state in self.states.values():
            self._check_start(state)
        self.results = list(self._results(counters, lists))

    @property
    def masks_steps(self) -> bool:
        """Return whether rows may skip steps, not only end early."""
        return self.mask is not None and self.mask.steps is not None

    def cell_of(self, value: Value) -> Cell | None:
        """Return the cell whose h after an iteration is a value of the body."""
        return next((cell for cell in self.cells if cell.h.new is value), None)

    # --- states ----------------------------------------------------------------------------------

    def _states(self, moving: list[Carried]) -> list[State]:
        """Return the states of cells. Of several with one new value, it is the one that more than its mask reads."""
        found: dict[Value, State] = {}
        unmasked: set[Value] = set()
        for each in moving:
            if each.old.desc.dtype is not DType.FLOAT32:
                raise NotACell(Reject("dtype", each.old.name, each.old.desc.dtype.long))
            new = self._unmasked(each.new, each.old)
            if new is each.new:
                unmasked.add(new)
            if new not in found or not _is_read(found[new].old):
                found[new] = State(each.old, new)
            elif _is_read(each.old):
                raise NotACell(Reject("other-formula", each.new.name, "the same in two states"))
            self.states[each.old] = each
        if not found:
            raise NotACell(Reject("other-formula", self.loop.node.name, "no state"))
        if self.mask is not None and unmasked:
            raise NotACell(Reject("other-mask", unmasked.pop().name, "none beside one"))
        return list(found.values())

    def _unmasked(self, value: Value, padding: Value | None) -> Value:
        """Return the new value of a state where the row runs; elsewhere it is `padding`, or 0 if that is None."""
        node = value.producer
        if node.op_type != "Where" or node.domain:
            return value
        condition, *sides = [plain(operand) for operand in node.operands]
        rest = [side for side in sides if (side is padding if padding is not None else self._is_zero(side))]
        if len(rest) != 1:
            return value
        mask: Mask | None = None
        if rows(condition) == rows(value) and width(condition) in (1, width(value)):
            mask = self._read_mask(condition, rows(value), runs=rest[0] is sides[1])
        if mask is None or self.mask not in (None, mask):
            raise NotACell(Reject("other-mask", node.name))
        self.mask = mask
        return sides[0] if rest[0] is sides[1] else sides[1]

    def _is_zero(self, value: Value) -> bool:
        outer = self.loop.outside(value)
        return is_zero(value if outer is None else outer)

    def _read_mask(self, condition: Value, dims: tuple[Dim, ...], *, runs: bool) -> Mask | None:
        """Return the mask that a condition is: true where a row `runs`, or where it does not; None for another."""
        while True:
            node = condition.producer
            if node.op_type == "Tile":
                source = node.operand(0)
                keeps_rows = rows(source) == rows(condition) and width(source) == 1
            elif node.op_type == "Not" or has_trait(node, Trait.VIEW):
                source = node.operand(0)
                keeps_rows = _long_dims(source) == _long_dims(condition)
            else:
                break
            if not keeps_rows:
                return None
            runs ^= node.op_type == "Not"
            condition = source
        if _long_dims(condition) != dims:
            return None
        steps = self.loop.sequence(condition)
        if steps is not None:
            return Mask(steps=steps, element=condition, skipped=not runs)
        lengths = self._compared(condition, runs)
        return None if lengths is None or _long_dims(lengths) != dims else Mask(lengths=lengths)

    def _compared(self, condition: Value, runs: bool) -> Value | None:
        """Return the lengths, one for each row, with which a condition compares the iteration; None for another."""
        node = condition.producer
        counts = [self.loop.induction(operand) == Induction(0, 1) for operand in node.operands]
        if sorted(counts) != [False, True] or not has_trait(node, Trait.ELEMENTWISE):
            return None
        # The iteration before, at and behind a length of 1.
        compared = evaluate_node(
            node, [np.arange(3) if is_iteration else np.ones(3, np.int64) for is_iteration in counts]
        )[0]
        if compared.tolist() != [runs, not runs, not runs]:
            return None
        lengths = node.operand(counts.index(False))
        while has_trait(lengths.producer, Trait.VIEW) or lengths.producer.op_type == "Cast":
            lengths = lengths.producer.operand(0)
        outer = self.loop.outside(lengths)
        return outer if outer is not None and outer.desc.dtype.is_int else None

    def _check_start(self, state: Carried) -> None:
        """Raise NotACell if an initial state does not fit. Of a masked row without any step, the op returns zeros, as
        ONNX Runtime does.
        """
        zero = is_zero(state.start)
        if rows(state.old) != self.rows or (rows(state.start) != self.rows and not (zero and self._runs_once())):
            raise NotACell(Reject("sizes-differ", state.start.name, "other rows"))
        if width(state.start) != width(state.old):
            raise NotACell(Reject("sizes-differ", state.start.name, "other columns"))
        if self.mask is not None and not zero:
            raise NotACell(Reject("other-mask", state.start.name, "rows without a step keep what is not 0"))

    def _runs_once(self) -> bool:
        return isinstance(self.loop.count, int) and self.loop.count > 0

    # --- cells -----------------------------------------------------------------------------------

    def _elements(self) -> dict[Value, Sequence]:
        """Return the values of the body that are elements of sequences."""
        values = (value for node in self.loop.body.nodes for value in node.outputs)
        found = {value: self.loop.sequence(value) for value in values if value.desc.dtype is DType.FLOAT32}
        return {value: sequence for value, sequence in found.items() if sequence is not None}

    def _in_order(self, cells: list[Cell]) -> list[Cell]:
        """Return the cells in topological order. Raises NotACell for a source that is neither sequence nor cell."""
        ordered: list[Cell] = []
        makers = {cell.h.new: cell for cell in cells}
        waiting = list(cells)
        while waiting:
            cell = waiting.pop(0)
            for source in cell.sources:
                if source not in self.sequences and source not in makers:
                    raise NotACell(Reject("other-source", source.name))
            if not cell.sources:
                raise NotACell(Reject("other-source", cell.h.new.name, "none"))
            if all(source in self.sequences or makers[source] in ordered for source in cell.sources):
                ordered.append(cell)
            else:
                waiting.append(cell)
        return ordered

    # --- results ---------------------------------------------------------------------------------

    def _results(self, counters: list[Carried], lists: list[Carried]) -> Iterator[Result]:
        for state in self.loop.carried:
            if state.end.use_count == 0:
                continue
            if state.new is state.old:
                yield Result(state.end, ResultKind.START, state)
            elif self.loop.limit is None and (state in counters or state in lists):
                raise NotACell(Reject("other-result", state.end.name))
            elif state in counters:
                yield Result(state.end, ResultKind.COUNT, state)
            elif state in lists:
                yield self._list(state)
            else:
                yield self._last(state)
        for stack in self.loop.stacks:
            if stack.tensor.use_count:
                cell, keeps_previous = self._of_all_steps(stack.item)
                yield Result(stack.tensor, ResultKind.STEPS, stack, cell, keeps_previous)

    def _last(self, state: Carried) -> Result:
        new = self._unmasked(state.new, state.old)
        for cell in self.cells:
            if cell.c is not None and state.old is cell.c.old:
                return Result(state.end, ResultKind.C, state, cell)
            same = state.old is cell.h.old or self._starts_alike(state, self.states[cell.h.old])
            if new is cell.h.new and same and (self.mask is None or state.old.use_count):
                return Result(state.end, ResultKind.H, state, cell)
        raise NotACell(Reject("other-result", state.end.name))

    def _starts_alike(self, a: Carried, b: Carried) -> bool:
        """Return whether two states with one new value have one final value."""
        return self._runs_once() or (is_zero(a.start) and is_zero(b.start))

    def _of_all_steps(self, item: Value) -> tuple[Cell, bool]:
        """Return the cell whose h an element of a list is, and whether masked rows hold their value."""
        item = plain(item)
        new, keeps_previous = item, False
        if self.mask is not None:
            new = self._unmasked(item, None)
            state = next((each for each in self.states.values() if each.new is item), None)
            if new is item and state is not None and self.mask.steps is not None:
                new, keeps_previous = self._unmasked(item, state.old), True
        cell = self.cell_of(new)
        if cell is None or (self.mask is not None and new is item):
            raise NotACell(Reject("other-result", item.name))
        return cell, keeps_previous

    def _list(self, state: Carried) -> Result:
        node = state.new.producer
        written, index, item = node.operands
        position = self.loop.induction(index)
        length = (state.start.desc.shape or (None,))[0]
        if plain(written) is state.old and state.old.use_count == 1 and index.desc.shape == (1,):
            cell, keeps_previous = self._of_all_steps(item)
            if position == Induction(0, 1):
                return Result(state.end, ResultKind.FRONT, state, cell, keeps_previous)
            is_last = (keeps_previous or self.mask is None) and self._starts_alike(state, self.states[cell.h.old])
            if position == Induction(0, 0) and length == 1 and is_last:
                return Result(state.end, ResultKind.ONE, state, cell)
        raise NotACell(Reject("other-result", state.end.name))


def _is_read(old: Value) -> bool:
    return any(use.node.op_type != "Where" and not use.node.is_structural for use in old.uses)


def _long_dims(value: Value) -> tuple[Dim, ...]:
    """Return the dims that are not 1."""
    shape = value.desc.shape
    return (UNNAMED,) if shape is None else tuple(dim for dim in shape if dim != 1)

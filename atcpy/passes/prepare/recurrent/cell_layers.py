"""What a Loop or Scan over the steps of recurrent cells computes, and how each result of it follows from the cells."""

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
from atcpy.passes.prepare.recurrent.linear_form import Columns, NotACell, rows, width
from atcpy.passes.prepare.recurrent.loop_values import Carried, Place, Sequence, Stack, Turns, plain
from atcpy.passes.prepare.recurrent.splat import is_zero


class What(Enum):
    """What a result of the loop is."""

    H = "the last h"
    C = "the last c"
    STEPS = "h of all steps"
    ONE = "a list of one element, the last h"
    FRONT = "a list with h of all steps at its front"
    COUNT = "a counter"
    START = "what it began with"


@dataclass(frozen=True, slots=True)
class Result:
    """A result of the loop: what it is, of which cell, state or stack. Where a row does not run, h of a step is 0, or
    that of the step before if it `is_held`.
    """

    value: Value
    what: What
    of: Carried | Stack
    cell: Cell | None = None
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class Mask:
    """Which rows run: those whose length, in the graph around the loop, is greater than the turn; or where the turn's
    element of `steps` is, or is not, `skipped`.
    """

    lengths: Value | None = None
    steps: Sequence | None = None
    element: Value | None = field(default=None, compare=False)  # of `steps`, in the body
    skipped: bool = False


@dataclass(slots=True)
class Layer:
    """The cells of a loop; NotACell if they are not all of it."""

    turns: Turns
    cells: list[Cell] = field(init=False)
    states: dict[Value, Carried] = field(init=False, default_factory=dict)  # by what they are before a turn
    sequences: dict[Value, Sequence] = field(init=False, default_factory=dict)  # by their element
    rows: tuple[Dim, ...] = field(init=False)
    mask: Mask | None = field(init=False, default=None)
    results: list[Result] = field(init=False)

    def __post_init__(self) -> None:
        turns = self.turns
        if not turns.only_counts:
            raise NotACell(Reject("condition", turns.node.name))
        counters = list(turns.counters())
        moving = [each for each in turns.carried if each.new is not each.old and each not in counters]
        lists = [each for each in moving if each.new.producer.op_type == "ScatterND"]
        states = self._states([each for each in moving if each not in lists and each.old.use_count])
        self.rows = rows(states[0].old)
        if len(self.rows) > 1:
            raise NotACell(Reject("rank", states[0].old.name))
        self.sequences = self._elements()
        sources = frozenset((*[state.new for state in states], *self.sequences))
        self.cells = self._in_order(find_cells(Columns(turns.constant, self.rows, sources), states))
        for state in self.states.values():
            self._check_start(state)
        self.results = list(self._results(counters, lists))

    def cell_of(self, value: Value) -> Cell | None:
        """The cell whose state h, as a turn makes it, a value of the body is."""
        return next((cell for cell in self.cells if cell.h.new is value), None)

    # --- states ----------------------------------------------------------------------------------

    def _states(self, moving: list[Carried]) -> list[State]:
        """The states of cells; of several that become the same, the one that is read by more than its mask."""
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
            raise NotACell(Reject("other-formula", self.turns.node.name, "no state"))
        if self.mask is not None and unmasked:
            raise NotACell(Reject("other-mask", unmasked.pop().name, "none beside one"))
        return list(found.values())

    def _unmasked(self, value: Value, held: Value | None) -> Value:
        """What a turn makes of a state where the row runs; `held` is its value elsewhere, or None where that is 0."""
        node = value.producer
        if node.op_type != "Where" or node.domain:
            return value
        condition, *sides = [plain(operand) for operand in node.operands]
        rest = [side for side in sides if (side is held if held is not None else self._is_zero(side))]
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
        outer = self.turns.outside(value)
        return is_zero(value if outer is None else outer)

    def _read_mask(self, condition: Value, dims: tuple[Dim, ...], *, runs: bool) -> Mask | None:
        """What a condition says of each row: that it runs, or else that it does not."""
        while True:
            node = condition.producer
            if node.op_type == "Tile":
                source = node.operand(0)
                keeps_rows = rows(source) == rows(condition) and width(source) == 1
            elif node.op_type == "Not" or has_trait(node, Trait.VIEW):
                source = node.operand(0)
                keeps_rows = _long(source) == _long(condition)
            else:
                break
            if not keeps_rows:
                return None
            runs ^= node.op_type == "Not"
            condition = source
        if _long(condition) != dims:
            return None
        steps = self.turns.sequence(condition)
        if steps is not None:
            return Mask(steps=steps, element=condition, skipped=not runs)
        lengths = self._compared(condition, runs)
        return None if lengths is None or _long(lengths) != dims else Mask(lengths=lengths)

    def _compared(self, condition: Value, runs: bool) -> Value | None:
        """The lengths that the turn is compared with, one for each row."""
        node = condition.producer
        counts = [self.turns.place(operand) == Place(0, 1) for operand in node.operands]
        if sorted(counts) != [False, True] or not has_trait(node, Trait.ELEMENTWISE):
            return None
        # The iteration before, at and behind a length of 1.
        compared = evaluate_node(node, [np.arange(3) if is_turn else np.ones(3, np.int64) for is_turn in counts])[0]
        if compared.tolist() != [runs, not runs, not runs]:
            return None
        lengths = node.operand(counts.index(False))
        while has_trait(lengths.producer, Trait.VIEW) or lengths.producer.op_type == "Cast":
            lengths = lengths.producer.operand(0)
        outer = self.turns.outside(lengths)
        return outer if outer is not None and outer.desc.dtype.is_int else None

    def _check_start(self, state: Carried) -> None:
        """Rows that end may have no step: the op has zeros there, as ONNX Runtime has."""
        zero = is_zero(state.start)
        if rows(state.old) != self.rows or (rows(state.start) != self.rows and not (zero and self._turns_once())):
            raise NotACell(Reject("sizes-differ", state.start.name, "other rows"))
        if width(state.start) != width(state.old):
            raise NotACell(Reject("sizes-differ", state.start.name, "other columns"))
        if self.mask is not None and not zero:
            raise NotACell(Reject("other-mask", state.start.name, "rows without a step keep what is not 0"))

    def _turns_once(self) -> bool:
        return isinstance(self.turns.count, int) and self.turns.count > 0

    # --- cells -----------------------------------------------------------------------------------

    def _elements(self) -> dict[Value, Sequence]:
        """The elements of sequences."""
        values = (value for node in self.turns.body.nodes for value in node.outputs)
        found = {value: self.turns.sequence(value) for value in values if value.desc.dtype is DType.FLOAT32}
        return {value: sequence for value, sequence in found.items() if sequence is not None}

    def _in_order(self, cells: list[Cell]) -> list[Cell]:
        """The cells, each behind those that it reads."""
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
        for state in self.turns.carried:
            if state.end.use_count == 0:
                continue
            if state.new is state.old:
                yield Result(state.end, What.START, state)
            elif self.turns.limit is None and (state in counters or state in lists):
                raise NotACell(Reject("other-result", state.end.name))
            elif state in counters:
                yield Result(state.end, What.COUNT, state)
            elif state in lists:
                yield self._list(state)
            else:
                yield self._last(state)
        for stack in self.turns.stacks:
            if stack.tensor.use_count:
                cell, is_held = self._of_all_steps(stack.item)
                yield Result(stack.tensor, What.STEPS, stack, cell, is_held)

    def _last(self, state: Carried) -> Result:
        new = self._unmasked(state.new, state.old)
        for cell in self.cells:
            if cell.c is not None and state.old is cell.c.old:
                return Result(state.end, What.C, state, cell)
            same = state.old is cell.h.old or self._starts_alike(state, self.states[cell.h.old])
            if new is cell.h.new and same and (self.mask is None or state.old.use_count):
                return Result(state.end, What.H, state, cell)
        raise NotACell(Reject("other-result", state.end.name))

    def _starts_alike(self, a: Carried, b: Carried) -> bool:
        """Do two states that a turn makes the same end the same?"""
        return self._turns_once() or (is_zero(a.start) and is_zero(b.start))

    def _of_all_steps(self, item: Value) -> tuple[Cell, bool]:
        """The cell whose h an element of a list is, and whether it is held where the row does not run."""
        made = plain(item)
        new, is_held = made, False
        if self.mask is not None:
            new = self._unmasked(made, None)
            state = next((each for each in self.states.values() if each.new is made), None)
            if new is made and state is not None and self.mask.steps is not None:
                new, is_held = self._unmasked(made, state.old), True
        cell = self.cell_of(new)
        if cell is None or (self.mask is not None and new is made):
            raise NotACell(Reject("other-result", item.name))
        return cell, is_held

    def _list(self, state: Carried) -> Result:
        node = state.new.producer
        held, index, item = node.operands
        place = self.turns.place(index)
        length = (state.start.desc.shape or (None,))[0]
        if plain(held) is state.old and state.old.use_count == 1 and index.desc.shape == (1,):
            cell, is_held = self._of_all_steps(item)
            if place == Place(0, 1):
                return Result(state.end, What.FRONT, state, cell, is_held)
            is_last = (is_held or self.mask is None) and self._starts_alike(state, self.states[cell.h.old])
            if place == Place(0, 0) and length == 1 and is_last:
                return Result(state.end, What.ONE, state, cell)
        raise NotACell(Reject("other-result", state.end.name))


def _is_read(old: Value) -> bool:
    return any(use.node.op_type != "Where" and not use.node.is_structural for use in old.uses)


def _long(value: Value) -> tuple[Dim, ...]:
    """The dims of which there are several."""
    shape = value.desc.shape
    return (UNNAMED,) if shape is None else tuple(dim for dim in shape if dim != 1)

"""What a Loop or Scan over the steps of recurrent cells computes, and how each result of it follows from the cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from atcpy.ir import DType, Reject, Value
from atcpy.ir.shape import Dim
from atcpy.passes.columns import Columns, NotACell, rows, width
from atcpy.passes.fills import is_zero
from atcpy.passes.recurrent_cells import Cell, State, find_cells
from atcpy.passes.turns import Carried, Place, Sequence, Stack, Turns, plain

_VIEWS: Final = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
# For a comparison of the turn with the length of a row: does the row still run where it is true?
_RUNS: Final = {"Less": True, "GreaterOrEqual": False}
_SWAPPED: Final = {"Greater": "Less", "LessOrEqual": "GreaterOrEqual"}


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
    """A result of the loop: what it is, of which cell, state or stack."""

    value: Value
    what: What
    of: Carried | Stack
    cell: Cell | None = None


@dataclass(slots=True)
class Layer:
    """The cells of a loop; NotACell if they are not all of it. `lengths` are the numbers of steps of the rows."""

    turns: Turns
    cells: list[Cell] = field(init=False)
    states: dict[Value, Carried] = field(init=False, default_factory=dict)  # by what they are before a turn
    sequences: dict[Value, Sequence] = field(init=False, default_factory=dict)  # by their element
    rows: tuple[Dim, ...] = field(init=False)
    lengths: Value | None = field(init=False, default=None)
    results: list[Result] = field(init=False)

    def __post_init__(self) -> None:
        turns = self.turns
        if not turns.only_counts:
            raise NotACell(Reject("condition", turns.node.name))
        counters = list(turns.counters())
        moving = [each for each in turns.carried if each.new is not each.old and each not in counters]
        lists = [each for each in moving if each.new.producer.op_type == "ScatterND"]
        states = self._states([each for each in moving if each not in lists])
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
        if self.lengths is not None and unmasked:
            raise NotACell(Reject("other-mask", unmasked.pop().name, "none beside one"))
        return list(found.values())

    def _unmasked(self, value: Value, held: Value | None) -> Value:
        """What a turn makes of a state where the row still runs; `held` is the value of rows that have ended, or None
        where it is 0.
        """
        node = value.producer
        if node.op_type != "Where" or node.domain:
            return value
        condition, *sides = [plain(operand) for operand in node.operands]
        ended = [side for side in sides if (side is held if held is not None else self._is_zero(side))]
        if len(ended) != 1:
            return value
        lengths = self._lengths(condition, runs=ended[0] is sides[1])
        if lengths is None or self.lengths not in (None, lengths) or rows(value) != rows(node.operand(0)):
            raise NotACell(Reject("other-mask", node.name))
        self.lengths = lengths
        return sides[0] if ended[0] is sides[1] else sides[1]

    def _is_zero(self, value: Value) -> bool:
        outer = self.turns.outside(value)
        return is_zero(value if outer is None else outer)

    def _lengths(self, condition: Value, *, runs: bool) -> Value | None:
        """The lengths that the turn is compared with, one for each row, if the condition says which rows run, or else
        which have ended.
        """
        if (condition.desc.shape or (0,))[-1] != 1:
            return None
        node = condition.producer
        while node.op_type in _VIEWS or node.op_type == "Not":
            runs ^= node.op_type == "Not"
            node = node.operand(0).producer
        operands = node.operands
        op_type = node.op_type
        if op_type in _SWAPPED:
            op_type, operands = _SWAPPED[op_type], operands[::-1]
        if _RUNS.get(op_type) is not runs or self.turns.place(operands[0]) != Place(0, 1):
            return None
        lengths = operands[1]
        while lengths.producer.op_type in _VIEWS:
            lengths = lengths.producer.operand(0)
        outer = self.turns.outside(lengths)
        if outer is None or not outer.desc.dtype.is_int or outer.desc.shape is None:
            return None
        return outer

    def _check_start(self, state: Carried) -> None:
        """Rows that end may have no step: the op has zeros there, as ONNX Runtime has."""
        zero = is_zero(state.start)
        if rows(state.old) != self.rows or (rows(state.start) != self.rows and not (zero and self._turns_once())):
            raise NotACell(Reject("sizes-differ", state.start.name, "other rows"))
        if width(state.start) != width(state.old):
            raise NotACell(Reject("sizes-differ", state.start.name, "other columns"))
        if self.lengths is not None:
            if not zero:
                raise NotACell(Reject("other-mask", state.start.name, "rows without a step keep what is not 0"))
            if tuple(dim for dim in self.lengths.desc.shape or () if dim != 1) != self.rows:
                raise NotACell(Reject("other-mask", self.lengths.name, "not one length a row"))

    def _turns_once(self) -> bool:
        return isinstance(self.turns.count, int) and self.turns.count > 0

    # --- cells -----------------------------------------------------------------------------------

    def _elements(self) -> dict[Value, Sequence]:
        """The elements of sequences."""
        values = [node.output for node in self.turns.body.nodes if node.op_type in ("Data", "Gather")]
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
            elif state in counters:
                yield Result(state.end, What.COUNT, state)
            elif state in lists:
                yield self._list(state)
            else:
                yield self._last(state)
        for stack in self.turns.stacks:
            if stack.tensor.use_count:
                yield Result(stack.tensor, What.STEPS, stack, self._of_all_steps(stack.item))

    def _last(self, state: Carried) -> Result:
        new = self._unmasked(state.new, state.old)
        for cell in self.cells:
            if new is cell.h.new:
                return Result(state.end, What.H, state, cell)
            if cell.c is not None and new is cell.c.new:
                return Result(state.end, What.C, state, cell)
        raise NotACell(Reject("other-result", state.end.name))

    def _of_all_steps(self, item: Value) -> Cell:
        """The cell whose h an element of a list is: 0 in rows that have ended."""
        inner = plain(item)
        cell = self.cell_of(inner if self.lengths is None else self._unmasked(inner, None))
        if cell is None or (self.lengths is not None and cell.h.new is inner):
            raise NotACell(Reject("other-result", item.name))
        return cell

    def _list(self, state: Carried) -> Result:
        node = state.new.producer
        held, index, item = node.operands
        place = self.turns.place(index)
        length = (state.start.desc.shape or (None,))[0]
        if plain(held) is not state.old or state.old.use_count > 1 or index.desc.shape != (1,):
            raise NotACell(Reject("other-result", state.end.name))
        if place == Place(0, 1):
            return Result(state.end, What.FRONT, state, self._of_all_steps(item))
        if place == Place(0, 0) and length == 1 and self.lengths is None:
            cell = self._of_all_steps(item)
            if self._turns_once() or (is_zero(state.start) and is_zero(self.states[cell.h.old].start)):
                return Result(state.end, What.ONE, state, cell)
        raise NotACell(Reject("other-result", state.end.name))


def _is_read(old: Value) -> bool:
    return any(use.node.op_type not in ("Where", "NetOutput") for use in old.uses)

"""What goes in and out of the body of a Loop or Scan: what it carries, sequences, lists, and the number of the turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from atcpy.ir import Node, Value
from atcpy.ir.closure import captured_value, formal_inputs
from atcpy.ir.shape import Dim
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, coefficients_of, has_trait
from atcpy.ops.core.infer import KnownValues
from atcpy.ops.core.shape_values import UNNAMED, add, sub

MAX_STEPS: Final = 20  # nodes from an index to what it counts


@dataclass(frozen=True, slots=True)
class Carried:
    """A state: before the first turn, in the body before and after a turn, and after the last."""

    start: Value
    old: Value
    new: Value
    end: Value


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tensor of which each turn takes one element along an axis."""

    tensor: Value
    axis: int
    is_reversed: bool


@dataclass(frozen=True, slots=True)
class Stack:
    """What each turn makes, and the tensor of it along an axis; the last turn's stands first where it is reversed."""

    item: Value
    tensor: Value
    axis: int
    is_reversed: bool


@dataclass(frozen=True, slots=True)
class Place:
    """An index that moves: `first` in turn 0, and `step` more in each."""

    first: Dim
    step: int


def plain(value: Value) -> Value:
    """What a value is under other names."""
    while value.producer.op_type == "Identity" and not value.producer.domain:
        value = value.producer.operand(0)
    return value


class Turns:
    """A Loop or Scan. `known` are the numbers known in the graph around it."""

    def __init__(self, node: Node, known: KnownValues) -> None:
        self.node, self._known = node, known
        self.body = next(node.subgraphs)
        is_loop = node.op_type == "Loop"
        data = [item.output for item in formal_inputs(self.body)]
        results = [plain(value) for value in self.body.outputs]
        own = 2 if is_loop else 0  # of the Loop: number of the turn and condition
        scanned = 0 if is_loop else node.int_attr("num_scan_inputs", 0)
        states = len(data) - scanned
        self.number = data[0] if is_loop else None
        self.again = results[0] if is_loop else None
        self.going = data[1] if is_loop else None
        ends = results[1:] if is_loop else results
        starts = [value for value in node.inputs[own:states] if value is not None]
        self.carried = [Carried(*each) for each in zip(starts, data[own:states], ends, node.outputs, strict=False)]
        count = len(self.carried)
        axes = node.ints_attr("scan_input_axes", (0,) * scanned)
        reversals = node.ints_attr("scan_input_directions", (0,) * scanned)
        self._taken = {
            value: Sequence(
                node.operand(states + place), axes[place] % (len(value.desc.shape or ()) + 1), bool(reversals[place])
            )
            for place, value in enumerate(data[states:])
        }
        items, stacks = ends[count:], node.outputs[count:]
        axes = node.ints_attr("scan_output_axes", (0,) * len(items))
        reversals = node.ints_attr("scan_output_directions", (0,) * len(items))
        self.stacks = [Stack(*each) for each in zip(items, stacks, axes, map(bool, reversals), strict=False)]

    @property
    def limit(self) -> Value | None:
        """The number of turns of a Loop that only counts; None also where nothing limits them."""
        return self.node.input(0) if self.node.op_type == "Loop" else None

    @cached_property
    def count(self) -> Dim | None:
        """The number of turns, if it has a name."""
        if self.limit is None:
            lengths = (self._length(sequence) for sequence in self._taken.values())
            return next((length for length in lengths if length not in (None, UNNAMED)), None)
        elements = self._known(self.limit)
        return elements[0] if elements is not None and len(elements) == 1 and elements[0] != UNNAMED else None

    @property
    def only_counts(self) -> bool:
        """Does nothing but the number of turns end it?"""
        if self.node.op_type == "Scan":
            return True
        condition = self.node.input(1)
        goes_in = condition is None or _is_true(condition)
        return self.limit is not None and goes_in and (self.again is self.going or self._is_true_inside())

    def _is_true_inside(self) -> bool:
        held = None if self.again is None else self.constant(self.again)
        return held is not None and held.size == 1 and bool(held.item())

    def outside(self, value: Value) -> Value | None:
        """A value of the body that is the same in every turn, as it is in the graph around it."""
        value = plain(value)
        data = value.producer
        if data.op_type != "Data":
            return None
        if "captured" in data.attrs:
            return captured_value(self.node, data)
        return next((each.start for each in self.carried if each.old is value is each.new), None)

    def constant(self, value: Value) -> Array | None:
        """The elements of a value of the body that are the same in every turn, and known."""
        if value.tensor is not None:
            return value.array
        outer = self.outside(value)
        return None if outer is None or outer.tensor is None else outer.array

    # --- sequences -------------------------------------------------------------------------------

    def sequence(self, value: Value) -> Sequence | None:
        """The sequence of which a value of the body is an element, in the order of the turns or in the opposite one."""
        if value in self._taken:
            return self._taken[value]
        node = value.producer
        if node.op_type != "Gather" or node.domain or node.operand(1).desc.shape != ():
            return None
        tensor, place = self.outside(node.operand(0)), self.place(node.operand(1))
        if tensor is None or place is None or tensor.desc.shape is None:
            return None
        axis = node.int_attr("axis", 0) % max(len(tensor.desc.shape), 1)
        if place == Place(0, 1):
            return Sequence(tensor, axis, is_reversed=False)
        is_back = self.count is not None and place == Place(sub(self.count, 1), -1)
        return Sequence(tensor, axis, is_reversed=True) if is_back else None

    def is_whole(self, sequence: Sequence) -> bool:
        """Do the turns take all of it?"""
        return self.limit is None or self._length(sequence) == self.count != UNNAMED

    def _length(self, sequence: Sequence) -> Dim | None:
        shape = sequence.tensor.desc.shape
        return None if shape is None else shape[sequence.axis]

    def place(self, value: Value, depth: int = 0) -> Place | None:
        """A number of the body that counts the turns."""
        value, node = plain(value), value.producer
        if value is self.number:
            return Place(0, 1)
        held = self.constant(value)
        if held is not None:
            return Place(int(held.item()), 0) if held.size == 1 and held.dtype.kind in "iu" else None
        if node.op_type == "Data":
            return self._counter(value)
        if depth > MAX_STEPS or node.domain:
            return None
        if node.op_type == "Cast" or has_trait(node, Trait.VIEW):
            return self.place(node.operand(0), depth + 1)
        coefficients = coefficients_of(node)
        if not coefficients:
            return None
        total = Place(0, 0)
        for coefficient, operand in zip(coefficients, node.operands, strict=True):
            term = self.place(operand, depth + 1)
            if term is None:
                return None
            first = (add if coefficient > 0 else sub)(total.first, term.first)
            total = Place(first, total.step + coefficient * term.step)
        return total

    def _counter(self, value: Value) -> Place | None:
        """A number from outside, or one that is carried and that a turn adds the same to."""
        outer = self.outside(value)
        if outer is not None:
            first = self._known(outer)
            return Place(first[0], 0) if first is not None and len(first) == 1 else None
        state = next((each for each in self.carried if each.old is value), None)
        first = None if state is None else self._known(state.start)
        step = None if state is None else self.step(state)
        return None if step is None or first is None or len(first) != 1 else Place(first[0], step)

    def step(self, state: Carried) -> int | None:
        """What a turn adds to a counter."""
        node = state.new.producer
        terms = [*zip(coefficients_of(node), map(plain, node.operands), strict=False)]
        counted, others = (1, state.old), [term for term in terms if term != (1, state.old)]
        if counted not in terms or len(others) != 1:
            return None
        ((coefficient, other),) = others
        value = self.constant(other)
        is_integer = value is not None and value.size == 1 and value.dtype.kind in "iu"
        return coefficient * int(value.item()) if value is not None and is_integer else None

    def counters(self) -> Iterator[Carried]:
        """States that only count."""
        yield from (state for state in self.carried if self.step(state) is not None)


def _is_true(value: Value) -> bool:
    value = plain(value)
    return value.tensor is not None and value.array.size == 1 and bool(value.array.item())

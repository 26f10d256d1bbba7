"""The body of a Loop or Scan: carried values, scanned inputs and outputs, and induction variables."""

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
from atcpy.ops.core.plan_loop import is_true
from atcpy.ops.core.shape_values import UNNAMED, add, sub

MAX_DEPTH: Final = 20  # nodes from an index to its induction variable


@dataclass(frozen=True, slots=True)
class Carried:
    """A carried value: before the loop, before and after an iteration, and after the loop."""

    start: Value
    old: Value
    new: Value
    end: Value


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tensor of which each iteration reads one element along an axis."""

    tensor: Value
    axis: int
    is_reversed: bool


@dataclass(frozen=True, slots=True)
class Stack:
    """The `tensor` that stacks an `item` of each iteration along an axis, in reverse order if `is_reversed`."""

    item: Value
    tensor: Value
    axis: int
    is_reversed: bool


@dataclass(frozen=True, slots=True)
class Induction:
    """An index that is `first` in iteration 0 and grows by `step` in each."""

    first: Dim
    step: int


def plain(value: Value) -> Value:
    """Return a value without the Identity nodes behind it."""
    while value.producer.op_type == "Identity" and not value.producer.domain:
        value = value.producer.operand(0)
    return value


class LoopBody:
    """A Loop or Scan. `known` are the numbers that are known in the graph around it."""

    def __init__(self, node: Node, known: KnownValues) -> None:
        self.node, self._known = node, known
        self.body = next(node.subgraphs)
        is_loop = node.op_type == "Loop"
        data = [item.output for item in formal_inputs(self.body)]
        results = [plain(value) for value in self.body.outputs]
        own = 2 if is_loop else 0  # inputs of a Loop's body: iteration and condition
        scanned = 0 if is_loop else node.int_attr("num_scan_inputs", 0)
        states = len(data) - scanned
        self.iteration = data[0] if is_loop else None
        self.condition_out = results[0] if is_loop else None
        self.condition_in = data[1] if is_loop else None
        ends = results[1:] if is_loop else results
        starts = [value for value in node.inputs[own:states] if value is not None]
        self.carried = [Carried(*each) for each in zip(starts, data[own:states], ends, node.outputs, strict=False)]
        count = len(self.carried)
        axes = node.ints_attr("scan_input_axes", (0,) * scanned)
        reversals = node.ints_attr("scan_input_directions", (0,) * scanned)
        self._scanned = {
            value: Sequence(
                node.operand(states + index), axes[index] % (len(value.desc.shape or ()) + 1), bool(reversals[index])
            )
            for index, value in enumerate(data[states:])
        }
        items, stacks = ends[count:], node.outputs[count:]
        axes = node.ints_attr("scan_output_axes", (0,) * len(items))
        reversals = node.ints_attr("scan_output_directions", (0,) * len(items))
        self.stacks = [Stack(*each) for each in zip(items, stacks, axes, map(bool, reversals), strict=False)]

    @property
    def limit(self) -> Value | None:
        """Return the maximum number of iterations of a Loop; None if it has none, and for a Scan."""
        return self.node.input(0) if self.node.op_type == "Loop" else None

    @cached_property
    def count(self) -> Dim | None:
        """Return the number of iterations, if it is a number or a named size."""
        if self.limit is None:
            lengths = (self._length(sequence) for sequence in self._scanned.values())
            return next((length for length in lengths if length not in (None, UNNAMED)), None)
        elements = self._known(self.limit)
        return elements[0] if elements is not None and len(elements) == 1 and elements[0] != UNNAMED else None

    @property
    def only_counts(self) -> bool:
        """Return whether nothing but the number of iterations ends the loop."""
        if self.node.op_type == "Scan":
            return True
        condition = self.node.input(1)
        is_entered = condition is None or is_true(plain(condition))
        goes_on = self.condition_out is self.condition_in or self._is_true_inside()
        return self.limit is not None and is_entered and goes_on

    def _is_true_inside(self) -> bool:
        condition = None if self.condition_out is None else self.constant(self.condition_out)
        return condition is not None and condition.size == 1 and bool(condition.item())

    def outside(self, value: Value) -> Value | None:
        """Return what a value of the body is in the graph around it; None if an iteration may change it."""
        value = plain(value)
        data = value.producer
        if data.op_type != "Data":
            return None
        if "captured" in data.attrs:
            return captured_value(self.node, data)
        return next((each.start for each in self.carried if each.old is value is each.new), None)

    def constant(self, value: Value) -> Array | None:
        """Return the elements of a value of the body, if they are known and no iteration changes them."""
        if value.tensor is not None:
            return value.array
        outer = self.outside(value)
        return None if outer is None or outer.tensor is None else outer.array

    # --- sequences -------------------------------------------------------------------------------

    def sequence(self, value: Value) -> Sequence | None:
        """Return the sequence of which a value of the body is the element of the iteration, forward or backward."""
        if value in self._scanned:
            return self._scanned[value]
        node = value.producer
        if node.op_type != "Gather" or node.domain or node.operand(1).desc.shape != ():
            return None
        tensor, index = self.outside(node.operand(0)), self.induction(node.operand(1))
        if tensor is None or index is None or tensor.desc.shape is None:
            return None
        axis = node.int_attr("axis", 0) % max(len(tensor.desc.shape), 1)
        if index == Induction(0, 1):
            return Sequence(tensor, axis, is_reversed=False)
        is_back = self.count is not None and index == Induction(sub(self.count, 1), -1)
        return Sequence(tensor, axis, is_reversed=True) if is_back else None

    def is_whole(self, sequence: Sequence) -> bool:
        """Return whether the iterations read all of a sequence."""
        return self.limit is None or self._length(sequence) == self.count != UNNAMED

    def _length(self, sequence: Sequence) -> Dim | None:
        shape = sequence.tensor.desc.shape
        return None if shape is None else shape[sequence.axis]

    def induction(self, value: Value, depth: int = 0) -> Induction | None:
        """Return how an index of the body follows from the iteration; None if it does in another way."""
        value, node = plain(value), value.producer
        if value is self.iteration:
            return Induction(0, 1)
        number = self.constant(value)
        if number is not None:
            return Induction(int(number.item()), 0) if number.size == 1 and number.dtype.kind in "iu" else None
        if node.op_type == "Data":
            return self._counter(value)
        if depth > MAX_DEPTH or node.domain:
            return None
        if node.op_type == "Cast" or has_trait(node, Trait.VIEW):
            return self.induction(node.operand(0), depth + 1)
        coefficients = coefficients_of(node)
        if not coefficients:
            return None
        total = Induction(0, 0)
        for coefficient, operand in zip(coefficients, node.operands, strict=True):
            term = self.induction(operand, depth + 1)
            if term is None:
                return None
            first = (add if coefficient > 0 else sub)(total.first, term.first)
            total = Induction(first, total.step + coefficient * term.step)
        return total

    def _counter(self, value: Value) -> Induction | None:
        """Return the induction of an input of the body: it is constant there, or carried and grows by a constant."""
        outer = self.outside(value)
        if outer is not None:
            first = self._known(outer)
            return Induction(first[0], 0) if first is not None and len(first) == 1 else None
        state = next((each for each in self.carried if each.old is value), None)
        first = None if state is None else self._known(state.start)
        step = None if state is None else self.step(state)
        return None if step is None or first is None or len(first) != 1 else Induction(first[0], step)

    def step(self, state: Carried) -> int | None:
        """Return the constant that an iteration adds to a carried value; None if it does something else."""
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
        """Yield the carried values that grow by a constant."""
        yield from (state for state in self.carried if self.step(state) is not None)

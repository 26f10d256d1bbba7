"""A Loop as a plan runs it: it carries values of one type each, collects none, and counts.

`passes/split/plan_control_flow.py` brings Loop and Scan into this form. The body does not read the condition, which is
true whenever it runs; the condition before the first iteration is an operand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from atcpy.ir import Graph, Node, Value
from atcpy.ir.closure import formal_inputs

NOT_COUNTED = -1
NO_COUNT = 2**63 - 1  # what exporters write for a Loop without a trip count
MAX_KNOWN_COUNT = 2**31 - 1  # a larger count, which no size can be, stays an operand


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that iterations carry on: the index of the operand that it is before the first one, the input of the body
    that it is in each, the index of the body's output that replaces it, and the output of the node that it is in the
    end. The condition is no input and no output. `is_kept`: the body returns it as it is.
    """

    operand: int
    data: Value | None
    result: int
    output: Value | None
    is_kept: bool


@dataclass(frozen=True)
class PlanLoop:
    """The operands and values of a Loop by their roles."""

    node: Node

    @cached_property
    def body(self) -> Graph:
        """What runs in each iteration."""
        return next(self.node.subgraphs)

    @property
    def counter(self) -> Value:
        """The number of the iteration, as the body reads it."""
        return formal_inputs(self.body)[0].output

    @cached_property
    def known_count(self) -> int:
        """The trip count, if that is a number or a size; NOT_COUNTED if only a run tells it, or there is none."""
        value = self.node.input(0)
        if value is None:
            return NOT_COUNTED
        if value.producer.op_type == "ShapeValue":
            elements = value.producer.attrs["elements"]
            assert isinstance(elements, tuple)
            [count] = elements
            assert isinstance(count, int)
            return count
        if value.tensor is None:
            return NOT_COUNTED
        count = max(int(value.array.item()), 0)
        return count if count < MAX_KNOWN_COUNT else NOT_COUNTED

    @property
    def trip_count(self) -> Value | None:
        """The operand that says at run time how many iterations there are at most."""
        value = self.node.input(0)
        return value if value is not None and self.known_count is NOT_COUNTED else None

    @cached_property
    def has_condition(self) -> bool:
        """Whether the condition may be false, before the first iteration or after one."""
        return not all(map(is_true, (self.node.operand(1), self.body.outputs[0])))

    @cached_property
    def carried(self) -> list[Carried]:
        """The values that iterations carry on, the condition first if it may be false."""
        results = self.body.outputs
        condition = Carried(1, None, 0, None, is_true(results[0]))
        values = [
            Carried(index, data.output, index - 1, self.node.outputs[index - 2], results[index - 1] is data.output)
            for index, data in enumerate(formal_inputs(self.body)[2:], 2)
        ]
        return [condition, *values] if self.has_condition else values

    @property
    def kept_results(self) -> frozenset[int]:
        """The outputs of the body that need no memory: nothing reads them, or they are where they have to be."""
        kept = frozenset(carried.result for carried in self.carried if carried.is_kept)
        return kept if self.has_condition else kept | {0}


def is_true(value: Value) -> bool:
    """Return whether a value is the constant True."""
    return value.tensor is not None and value.array.size == 1 and bool(value.array.item())


def flattened_graphs(graph: Graph) -> list[Graph]:
    """Return a graph and the bodies of If and Loop in it, which its plan runs, those further out first."""
    graphs = [graph]
    for outer in graphs:  # grows
        graphs.extend(body for node in outer.nodes_of("If", "Loop") for body in node.subgraphs)
    return graphs

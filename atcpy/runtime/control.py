"""Control flow: If, Loop, Scan and SequenceMap over bodies that run as graphs of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Node, TensorDesc
from atcpy.ir.closure import formal_inputs, own_operands
from atcpy.ir.tensor import Array
from atcpy.ops.core.plan_loop import NO_COUNT
from atcpy.runtime.host import RuntimeValue
from atcpy.runtime.iterations import BodyPlan, Iterations, can_iterate
from atcpy.runtime.profile import Profile

# A Loop without a trip count, which may never end, is stopped after so many iterations. What bounds one with a trip
# count is the deadline.
MAX_ITERATIONS = 1_000_000
# How many iterations run in C before the condition is looked at from here: results have memory for as many.
FIRST_CHUNK = 64
MAX_CHUNK = 1 << 14
MAX_COUNTED = 1 << 20  # of a Loop that only counts, whose iterations all take place


class Body(Protocol):
    """A graph that runs for whatever inputs it gets."""

    def run(self, values: Sequence[RuntimeValue], *, profile: Profile | None = None) -> list[RuntimeValue]:
        """The outputs for inputs in order."""

    def body_plan(self, values: Sequence[RuntimeValue]) -> BodyPlan | None:
        """The one plan that it is for these inputs, if it is."""


@dataclass(frozen=True, slots=True)
class _Closed:
    """A body with the values that it captures, which are its inputs after those that the op feeds."""

    body: Body
    captured: Sequence[RuntimeValue]
    profile: Profile | None

    def run(self, values: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        return self.body.run([*values, *self.captured], profile=self.profile)

    def iterations(
        self,
        values: Sequence[RuntimeValue],
        carried: Mapping[int, int],
        stepped: Collection[int],
        condition: tuple[int, int] | None = None,
    ) -> Iterations | None:
        """Iterations in C that begin with these inputs, if the body can run so; `condition` is its input and output."""
        if self.profile is not None:
            return None  # its tasks are timed one by one
        inputs = [*values, *self.captured]
        plan = self.body.body_plan(inputs)
        if plan is None or not can_iterate(plan, inputs, carried, None if condition is None else condition[0]):
            return None
        return Iterations(plan, inputs, carried, stepped, None if condition is None else condition[1])


class ControlNode:
    """A node with bodies, ready to run."""

    def __init__(self, node: Node, bodies: Mapping[Graph, Body]) -> None:
        """`bodies` has at least those of the node."""
        self._node = node
        self._own_count = own_operands(node)
        first = 0 if node.op_type == "If" else self._own_count
        self._bodies = {
            name: (bodies[graph], [data.int_attr("index", 0) - first for data in graph.inputs if _is_captured(data)])
            for name, graph in node.attrs.items()
            if isinstance(graph, Graph)
        }

    def run(self, operands: Sequence[RuntimeValue], profile: Profile | None = None) -> Sequence[RuntimeValue]:
        """The outputs of the node; `operands` are the node's, what its bodies capture behind its own.
        Raises ModelInvalid (D0001) for values that break the op's rule.
        """
        node, first = self._node, self._own_count
        own, captured = list(operands[:first]), operands[first:]
        own += [None] * (first - len(own))
        if node.op_type == "If":
            body, indices = self._bodies["then_branch" if _truth(node, own[0]) else "else_branch"]
            return body.run([captured[index] for index in indices], profile=profile)
        [(body, indices)] = self._bodies.values()
        closed = _Closed(body, [captured[index] for index in indices], profile)
        match node.op_type:
            case "Loop":
                return _run_loop(node, own, closed)
            case "Scan":
                return _run_scan(node, own, closed)
            case "SequenceMap":
                return _run_sequence_map(node, own, closed)
        raise ModelInvalid("D0001", f"{node.op_type} has bodies that nothing runs", where=node)


def _is_captured(data: Node) -> bool:
    return "captured" in data.attrs


def _run_loop(node: Node, own: Sequence[RuntimeValue], body: _Closed) -> Sequence[RuntimeValue]:
    """`for (i = 0; i < M and condition; i++)`: values carried from one iteration to the next, others collected."""
    graph = next(node.subgraphs)
    trip_count, condition, *carried = own
    limit = None if trip_count is None else _limit(trip_count)
    going = condition is None or _truth(node, condition)
    first = 1 + len(carried)
    collected: list[list[Array]] = [[] for _ in graph.outputs[first:]]
    shape, condition_shape = (_shape_inside(data) for data in formal_inputs(graph)[:2])
    yes = np.ones(condition_shape, np.bool_)
    in_c: Iterations | None = None
    iteration, chunk = 0, FIRST_CHUNK
    while going and (limit is None or iteration < limit):
        if limit is None and iteration == MAX_ITERATIONS:
            what = f"its condition still holds after {MAX_ITERATIONS} iterations: it does not seem to end"
            raise ModelInvalid("D0001", what, where=node, hint="give the Loop a trip count")
        number = np.full(shape, iteration, np.int64)
        if iteration <= 1:  # the first iteration may change what it carries to another type or shape, which then stays
            outputs = {2 + index: 1 + index for index in range(len(carried))}
            in_c = body.iterations([number, yes, *carried], outputs, [0], condition=(1, 0))
        if in_c is None:
            results = body.run([number, yes, *carried])
            going = _truth(node, results[0])
            carried = results[1:first]
            _collect(collected, [np.asarray(result)[np.newaxis] for result in results[first:]])
            iteration += 1
            continue
        left = (MAX_ITERATIONS if limit is None else limit) - iteration
        count = min(left, chunk if limit is None or in_c.has_condition else MAX_COUNTED)
        numbers = np.arange(iteration, iteration + count, dtype=np.int64)
        done, results_of = in_c.run(count, {0: numbers})
        going = not in_c.is_done
        _collect(collected, [results_of[number] for number in range(first, len(graph.outputs))])
        iteration, chunk = iteration + done, min(2 * chunk, MAX_CHUNK)
    if in_c is not None and iteration:
        carried = in_c.carried()
    stacked = [
        _stack(node, parts, 0, value.desc) for parts, value in zip(collected, graph.outputs[first:], strict=True)
    ]
    return [*carried, *stacked][: len(node.outputs)]


def _shape_inside(data: Node) -> tuple[int, ...]:
    """The shape in which a body takes the iteration number and the condition: a scalar or one element."""
    return (1,) if data.output.desc.shape == (1,) else ()


def _collect(collected: list[list[Array]], parts: Sequence[Array]) -> None:
    """Add results of one or several iterations, one after the other along axis 0."""
    for all_so_far, part in zip(collected, parts, strict=True):
        all_so_far.append(part)


def _limit(trip_count: RuntimeValue) -> int | None:
    """The number of iterations; None for the number that exporters write for a loop without a trip count."""
    limit = int(np.asarray(trip_count).reshape(-1)[0])
    return None if limit == NO_COUNT else limit


def _run_scan(node: Node, own: Sequence[RuntimeValue], body: _Closed) -> Sequence[RuntimeValue]:
    """Runs the body for each slice of the scanned inputs, passes the states on and stacks the other outputs."""
    scanned = node.int_attr("num_scan_inputs", 0)
    states, inputs = list(own[: len(own) - scanned]), [np.asarray(value) for value in own[len(own) - scanned :]]
    graph = next(node.subgraphs)
    stacked_count = len(graph.outputs) - len(states)
    in_axes = node.ints_attr("scan_input_axes", (0,) * scanned)
    backwards = node.ints_attr("scan_input_directions", (0,) * scanned)
    out_axes = node.ints_attr("scan_output_axes", (0,) * stacked_count)
    out_backwards = node.ints_attr("scan_output_directions", (0,) * stacked_count)
    lengths = {array.shape[axis] for array, axis in zip(inputs, in_axes, strict=True)}
    if len(lengths) != 1:
        raise ModelInvalid("D0001", f"its scanned inputs have lengths {sorted(lengths)}", where=node)
    (length,) = lengths
    slices = [
        np.ascontiguousarray(np.moveaxis(array, axis, 0)[:: -1 if back else 1])
        for array, axis, back in zip(inputs, in_axes, backwards, strict=True)
    ]
    first = len(states)
    collected: list[list[Array]] = [[] for _ in range(stacked_count)]
    in_c: Iterations | None = None
    iteration = 0
    while iteration < length:
        current = [array[iteration] for array in slices]
        if iteration <= 1:
            kept = {index: index for index in range(first)}
            in_c = body.iterations([*states, *current], kept, range(first, first + scanned))
        if in_c is not None:
            steps = {first + index: array[iteration:] for index, array in enumerate(slices)}
            _, results_of = in_c.run(length - iteration, steps)
            _collect(collected, [results_of[number] for number in range(first, first + stacked_count)])
            states = in_c.carried()
            break
        results = body.run([*states, *current])
        if any(isinstance(a, np.ndarray) and a.shape != b.shape for a, b in zip(states, results, strict=False)):
            raise ModelInvalid("D0001", f"iteration {iteration} changes the shape of a state", where=node)
        states = list(results[:first])
        _collect(collected, [np.asarray(result)[np.newaxis] for result in results[first:]])
        iteration += 1
    stacked = [
        _stack(node, [part[::-1] for part in reversed(parts)] if back else parts, axis, value.desc)
        for parts, axis, back, value in zip(collected, out_axes, out_backwards, graph.outputs[first:], strict=True)
    ]
    return [*states, *stacked][: len(node.outputs)]


def _run_sequence_map(node: Node, own: Sequence[RuntimeValue], body: _Closed) -> Sequence[RuntimeValue]:
    """Runs the body for each element of the first sequence, with the same element of other sequences."""
    first = own[0]
    if not isinstance(first, list) or any(isinstance(other, list) and len(other) != len(first) for other in own):
        raise ModelInvalid("D0001", "its sequences differ in length", where=node)
    results = [
        body.run([value[index] if isinstance(value, list) else value for value in own]) for index in range(len(first))
    ]
    return [[outputs[index] for outputs in results] for index in range(len(node.outputs))]


def _stack(node: Node, parts: list[Array], axis: int, desc: TensorDesc) -> Array:
    """Join results of iterations, which lie along axis 0 of each part, along an axis."""
    if not parts:
        shape = [dim if isinstance(dim, int) else 0 for dim in desc.shape or ()]
        shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
        return np.zeros(shape, desc.dtype.numpy if desc.dtype is not DType.UNDEFINED else np.float32)
    try:
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
    except ValueError as error:
        shapes = " and ".join(str(list(shape)) for shape in sorted({part.shape[1:] for part in parts})[:2])
        raise ModelInvalid("D0001", f"what its iterations collect has the shapes {shapes}", where=node) from error
    return np.ascontiguousarray(np.moveaxis(joined, 0, axis))


def _truth(node: Node, condition: RuntimeValue) -> bool:
    array = np.asarray(condition)
    if array.size != 1:
        raise ModelInvalid(
            "D0001", f"its condition has the shape {list(array.shape)}, one element is needed", where=node
        )
    return bool(array.reshape(-1)[0])

"""Control flow: If, Loop, Scan and SequenceMap over bodies that run as graphs of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Node, TensorDesc
from atcpy.ir.closure import formal_inputs, own_operands
from atcpy.ir.tensor import Array
from atcpy.runtime.host import RuntimeValue
from atcpy.runtime.iterations import BodyPlan, Iterations, can_iterate

# A Loop without a trip count, which may never end, is stopped after so many iterations.
MAX_ITERATIONS = 1_000_000


class Body(Protocol):
    """A graph that runs for whatever inputs it gets."""

    def run(self, values: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """The outputs for inputs in order."""

    def body_plan(self, values: Sequence[RuntimeValue]) -> BodyPlan | None:
        """The one plan that it is for these inputs, if it is."""


@dataclass(frozen=True, slots=True)
class _Closed:
    """A body with the values that it captures, which are its inputs after those that the op feeds."""

    body: Body
    captured: Sequence[RuntimeValue]

    def run(self, values: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        return self.body.run([*values, *self.captured])

    def iterations(
        self, values: Sequence[RuntimeValue], carried: Mapping[int, int], condition: int | None = None
    ) -> Iterations | None:
        """Iterations in C that begin with these inputs, if the body can run so."""
        inputs = [*values, *self.captured]
        plan = self.body.body_plan(inputs)
        if plan is None or not can_iterate(plan, inputs, carried, condition):
            return None
        return Iterations(plan, inputs, carried)


def run_bodies(node: Node, operands: Sequence[RuntimeValue], bodies: Mapping[Graph, Body]) -> Sequence[RuntimeValue]:
    """The outputs of a node with bodies; `operands` are the node's, what its bodies capture behind its own.
    Raises ModelInvalid (D0001) for values that break the op's rule.
    """
    first = own_operands(node)
    own, captured = list(operands[:first]), list(operands[first:])
    own += [None] * (first - len(own))
    if node.op_type == "If":
        return _run_if(node, own[0], captured, bodies)
    ((graph, body),) = bodies.items()
    closed = _Closed(body, _captured_by(graph, captured, first))
    match node.op_type:
        case "Loop":
            return _run_loop(node, own, graph, closed)
        case "Scan":
            return _run_scan(node, own, closed)
        case "SequenceMap":
            return _run_sequence_map(node, own, closed)
    raise ModelInvalid("D0001", f"{node.op_type} has bodies that nothing runs", where=node)


def _captured_by(body: Graph, captured: Sequence[RuntimeValue], first: int) -> list[RuntimeValue]:
    return [captured[data.int_attr("index", 0) - first] for data in body.inputs if "captured" in data.attrs]


def _run_if(
    node: Node, condition: RuntimeValue, captured: Sequence[RuntimeValue], bodies: Mapping[Graph, Body]
) -> Sequence[RuntimeValue]:
    body = node.attrs["then_branch" if _truth(node, condition) else "else_branch"]
    assert isinstance(body, Graph)
    return bodies[body].run(_captured_by(body, captured, 0))


def _run_loop(node: Node, own: Sequence[RuntimeValue], graph: Graph, body: _Closed) -> Sequence[RuntimeValue]:
    """`for (i = 0; i < M and condition; i++)`: values carried from one iteration to the next, others collected."""
    trip_count, condition, *carried = own
    limit = None if trip_count is None else _limit(trip_count)
    going = condition is None or _truth(node, condition)
    collected: list[list[Array]] = [[] for _ in graph.outputs[1 + len(carried) :]]
    shape, condition_shape = (_shape_inside(data) for data in formal_inputs(graph)[:2])
    number, yes = np.zeros(shape, np.int64), np.ones(condition_shape, np.bool_)
    in_c: Iterations | None = None
    iteration = 0
    while going and (limit is None or iteration < limit):
        if iteration == MAX_ITERATIONS:
            what = f"its condition still holds after {MAX_ITERATIONS} iterations: it does not seem to end"
            raise ModelInvalid("D0001", what, where=node, hint="give the Loop a trip count")
        number[...] = iteration
        if iteration == 1:  # the first iteration has given the carried values their types and shapes
            outputs = {2 + index: 1 + index for index in range(len(carried))}
            in_c = body.iterations([number, yes, *carried], outputs, condition=1)
        results = body.run([number.copy(), yes, *carried]) if in_c is None else in_c.run()
        going = _truth(node, results[0])
        carried = results[1 : 1 + len(carried)]
        _collect(collected, results[1 + len(carried) :], in_buffers=in_c is not None)
        iteration += 1
    if in_c is not None:
        carried = [value.copy() for value in carried]
    stacked = [
        _stack(node, parts, 0, value.desc)
        for parts, value in zip(collected, graph.outputs[1 + len(carried) :], strict=True)
    ]
    return [*carried, *stacked][: len(node.outputs)]


def _shape_inside(data: Node) -> tuple[int, ...]:
    """The shape in which a body takes the iteration number and the condition: a scalar or one element."""
    return (1,) if data.output.desc.shape == (1,) else ()


def _collect(collected: list[list[Array]], parts: Sequence[Array], *, in_buffers: bool) -> None:
    for all_so_far, part in zip(collected, parts, strict=True):
        all_so_far.append(part.copy() if in_buffers else part)


def _limit(trip_count: RuntimeValue) -> int | None:
    """The number of iterations; None for the large numbers that exporters write for a loop without a trip count."""
    limit = int(np.asarray(trip_count).reshape(-1)[0])
    return None if limit >= np.iinfo(np.int32).max else limit


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
        np.moveaxis(array, axis, 0)[:: -1 if back else 1]
        for array, axis, back in zip(inputs, in_axes, backwards, strict=True)
    ]
    collected: list[list[Array]] = [[] for _ in range(stacked_count)]
    scanning = [np.empty(array.shape[1:], array.dtype) for array in slices]
    in_c: Iterations | None = None
    for iteration in range(length):
        for here, array in zip(scanning, slices, strict=True):
            here[...] = array[iteration]
        if iteration == 1:
            in_c = body.iterations([*states, *scanning], {index: index for index in range(len(states))})
        results = body.run([*states, *(here.copy() for here in scanning)]) if in_c is None else in_c.run()
        if any(isinstance(a, np.ndarray) and a.shape != b.shape for a, b in zip(states, results, strict=False)):
            raise ModelInvalid("D0001", f"iteration {iteration} changes the shape of a state", where=node)
        states = list(results[: len(states)])
        _collect(collected, results[len(states) :], in_buffers=in_c is not None)
    if in_c is not None:
        states = [state.copy() for state in states]
    stacked = [
        _stack(node, parts[::-1] if back else parts, axis, value.desc)
        for parts, axis, back, value in zip(
            collected, out_axes, out_backwards, graph.outputs[len(states) :], strict=True
        )
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
    if not parts:
        shape = [dim if isinstance(dim, int) else 0 for dim in desc.shape or ()]
        shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
        return np.zeros(shape, desc.dtype.numpy if desc.dtype is not DType.UNDEFINED else np.float32)
    try:
        return np.stack(parts, axis)
    except ValueError as error:
        shapes = " and ".join(str(list(shape)) for shape in sorted({part.shape for part in parts})[:2])
        raise ModelInvalid("D0001", f"what its iterations collect has the shapes {shapes}", where=node) from error


def _truth(node: Node, condition: RuntimeValue) -> bool:
    array = np.asarray(condition)
    if array.size != 1:
        raise ModelInvalid(
            "D0001", f"its condition has the shape {list(array.shape)}, one element is needed", where=node
        )
    return bool(array.reshape(-1)[0])

"""Sink mode: many runs of a model in one call, each of which may read outputs of the one before.

    feeds of the first run → plan → plan → … → plan → outputs of the last run
                               └─ state ─┘

The runs are iterations in C where one plan serves them (`iterations.py`). Where several do, or nodes run one by one
between plans, each iteration is a run as any other, and its states are handed on without a copy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.errors import ResourceLimit, UsageError, Where
from atcpy.ir.dtype import DType
from atcpy.ir.shape import format_shape
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.options import default_memory_bytes
from atcpy.runtime.iterations import BodyOutput, BodyPlan, Iterations, Origin, can_iterate
from atcpy.runtime.memory import as_array, readable
from atcpy.runtime.ports import find_port
from atcpy.sizes import MemoryLimit

if TYPE_CHECKING:
    from atcpy.runtime.plan import ExecutionPlan
    from atcpy.runtime.session import NodeArg

MAX_ITERATIONS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Sink:
    """What many runs in one call are to do. `carried` maps an input to the output that it gets from the iteration
    before; of the outputs `collected`, the results of all iterations are returned, one after the other.
    """

    inputs: Sequence[NodeArg]
    outputs: Sequence[NodeArg]
    count: int
    carried: Mapping[int, int]
    collected: Collection[int]

    def split(self, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], dict[int, Array]]:
        """The feeds of the first iteration, and by the index of an input its values for all of them, where it was fed
        as an array with one axis more than it has, in front. Raises UsageError for one of another length.
        """
        first, steps = dict(feeds), {}
        for index, port in enumerate(self.inputs):
            if port.name not in feeds or index in self.carried or port.dtype is DType.UNDEFINED:
                continue
            if port.shape is None:
                what = f'run_iterations: input "{port.name}" has no known rank: it may be one value, or one of each run'
                hint = "--input_shape, when the model is converted"
                raise UsageError("E13025", what, where=Where(value=port.name), hint=hint)
            array = as_array(feeds[port.name])
            if array.ndim != len(port.shape) + 1:
                continue
            if len(array) != self.count:
                what = f'run_iterations: input "{port.name}" has values for {len(array)} iterations of {self.count}'
                hint = f"{format_shape([self.count, *port.shape])}, or {format_shape(port.shape)} for all of them"
                raise UsageError("E10405", what, where=Where(value=port.name), hint=hint)
            if port.dtype is DType.STRING:
                array = array.astype(np.object_)
            first[port.name] = array[0, ...]
            steps[index] = array
        return first, steps

    def run(
        self,
        values: Sequence[Any],
        steps: Mapping[int, Array],
        find_plan: Callable[[Sequence[Any]], ExecutionPlan | None],
        compute: Callable[[Sequence[Any]], list[Any]],
    ) -> list[Any]:
        """All outputs: those that are collected, of all iterations, others of the last one. `values` are the inputs of
        the first; `find_plan` gives the plan that is all of a run, if there is one, and `compute` is a run.

        Raises what `compute` does, and UsageError (E13031) for a state that does not keep its type and shape.
        """
        values, results = list(values), []
        parts: dict[int, list[Array]] = {number: [] for number in self.collected}
        done = 0
        while done < self.count:
            plan = find_plan(values)
            body = None if plan is None else _body(plan)
            if body is not None and can_iterate(body, values, self.carried, None):
                results = self._iterate(body, values, steps, done, parts)
                break
            _kernels.check_deadline()  # which small plans do not
            results = compute(values)
            done += 1
            self._check_states(values, results)
            for index, output in self.carried.items():
                values[index] = results[output]
            for number, kept in parts.items():
                kept.append(self._row(number, results[number], kept))
            for index, array in steps.items() if done < self.count else ():
                values[index] = array[done, ...]
        for number, kept in parts.items():
            results[number] = kept[0] if len(kept) == 1 else np.concatenate(kept)
        return results

    def _iterate(
        self,
        body: BodyPlan,
        values: Sequence[Array],
        steps: Mapping[int, Array],
        done: int,
        parts: Mapping[int, list[Array]],
    ) -> list[Any]:
        """Run all iterations from number `done` on in C."""
        left = self.count - done
        for number in self.collected:
            self._check_memory(left * body.plan.outputs[number].nbytes, number)
        ports = body.plan.inputs
        rest = {index: readable(array[done:], ports[index].dtype) for index, array in steps.items()}
        try:
            iterations = Iterations(body, values, self.carried, steps, None, self.collected)
            _, collected = iterations.run(left, rest)
        except MemoryError as error:
            raise ResourceLimit("R0001", f"no memory for {left} iterations: {error}") from error
        for number, kept in parts.items():
            kept.append(collected[number])
        found = {**iterations.last(), **dict(zip(self.carried.values(), iterations.carried(), strict=True))}
        return [found.get(number) for number in range(len(self.outputs))]

    def _check_states(self, values: Sequence[Any], results: Sequence[Any]) -> None:
        for index, output in self.carried.items():
            old, new = values[index], results[output]
            if new.shape != old.shape:
                what = f"an iteration makes {format_shape(new.shape)} of {format_shape(old.shape)}"
                raise _no_state(self.inputs[index], self.outputs[output], what)

    def _row(self, number: int, result: Any, kept: Sequence[Array]) -> Array:
        """A result as a row of all. Raises UsageError (E13031) if it has not the shape of those before."""
        array = np.asarray(result)
        if not kept:
            self._check_memory(self.count * array.nbytes, number)
        elif kept[0].shape[1:] != array.shape:
            what = f"{format_shape(array.shape)} in iteration {len(kept)}, {format_shape(kept[0].shape[1:])} before"
            raise _not_collected(self.outputs[number], what)
        return array[np.newaxis]

    def _check_memory(self, nbytes: int, number: int) -> None:
        name = self.outputs[number].name
        what = f"{name} of {self.count} iterations"
        MemoryLimit(default_memory_bytes()).check(nbytes, what, where=Where(value=name))


def read_sink(
    inputs: Sequence[NodeArg], outputs: Sequence[NodeArg], n: int, state: Mapping[str, str], collect: Collection[str]
) -> Sink:
    """Check what many runs are to do. Raises UsageError for a number of them that cannot be, for names that are none,
    and for states whose output is no new value of the input.
    """
    try:
        count = operator.index(n)
    except TypeError:
        raise UsageError("E10013", f"run_iterations: {n!r} is no number of iterations") from None
    if not 1 <= count <= MAX_ITERATIONS:
        raise UsageError("E10013", f"run_iterations: {count} iterations are outside 1..{MAX_ITERATIONS}")
    carried: dict[int, int] = {}
    for new, old in state.items():
        output = find_port(outputs, new, "run_iterations", "output")
        index = find_port(inputs, old, "run_iterations", "input")
        if index in carried:
            what = f'run_iterations: "{outputs[carried[index]].name}" and "{new}" are states of one input, "{old}"'
            raise UsageError("E13025", what, where=Where(value=old))
        _check_state(inputs[index], outputs[output])
        carried[index] = output
    found = (find_port(outputs, name, "run_iterations", "output") for name in collect)
    collected = tuple(dict.fromkeys(found))
    for number in collected:
        if outputs[number].dtype is DType.UNDEFINED:
            raise _not_collected(outputs[number], "it is no tensor")
        if number in carried.values():
            raise _not_collected(outputs[number], "it is a state, of which the last value is returned")
    return Sink(inputs, outputs, count, carried, collected)


def _check_state(old: NodeArg, new: NodeArg) -> None:
    if old.dtype is DType.UNDEFINED or old.dtype is not new.dtype:
        raise _no_state(old, new, f"{new.type} and {old.type}")
    if old.shape is None or new.shape is None:
        return
    if len(old.shape) != len(new.shape) or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(old.shape, new.shape, strict=True)
    ):
        raise _no_state(old, new, f"{format_shape(new.shape)} and {format_shape(old.shape)}")


def _no_state(old: NodeArg, new: NodeArg, why: str) -> UsageError:
    what = f'run_iterations: output "{new.name}" is no next value of input "{old.name}": {why}'
    hint = "a state keeps its type and shape; caches that grow: bind_state"
    return UsageError("E13031", what, where=Where(value=new.name), hint=hint)


def _not_collected(port: NodeArg, why: str) -> UsageError:
    what = f'run_iterations: output "{port.name}" cannot be collected: {why}'
    return UsageError("E13031", what, where=Where(value=port.name))


def _body(plan: ExecutionPlan) -> BodyPlan:
    """A plan that is all of a run, as what iterations repeat."""
    outputs = tuple(BodyOutput(Origin.PLAN_OUTPUT, index) for index in range(len(plan.outputs)))
    return BodyPlan(plan, tuple(range(len(plan.inputs))), outputs)

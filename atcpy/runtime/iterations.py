"""Iterations of a plan that keeps its shapes, of a Loop, of a Scan or of a model: no Python between them, unless the
plan has tasks of the host.

What an iteration carries on is written by one and read by the next: the memory of the two is exchanged. What differs
in each, and what is collected, lies one after the other in memory that the iterations go through.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from atcpy.ir.tensor import Array
from atcpy.runtime.memory import readable
from atcpy.runtime.plan import DirectRun, ExecutionPlan, Feed, PlanPort, Ports


class Origin(Enum):
    """Where an output of a body comes from."""

    PLAN_OUTPUT = "plan output"  # computed by the plan
    BODY_INPUT = "body input"  # handed through unchanged


@dataclass(frozen=True, slots=True)
class BodyOutput:
    """An output of a body: output `index` of its plan, or input `index` of the body."""

    origin: Origin
    index: int


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """A body that is one plan for the inputs that it got.

    inputs: for each input of the plan, its index among the body's inputs.
    outputs: for each output of the body, where it comes from.
    """

    plan: ExecutionPlan
    inputs: tuple[int, ...]
    outputs: tuple[BodyOutput, ...]

    def direct_run(self, ports: Sequence[PlanPort]) -> DirectRun | None:
        """The plan as all of a run with inputs of these types; None if an output is an input, or the same as another,
        as the outputs of a run are the caller's.
        """
        computed = [output.index for output in self.outputs if output.origin is Origin.PLAN_OUTPUT]
        if len(set(computed)) < len(self.outputs):
            return None
        feeds = tuple([Feed(port) for port in ports])
        return DirectRun(self.plan, Ports(feeds, self.inputs, tuple([(index, None) for index in computed])))


class Iterations:
    """Runs a body again and again. `values` are its inputs in the first iteration; `carried` maps an input to the
    output that it gets from the iteration before; `stepped` are inputs that differ in each iteration. The results of
    all iterations are kept of the outputs `collected`, or if that is None of all that are not carried; of others, those
    of the last one. Output `condition` ends the iterations where it is computed and false.
    """

    def __init__(
        self,
        body: BodyPlan,
        values: Sequence[Array],
        carried: Mapping[int, int],
        stepped: Collection[int],
        condition: int | None,
        collected: Collection[int] | None = None,
    ) -> None:
        self._plan = body.plan
        inputs = {index: port for port, index in enumerate(body.inputs)}
        outputs = {
            number: output.index for number, output in enumerate(body.outputs) if output.origin is Origin.PLAN_OUTPUT
        }
        if collected is None:
            collected = outputs.keys() - {*carried.values(), condition}
        self._inputs = [
            np.array(values[index], order="C") if index in carried else readable(values[index], port.dtype)
            for index, port in zip(body.inputs, body.plan.inputs, strict=True)
        ]
        self._outputs = [np.zeros(port.shape, port.dtype.numpy) for port in body.plan.outputs]
        self._carried = [(inputs.get(index), outputs[output]) for index, output in carried.items()]
        self._swaps = [(port, output) for port, output in self._carried if port is not None]
        self._stepped = {index: inputs[index] for index in stepped if index in inputs}
        self._condition = -1 if condition is None else outputs.get(condition, -1)
        self._collected = {number: port for number, port in outputs.items() if number in collected}
        others = {*collected, *carried.values()}
        self._last = {number: port for number, port in outputs.items() if number not in others}

    def run(self, count: int, steps: Mapping[int, Array]) -> tuple[int, dict[int, Array]]:
        """Run `count` iterations, or less if the condition ends them. `steps` has the stepped inputs of all of them.
        Returns how many there were, and the results of all of them for each output that is collected.
        """
        ports = self._plan.outputs
        collected = {
            number: np.zeros((count, *ports[port].shape), ports[port].dtype.numpy)
            for number, port in self._collected.items()
        }
        strides = [(port, steps[index]) for index, port in self._stepped.items()]
        strides += [(len(self._inputs) + port, collected[number]) for number, port in self._collected.items()]
        done = self._plan.iterate(self._inputs, self._outputs, count, self._swaps, strides, self._condition)
        return done, {number: array[:done] for number, array in collected.items()}

    @property
    def has_condition(self) -> bool:
        """Whether the condition may change."""
        return self._condition >= 0

    @property
    def is_done(self) -> bool:
        """Whether the condition has ended the iterations."""
        return self.has_condition and not self._outputs[self._condition].item()

    def carried(self) -> list[Array]:
        """What the next iteration would get, after one at least."""
        return [
            (self._outputs[output] if port is None else self._inputs[port]).copy() for port, output in self._carried
        ]

    def last(self) -> dict[int, Array]:
        """Of the outputs that are neither carried nor collected, the results of the last iteration."""
        return {number: self._outputs[port] for number, port in self._last.items()}


def can_iterate(body: BodyPlan, values: Sequence[Array], carried: Mapping[int, int], condition: int | None) -> bool:
    """Whether `Iterations` can run a body: its elements take whole bytes, it computes every output and none for two,
    and what is carried keeps its type and shape. Output 0 may be the input `condition` handed through: a condition of a
    Loop that stays what it is.
    """
    plan = body.plan
    if any(port.dtype.bits < 8 for port in (*plan.inputs, *plan.outputs)):
        return False
    passed = [index for index, output in enumerate(body.outputs) if output.origin is Origin.BODY_INPUT]
    if passed and (condition is None or passed != [0] or body.outputs[0].index != condition):
        return False
    computed = [output.index for output in body.outputs if output.origin is Origin.PLAN_OUTPUT]
    if len(set(computed)) < len(computed):
        return False
    for index, output in carried.items():
        port = plan.outputs[body.outputs[output].index]
        if (port.dtype.numpy, port.shape) != (values[index].dtype, values[index].shape):
            return False
    return True

"""Iterations of a Loop or Scan whose body is one plan in C that keeps its shapes: no Python between kernels.

What an iteration carries on is written by one run and read by the next. The body has two sets of buffers, which
successive iterations write in alternation, and the kernels are bound to each set once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from atcpy.ir import DType
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.runtime.memory import as_bytes, to_memory
from atcpy.runtime.plan import ExecutionPlan


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


class Iterations:
    """Runs a body again and again. `values` are its inputs in the first iteration; `carried` maps an input to the
    output of the iteration before that it gets. The arrays of other inputs may be changed in place between iterations.
    """

    def __init__(self, body: BodyPlan, values: Sequence[Array], carried: Mapping[int, int]) -> None:
        self._body = body
        self._values = values
        self._carried = {index: body.outputs[output].index for index, output in carried.items()}
        sizes = [(port.shape, port.dtype.numpy) for port in body.plan.outputs]
        self._buffers = [[np.empty(shape, dtype) for shape, dtype in sizes] for _ in range(2)]
        self._runs: list[_kernels.Run] = []
        self._iteration = 0

    def run(self) -> list[Array]:
        """Run one iteration; its outputs lie in memory that the iteration after the next writes again."""
        parity = self._iteration % 2
        # The first run reads `values`; the second and the third read the buffers, and are used in alternation.
        number = self._iteration if self._iteration < 3 else 2 - parity
        written = self._buffers[parity]
        if number == len(self._runs):
            self._runs.append(self._bind(written, self._buffers[1 - parity]))
        self._body.plan.execute(self._runs[number])
        self._iteration += 1
        return [
            written[output.index] if output.origin is Origin.PLAN_OUTPUT else self._values[output.index]
            for output in self._body.outputs
        ]

    def _bind(self, written: Sequence[Array], before: Sequence[Array]) -> _kernels.Run:
        inputs: list[Array] = []
        for index in self._body.inputs:
            output = self._carried.get(index) if self._iteration else None
            value = self._values[index] if output is None else before[output]
            inputs.append(to_memory(value, DType.from_numpy(value.dtype)))  # captured ones have any strides
        return self._body.plan.plan.start([*inputs], [as_bytes(array) for array in written])


def can_iterate(body: BodyPlan, values: Sequence[Array], carried: Mapping[int, int], condition: int | None) -> bool:
    """Whether `Iterations` can run a body: the plan is one stretch of C over elements of whole bytes, it computes every
    output, and what is carried keeps its type and shape. Output 0 may be the input `condition` handed through: a
    condition of a Loop that stays what it is.
    """
    plan = body.plan
    if any(segment.on_host for segment in plan.segments) or any(
        port.dtype.bits < 8 for port in (*plan.inputs, *plan.outputs)
    ):
        return False
    passed = [index for index, output in enumerate(body.outputs) if output.origin is Origin.BODY_INPUT]
    if passed and (condition is None or passed != [0] or body.outputs[0].index != condition):
        return False
    for index, output in carried.items():
        port = plan.outputs[body.outputs[output].index]
        if (port.dtype.numpy, port.shape) != (values[index].dtype, values[index].shape):
            return False
    return True

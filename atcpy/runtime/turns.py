"""Bodies that are one plan in C and keep their shapes: turns of Loop and Scan without Python between kernels.

What a turn carries on is written by one run and read by the next: two sets of buffers take turns, and
the kernels are bound to them once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.ir import DType
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.runtime.memory import as_bytes, to_memory
from atcpy.runtime.plan import ExecutionPlan


@dataclass(frozen=True, slots=True)
class SinglePlan:
    """A graph that is one plan for the inputs given. `inputs` are the places of the plan's inputs among the graph's;
    each output of the graph is the plan's of this number, or, where it hands an input through, ~place of that.
    """

    plan: ExecutionPlan
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Turns:
    """Runs a body again and again. `values` are its inputs at first; `carried` says which input gets which output
    of the turn before. The arrays of the other inputs may be changed in place between turns.
    """

    def __init__(self, body: SinglePlan, values: Sequence[Array], carried: Mapping[int, int]) -> None:
        self._body = body
        self._values = values
        self._carried = {place: body.outputs[output] for place, output in carried.items()}
        sizes = [(port.shape, port.dtype.numpy) for port in body.plan.outputs]
        self._buffers = [[np.empty(shape, dtype) for shape, dtype in sizes] for _ in range(2)]
        self._runs: list[_kernels.Run] = []
        self._turn = 0

    def run(self) -> list[Array]:
        """One turn; its outputs lie in memory that the turn after the next writes again."""
        number = self._turn if self._turn < 3 else 1 + (self._turn - 1) % 2  # first, then two that take turns
        made = self._buffers[self._turn % 2]
        if number == len(self._runs):
            self._runs.append(self._bind(made, self._buffers[1 - self._turn % 2]))
        self._body.plan.execute(self._runs[number])
        self._turn += 1
        return [made[output] if output >= 0 else self._values[~output] for output in self._body.outputs]

    def _bind(self, made: Sequence[Array], before: Sequence[Array]) -> _kernels.Run:
        inputs: list[Array] = []
        for place in self._body.inputs:
            output = self._carried.get(place) if self._turn else None
            value = self._values[place] if output is None else before[output]
            inputs.append(to_memory(value, DType.from_numpy(value.dtype)))  # captured ones have any strides
        return self._body.plan.plan.start([*inputs], [as_bytes(array) for array in made])


def fits(body: SinglePlan, values: Sequence[Array], carried: Mapping[int, int], kept: int | None) -> bool:
    """Can these turns run so: one stretch of C, whole bytes, every output made anew, what is carried of one type and
    shape? Output 0 may be the input `kept`, if that is a place, handed through: a condition that stays what it is.
    """
    plan = body.plan
    if any(segment.on_host for segment in plan.segments) or any(
        port.dtype.bits < 8 for port in (*plan.inputs, *plan.outputs)
    ):
        return False
    handed = [output for output in body.outputs if output < 0]
    if handed and (kept is None or handed != [~kept] or body.outputs[0] != ~kept):
        return False
    for place, output in carried.items():
        port = plan.outputs[body.outputs[output]]
        if (port.dtype.numpy, port.shape) != (values[place].dtype, values[place].shape):
            return False
    return True

"""--status_check=1: a run ends at the first node that makes NaN or infinity out of operands that do not explain it.

An infinity explains infinities; only NaN explains NaN. So the -inf of a mask passes, and a Softmax whose operands are
all -inf does not. Tasks run one after the other; the floats that a node has written are looked at when its last task
has run. What is not looked at, such as views and the bodies of If and Loop, is as good as its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import or_

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Node, Value
from atcpy.ir.tensor import Array
from atcpy.kernels.record import HostSlot, read_slots
from atcpy.om.weights import bytes_to_tensor
from atcpy.runtime.plan import ExecutionPlan, RunMemory, single_tasks
from atcpy.runtime.profile import Profile

_FLOATS = frozenset({DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16})


@dataclass(frozen=True, slots=True)
class _Found:
    """How many elements are NaN, and how many are infinite."""

    nan: int = 0
    infinite: int = 0

    def __or__(self, other: _Found) -> _Found:
        return _Found(self.nan + other.nan, self.infinite + other.infinite)

    def explains(self, result: _Found) -> bool:
        """Whether a result of operands in which this was found is no surprise."""
        if result.nan:
            return self.nan > 0
        return self.infinite > 0 or self.nan > 0


_NOTHING = _Found()


class StatusCheck(Profile):
    """Runs of a package that is to check what its nodes compute; for plans of known shapes."""

    def __init__(self) -> None:
        super().__init__(max_events=0)
        self._written: dict[int, tuple[ExecutionPlan, _Written]] = {}

    def run_plan(self, plan: ExecutionPlan, arrays: Sequence[Array], targets: Mapping[int, Array] = {}) -> list[Array]:
        """Run a plan task by task. Raises ModelInvalid (D0001) for what no operand explains."""
        return plan.run(arrays, targets=targets, observe=self._observer(plan))

    def run_plan_in(self, plan: ExecutionPlan, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run a plan task by task in the memory of these arrays. Raises what `run_plan` does."""
        plan.run_in(inputs, outputs, observe=self._observer(plan))

    def _observer(self, plan: ExecutionPlan) -> Callable[[int, RunMemory], None]:
        if id(plan) not in self._written:
            self._written[id(plan)] = plan, dict(_written_by(plan))  # which holds the plan: no id is used again
        _, written = self._written[id(plan)]
        run = _Run()

        def observe(task: int, memory: RunMemory) -> None:
            for value, slot in written.get(task, ()):
                run.check(value, memory.operand(slot), memory)

        return observe


# The float results of nodes, with their memory, by the number of the task after which they are there.
_Written = dict[int, tuple[tuple[Value, HostSlot], ...]]


def _written_by(plan: ExecutionPlan) -> Iterator[tuple[int, tuple[tuple[Value, HostSlot], ...]]]:
    for index, group in groupby(single_tasks(plan.tasks), lambda segment: plan.tasks[segment.first].op_index):
        *_, segment = group
        if segment.last - segment.first > 1:
            continue  # a body may have written something else there since
        _, slots = read_slots(plan.tasks[segment.first].record)
        values = plan.node(index).outputs
        if len(slots) == len(values):
            pairs = zip(values, slots, strict=True)
            yield segment.first, tuple(pair for pair in pairs if _is_float(*pair))


def _is_float(value: Value, slot: HostSlot) -> bool:
    return value.desc.dtype in _FLOATS and value.desc.is_static and value.desc.nbytes == slot[3]


class _Run:
    """What was found in the values of one run."""

    def __init__(self) -> None:
        self._found: dict[Value, _Found] = {}

    def check(self, value: Value, raw: Array, memory: RunMemory) -> None:
        """Note what a result holds. Raises ModelInvalid (D0001) if the operands of its node do not explain it."""
        found = self._found[value] = _count(bytes_to_tensor(raw.data, value.desc).array)
        if found == _NOTHING or self._of_operands(value.producer, memory).explains(found):
            return
        what = f"{_counted(found)} in {value.name}, and no operand explains it (--status_check=1)"
        hint = "keep the node in float32 (--keep_fp32), or see where it begins: atcpy verify --locate"
        raise ModelInvalid("D0001", what, where=value.producer, hint=hint)

    def _of_operands(self, node: Node, memory: RunMemory) -> _Found:
        found = _NOTHING
        for value in node.operands:
            found |= self._of(value, memory)
        return found

    def _of(self, value: Value, memory: RunMemory) -> _Found:
        """What a value holds, or, where it was not looked at, what the values behind it hold."""
        pending = [value]
        while pending:
            last = pending[-1]
            if last in self._found:
                pending.pop()
            elif (own := _own(last, memory)) is not None:
                self._found[last] = own
            elif missing := [operand for operand in last.producer.operands if operand not in self._found]:
                pending += missing
            else:
                self._found[last] = reduce(or_, (self._found[operand] for operand in last.producer.operands), _NOTHING)
        return self._found[value]


def _own(value: Value, memory: RunMemory) -> _Found | None:
    """What a value holds that is no result of a node; None for a result."""
    if value.desc.dtype not in _FLOATS:
        return _NOTHING
    if value.tensor is not None:
        return _count(value.array)
    if value.producer.op_type == "Data":
        return _count(memory.inputs[value.producer.int_attr("index", 0)].view(value.desc.dtype.numpy))
    return None


def _count(array: Array) -> _Found:
    if np.isfinite(array).all():
        return _NOTHING
    nan = int(np.isnan(array).sum())
    return _Found(nan, int(array.size - np.isfinite(array).sum()) - nan)


def _counted(found: _Found) -> str:
    infinite = f"{found.infinite} {'infinity' if found.infinite == 1 else 'infinities'}"
    return " and ".join(text for text, count in ((f"{found.nan} NaN", found.nan), (infinite, found.infinite)) if count)

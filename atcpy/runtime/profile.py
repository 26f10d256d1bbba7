"""How long each task of a run took, whatever plans the run consists of."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.kernels.record import HOST_FAMILY
from atcpy.runtime.host import RuntimeValue, as_arrays, evaluate
from atcpy.runtime.plan import ExecutionPlan


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as it is bound on this CPU: its node, the kernel row that runs it, and the model's nodes
    that it stands for.
    """

    node: str
    op_type: str
    engine: str
    kernel: str
    sources: tuple[str, ...]
    passes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskTime:
    """A task, how often it ran, and the seconds that this took."""

    task: TaskInfo
    runs: int
    seconds: float


@dataclass(slots=True)
class _Total:
    """All runs of a plan; a node that runs on its own is a task of its own."""

    tasks: list[TaskInfo]
    elapsed_ns: Array
    runs: int = 0


@dataclass(slots=True)
class Profile:
    """Times what runs through it. What a loop runs again is added up."""

    _totals: dict[int, _Total] = field(default_factory=dict)
    _kept: list[object] = field(default_factory=list)  # so that no id is used again

    def run_plan(self, plan: ExecutionPlan, arrays: Sequence[Array]) -> list[Array]:
        """The outputs of a plan. Raises what it does."""
        elapsed = np.zeros(len(plan.tasks), np.int64)
        results = plan.run(arrays, elapsed)
        self._add(plan, lambda: tasks_of(plan), elapsed)
        return results

    def run_plan_in(self, plan: ExecutionPlan, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run a plan in the memory of these arrays. Raises what it does."""
        elapsed = np.zeros(len(plan.tasks), np.int64)
        plan.run_in(inputs, outputs, elapsed)
        self._add(plan, lambda: tasks_of(plan), elapsed)

    def run_node(self, node: Node, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
        """The results of a node that runs on the host, on its own."""
        start = time.perf_counter_ns()
        results = evaluate(node, operands)
        elapsed = np.array([time.perf_counter_ns() - start])
        self._add(node, lambda: [_task_of(node, HOST_FAMILY)], elapsed)
        return results

    def _add(self, key: object, find_tasks: Callable[[], list[TaskInfo]], elapsed: Array) -> None:
        total = self._totals.get(id(key))
        if total is None:
            total = self._totals[id(key)] = _Total(find_tasks(), np.zeros_like(elapsed))
            self._kept.append(key)
        total.elapsed_ns += elapsed
        total.runs += 1

    def times(self) -> list[TaskTime]:
        """The tasks in the order in which they ran first."""
        return [
            TaskTime(task, total.runs, float(ns) * 1e-9)
            for total in self._totals.values()
            for task, ns in zip(total.tasks, total.elapsed_ns, strict=True)
        ]


def run_alone(node: Node, operands: Sequence[RuntimeValue], profile: Profile | None) -> list[RuntimeValue]:
    """The results of a node that runs on the host, on its own."""
    return as_arrays(evaluate(node, operands) if profile is None else profile.run_node(node, operands))


def tasks_of(plan: ExecutionPlan) -> list[TaskInfo]:
    """The tasks of a plan in order of execution."""
    rows = zip(plan.tasks, plan.plan.rows(), strict=True)
    return [_task_of(plan.node(record.op_index), row or record.kernel) for record, row in rows]


def _task_of(node: Node, kernel: str) -> TaskInfo:
    engine = node.engine.value if node.engine is not None else ""
    return TaskInfo(node.name, node.op_type, engine, kernel, node.sources, node.passes)

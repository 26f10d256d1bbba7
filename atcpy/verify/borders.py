"""Runs a package task by task, and shows what each task leaves in memory as a value of the model.

The tasks are those of the package at hand: what it has fused stays fused, and only values at the borders of tasks
are seen. They may be replaced, so that the tasks behind compute with the replacement.

A package of fixed shapes says in which format each value lies. Plans for open dims say only how many bytes a value
takes: then each format of that size is a candidate, and the caller takes the one that fits what it expects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from atcpy.formats import find_format, tried_formats
from atcpy.ir import DType, Graph, Node, Tensor, TensorDesc, Value
from atcpy.kernels.record import HostSlot, read_slots
from atcpy.kernels.table import TASK_BYTES
from atcpy.om.weights import bytes_to_tensor, tensor_to_bytes
from atcpy.passes.compile.emit_tasks import output_names
from atcpy.runtime.host import RuntimeValue
from atcpy.runtime.plan import ExecutionPlan, RunMemory, single_tasks
from atcpy.runtime.profile import Profile
from atcpy.verify.inputs import Array

_HALF = frozenset({DType.FLOAT16, DType.BFLOAT16})


class Border:
    """A value of the model, named `name`, that tasks have just written."""

    def __init__(self, name: str, *, is_certain: bool = True) -> None:
        """`is_certain`: one of the candidates is the value."""
        self.name = name
        self.is_certain = is_certain

    def candidates(self, expected: Array) -> Iterator[tuple[Array, Callable[[Array], None]]]:
        """What the memory holds, once for each format that has room for a value of this shape, each with a function
        that replaces it. An array is valid until the next task runs.
        """
        raise NotImplementedError


class _TaskBorder(Border):
    """A value in the memory of a plan."""

    def __init__(self, name: str, value: Value, memory: RunMemory, group: _Group) -> None:
        super().__init__(name, is_certain=group.is_certain)
        self._value, self._memory, self._slots = value, memory, group.slots
        # Which of several results of one size a task has written where, the records do not say.
        self._is_alone = group.is_certain and len(value.producer.outputs) == 1

    def candidates(self, expected: Array) -> Iterator[tuple[Array, Callable[[Array], None]]]:
        """See Border."""
        for desc in _descs_of(self._value.desc, expected.shape):
            slots = dict.fromkeys(slot for slot in reversed(self._slots) if slot[3] == desc.nbytes)
            for slot in list(slots)[: 1 if self._is_alone else None]:
                raw = self._memory.operand(slot)
                yield bytes_to_tensor(raw.data, desc).array, _writer(raw, desc)


class _NodeBorder(Border):
    """A result of a node that runs between plans."""

    def __init__(self, name: str, results: list[RuntimeValue], index: int) -> None:
        super().__init__(name)
        self._results, self._index = results, index

    def candidates(self, expected: Array) -> Iterator[tuple[Array, Callable[[Array], None]]]:
        """See Border."""
        result = self._results[self._index]
        if isinstance(result, np.ndarray) and result.shape == expected.shape:
            yield result, self._replace

    def _replace(self, array: Array) -> None:
        old = self._results[self._index]
        self._results[self._index] = array.astype(old.dtype)


def _writer(raw: Array, desc: TensorDesc) -> Callable[[Array], None]:
    def write(array: Array) -> None:
        with np.errstate(over="ignore"):
            tensor = Tensor.of(array.astype(desc.dtype.numpy), desc.dtype)
        raw[:] = np.frombuffer(tensor_to_bytes(tensor, desc), np.uint8)

    return write


def _descs_of(desc: TensorDesc, shape: tuple[int, ...]) -> Iterator[TensorDesc]:
    """The types that a value of this shape may have in memory."""
    if desc.is_static:
        if desc.static_shape == shape and desc.dtype is not DType.STRING:
            yield desc
        return
    if desc.dtype in (DType.STRING, DType.UNDEFINED):
        return
    for dtype in (desc.dtype, DType.FLOAT32) if desc.dtype in _HALF else (desc.dtype,):
        yield TensorDesc.plain(dtype, shape)
        for form in tried_formats() if dtype.bits >= 8 and 0 not in shape else ():
            storage = find_format(form)
            if storage.accepts(shape):
                yield TensorDesc(dtype, shape, form, storage_shape=storage.storage_shape(shape))


Visit = Callable[[Border], None]


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring tasks of one node: the last one, and what they write, in order. What a body writes may be a result
    of its node or not: then the slots are not certain.
    """

    last: int
    values: tuple[tuple[str, Value], ...]
    slots: tuple[HostSlot, ...]
    is_certain: bool


class BorderRun(Profile):
    """A run that shows the values of these names: `session.run(…, profile=BorderRun(names, visit))`."""

    def __init__(self, names: Collection[str], visit: Visit) -> None:
        super().__init__(max_events=0)
        self._names, self._visit = names, visit
        self._groups: dict[int, tuple[ExecutionPlan, dict[int, _Group]]] = {}

    def run_plan(self, plan: ExecutionPlan, arrays: Sequence[Array], targets: Mapping[int, Array] = {}) -> list[Array]:
        """Run a plan task by task."""
        return plan.run(arrays, targets=targets, observe=self._observer(plan))

    def run_plan_in(self, plan: ExecutionPlan, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run a plan task by task in the memory of these arrays."""
        plan.run_in(inputs, outputs, observe=self._observer(plan))

    def run_node(self, node: Node, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
        """Run a node, and show its results."""
        results = list(super().run_node(node, operands))
        for index, value in enumerate(node.outputs):
            if value.name in self._names:
                self._visit(_NodeBorder(value.name, results, index))
        return results

    def _observer(self, plan: ExecutionPlan) -> Callable[[int, RunMemory], None]:
        if id(plan) not in self._groups:
            groups = {group.last: group for group in _groups_of(plan, self._names)}
            self._groups[id(plan)] = plan, groups  # which holds the plan, so that no id is used again
        _, groups = self._groups[id(plan)]

        def observe(task: int, memory: RunMemory) -> None:
            group = groups.get(task)
            if group is not None:
                for name, value in group.values:
                    self._visit(_TaskBorder(name, value, memory, group))

        return observe


def _groups_of(plan: ExecutionPlan, names: Collection[str]) -> Iterator[_Group]:
    records = plan.plan.records()
    renamed: dict[int, Mapping[str, str]] = {}
    for index, group in groupby(single_tasks(plan.tasks), lambda segment: plan.tasks[segment.first].op_index):
        segments = list(group)
        node = plan.node(index)
        if node.is_source:  # what converts an input
            continue
        numbers = [number for segment in segments for number in range(segment.first, segment.last)]
        slots = [
            slot
            for number in numbers
            for slot in read_slots(records[number * TASK_BYTES : (number + 1) * TASK_BYTES])[1]
        ]
        values = tuple((name, value) for name, value in _named(node, renamed) if name in names)
        if values:
            yield _Group(segments[-1].last - 1, values, tuple(slots), is_certain=len(numbers) == len(segments))


def _named(node: Node, renamed: dict[int, Mapping[str, str]]) -> Iterator[tuple[str, Value]]:
    """The results of a node with their names in the model; `renamed` remembers those of the outputs of graphs."""
    graph = node.graph
    if id(graph) not in renamed:
        renamed[id(graph)] = {} if graph is None else outputs_of(graph)
    for value in node.outputs:
        yield renamed[id(graph)].get(value.name, value.name), value


def outputs_of(graph: Graph) -> dict[str, str]:
    """The names of a graph's outputs in the model, by the names of the values."""
    return {value.name: name for value, name in zip(graph.outputs, output_names(graph), strict=True)}


def border_nodes(plans: Iterable[ExecutionPlan], eager_nodes: Iterable[Node]) -> dict[str, Node]:
    """The nodes of these plans, and those that run between them, by the names of the values that they compute."""
    found: dict[str, Node] = {}
    for plan in plans:
        renamed: dict[int, Mapping[str, str]] = {}
        for index in dict.fromkeys(plan.tasks[segment.first].op_index for segment in single_tasks(plan.tasks)):
            node = plan.node(index)
            if not node.is_source:
                found.update((name, node) for name, _ in _named(node, renamed))
    found.update((value.name, node) for node in eager_nodes for value in node.outputs)
    return found

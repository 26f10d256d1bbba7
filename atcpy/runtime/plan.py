"""A plan bound to this CPU: arrays in, arrays out. C runs the tasks, but for those of HOST_CPU."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from atcpy.errors import ModelInvalid, PackageCorrupt, ResourceLimit
from atcpy.ir.dtype import DType
from atcpy.ir.region import Region
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.kernels.record import HOST_FAMILY, STREAM_ACTIVE, HostSlot, read_order, read_slots
from atcpy.om.task_record import TaskRecord, TaskRecords
from atcpy.runtime.distributed.world import World
from atcpy.runtime.memory import BufferPool, as_bytes, cut, from_memory, readable, to_memory

if TYPE_CHECKING:
    from concurrent.futures import Future

    from atcpy.ir import CountedOutput, Node
    from atcpy.runtime.profile import Profile
    from atcpy.runtime.recording import Recording

_FAULTS = {
    1: "index {value} is outside an axis of size {bound}",
    2: "integer division by zero",
    3: "its condition still holds after {value} iterations: it does not seem to end",
    4: "the parameters of AIPP do not fit: {field} is {value}",
}
_PARAMETER = 4
_HINTS = {3: "give the Loop a trip count"}


# Arguments of control flow that count the tasks behind it which it runs.
_BODIES = {"if": ("then_tasks", "else_tasks"), "loop": ("body_tasks",)}


class PlanPort(NamedTuple):
    """An input or an output of a plan."""

    name: str
    dtype: DType
    shape: StaticShape

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        count = 1
        for dim in self.shape:
            count *= dim
        return self.dtype.nbytes(count)


class RunMemory(NamedTuple):
    """The memory that the tasks of one run read and write."""

    run: _kernels.Run
    weights: memoryview
    inputs: Sequence[Array]
    outputs: Sequence[Array]

    def operand(self, slot: HostSlot) -> Array:
        """The bytes of an operand, shared."""
        region, index, offset, nbytes = slot
        if region in (Region.INPUT, Region.OUTPUT):
            whole = as_bytes((self.inputs if region is Region.INPUT else self.outputs)[index])
        else:
            whole = np.frombuffer(memoryview(self.run) if region is Region.ARENA else self.weights, np.uint8)
        return whole[offset : offset + nbytes]


class Segment(NamedTuple):
    """Tasks [first, last) that run in C without a break, or the one task `first` of the host.

    joins: how many collectives must have ended before it. is_beside: it may run beside the segments behind it.
    """

    first: int
    last: int
    on_host: bool
    joins: int = 0
    is_beside: bool = False


# Gets the number of a task that has run, and the memory of the run.
Observe = Callable[[int, RunMemory], None]


@dataclass(frozen=True)
class ExecutionPlan:
    """Tasks whose kernels are chosen. `find_nodes` gives the nodes by the index that task records have; it
    is asked when a node runs on the host, fails, or is looked at.
    """

    plan: _kernels.Plan
    tasks: TaskRecords
    segments: tuple[Segment, ...]
    weights: memoryview
    arena_bytes: int
    inputs: tuple[PlanPort, ...]
    outputs: tuple[PlanPort, ...]
    find_nodes: Callable[[], Sequence[Node]]
    world: World
    buffers: tuple[deque[Array], ...] | None = None  # that outputs share with plans for other sizes

    @property
    def run_bytes(self) -> int:
        """Memory of one run, beside inputs and outputs: the arena, and the scratch of each thread."""
        return self.plan.run_bytes()

    @cached_property
    def pools(self) -> tuple[BufferPool, ...]:
        """Memory for the outputs, one pool each."""
        buffers = self.buffers or (None,) * len(self.outputs)
        return tuple(BufferPool(port.dtype, port.shape, own) for port, own in zip(self.outputs, buffers, strict=True))

    @cached_property
    def packed(self) -> tuple[int, ...]:
        """The outputs whose elements share bytes."""
        return tuple(index for index, port in enumerate(self.outputs) if port.dtype.bits < 8)

    @cached_property
    def _only_segment(self) -> Segment | None:
        """The segment of a plan that runs in C as a whole, as nearly all do: small models take microseconds."""
        return self.segments[0] if len(self.segments) == 1 and not self.segments[0].on_host else None

    @property
    def runs_in_c(self) -> bool:
        """Does C run all of it, on arrays as they are in memory?"""
        return self._only_segment is not None and all(port.dtype.bits >= 8 for port in (*self.inputs, *self.outputs))

    @cached_property
    def nodes(self) -> Sequence[Node]:
        """The nodes of the plan's graph."""
        return self.find_nodes()

    def node(self, index: int) -> Node:
        """The node of a task."""
        if index >= len(self.nodes):
            raise PackageCorrupt("P0005", f"a task names node {index} of {len(self.nodes)}")
        return self.nodes[index]

    def run(
        self,
        arrays: Sequence[Array],
        recording: Recording | None = None,
        targets: Mapping[int, Array] = {},
        observe: Observe | None = None,
    ) -> list[Array]:
        """The outputs for inputs of the ports' types; `recording` gets the times of the tasks. `targets` are
        contiguous arrays of the ports' types, with elements of a byte or more, into which outputs are written.
        `observe` is called after each task.

        Raises ModelInvalid (D0001) for values that break an op's rule, ResourceLimit if there is no memory.
        """
        inputs = [readable(array, port.dtype) for array, port in zip(arrays, self.inputs, strict=True)]
        try:
            outputs = [pool.take() if index not in targets else targets[index] for index, pool in enumerate(self.pools)]
        except MemoryError as error:
            raise ResourceLimit("R0001", f"no memory for the results: {error}") from error
        self.run_in(inputs, outputs, recording, observe)
        for index in self.packed:
            port = self.outputs[index]
            outputs[index] = from_memory(outputs[index], port.dtype, port.shape)
        return outputs

    def run_in(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        recording: Recording | None = None,
        observe: Observe | None = None,
    ) -> None:
        """Run in the memory of these arrays. Raises what `run` does."""
        run = self._start(inputs, outputs)
        if self._only_segment is not None and observe is None:
            self._run_in_c(self._only_segment, run, recording)
            return
        memory = RunMemory(run, self.weights, inputs, outputs)
        if observe is not None:
            self._run_observed(memory, observe)
            return
        begun: list[Future[None]] = []
        ended = 0
        try:
            for segment in self.segments:
                while ended < segment.joins:
                    begun[ended].result()
                    ended += 1
                if segment.is_beside:
                    begun.append(self.world.start(partial(self._run_on_host, segment, memory, recording)))
                elif segment.on_host:
                    self._run_on_host(segment, memory, recording)
                else:
                    self._run_in_c(segment, run, recording)
        finally:  # nobody may get the memory while a collective uses it
            for collective in begun:
                collective.exception()
        for collective in begun[ended:]:
            collective.result()

    def _run_observed(self, memory: RunMemory, observe: Observe) -> None:
        """Run the tasks one after the other, those of streams in the order of the list, those of a body together."""
        for segment in single_tasks(self.tasks):
            if segment.on_host:
                self._run_on_host(segment, memory, None)
            else:
                self._run_in_c(segment, memory.run, None)
            observe(segment.last - 1, memory)

    def iterate(
        self,
        inputs: list[Array],
        outputs: list[Array],
        count: int,
        swaps: list[tuple[int, int]],
        strides: list[tuple[int, Array]],
        condition: int,
    ) -> int:
        """Iterate the plan in the memory of these arrays; return how many iterations there were.

        After each, the input and the output of each of `swaps` exchange their memory, in the lists as well. Ports in
        `strides`, where outputs are counted after the inputs, go through an array. Output `condition` ends the
        iterations where it is false. Python comes between them only if it runs some of the tasks.
        """
        if not any(segment.on_host for segment in self.segments):
            run = self._start(inputs, outputs)
            try:
                done = run.iterate(count, swaps, [*strides], condition)
            except _kernels.Fault as fault:
                raise self.invalid(fault) from fault
            if done % 2:
                _exchange(inputs, outputs, swaps)
            return done
        for done in range(count):
            _kernels.check_deadline()  # which small plans do not
            ports = [*inputs, *outputs]
            for port, array in strides:
                ports[port] = array[done : done + 1]
            self.run_in(ports[: len(inputs)], ports[len(inputs) :])
            ends = condition >= 0 and not outputs[condition].item()
            _exchange(inputs, outputs, swaps)
            if ends:
                return done + 1
        return count

    def _start(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> _kernels.Run:
        try:
            return self.plan.start([*inputs], [*outputs])
        except MemoryError as error:
            raise ResourceLimit("R0001", f"no memory for {self.arena_bytes} bytes of arena") from error

    def _run_in_c(self, segment: Segment, run: _kernels.Run, recording: Recording | None) -> None:
        try:
            if recording is None:
                run.execute(segment.first, segment.last)
            else:
                events = recording.events
                events.count = run.execute(segment.first, segment.last, recording.memory, events.memory, events.count)
        except _kernels.Fault as fault:
            raise self.invalid(fault) from fault

    def invalid(self, fault: _kernels.Fault) -> ModelInvalid:
        """The error for a task of the plan that met such values."""
        task, code, value, bound = fault.args
        node = self.node(self.tasks[task].op_index)
        field = ""
        if code == _PARAMETER:
            from atcpy.aipp.parameters import field_at

            field = field_at(bound)
        what = _FAULTS[code].format(value=value, bound=bound, field=field)
        return ModelInvalid("D0001", what, where=node, hint=_HINTS.get(code, ""))

    def _run_on_host(self, segment: Segment, memory: RunMemory, recording: Recording | None) -> None:
        start = time.monotonic_ns()
        self._run_node(self.tasks[segment.first], memory)
        if recording is not None:
            recording.note(segment.first, start, time.monotonic_ns(), is_beside=segment.is_beside)

    def _run_node(self, task: TaskRecord, memory: RunMemory) -> None:
        # What only nodes of the host and collectives need: the records of all operators.
        from atcpy.ir import Engine
        from atcpy.runtime.distributed.run_collective import run_collective
        from atcpy.runtime.host import evaluate_static

        node = self.node(task.op_index)
        src, dst = read_slots(task.record)
        if not _is_task_of(node, src, dst):
            raise PackageCorrupt("P0005", "its task has other operands than the node", where=node)
        arrays = [
            None
            if value is None or slot is None
            else from_memory(memory.operand(slot), value.desc.dtype, value.desc.static_shape)
            for value, slot in zip(node.inputs, src, strict=True)
        ]
        memories = [memory.operand(slot) for slot in dst]
        types = [(value.desc.dtype, value.desc.static_shape) for value in node.outputs]
        # Elements that share bytes cannot be written through an array.
        whole = all(dtype.bits >= 8 for dtype, _ in types)
        results_memory = [from_memory(raw, *kind) for raw, kind in zip(memories, types, strict=True)] if whole else None
        if node.engine is Engine.HCCL:
            results = run_collective(node, arrays, results_memory, self.world)
        else:
            results = evaluate_static(node, arrays, results_memory)
        for raw, (dtype, _), result in zip(memories, types, results, strict=True):
            packed = to_memory(result, dtype)
            if packed.ctypes.data != raw.ctypes.data:
                raw[:] = packed


class Feed(NamedTuple):
    """An input of a direct run: its type and shape, and the bytes that it has, if the plan is for these alone."""

    port: PlanPort
    content: bytes | None = None


class Ports(NamedTuple):
    """How the inputs and outputs of a model are those of a plan.

    feeds: the inputs of the model. inputs: the feed that each input of the plan is. outputs: for each output of the
    model, that of the plan, and the count that cuts it.
    """

    feeds: tuple[Feed, ...]
    inputs: tuple[int, ...]
    outputs: tuple[tuple[int, CountedOutput | None], ...]


@dataclass(frozen=True)
class DirectRun:
    """A plan that is all of a run, from arrays or a dict of them to the outputs of a model. Without `ports` its inputs
    and outputs are those of the model.

    A plan is made for the shapes of its inputs and, where sizes follow from the elements of some, for these elements
    too: Range, or Pad and Reshape to sizes that are fed. So a direct run serves arrays of certain types and shapes,
    some of them with a certain content. It knows all of that itself, and C compares the feeds with it before the plan
    runs. Hence a session may always try the direct run that it took last, whatever it or other threads ran since; other
    feeds go the long way, which checks them, and finds or makes the direct run for them.

    A task may count what there is of a result, as that of NonZero does. The plan then has memory for the most that
    there can be, and the result is cut out of it by the count, a number that a hostile package may have written.
    """

    plan: ExecutionPlan
    ports: Ports | None = None

    def run(self, values: Sequence[Array], profile: Profile | None = None) -> list[Array]:
        """The outputs for inputs that it serves. Raises what `ExecutionPlan.run` does, and PackageCorrupt (P0005)."""
        arrays = values if self.ports is None else [values[index] for index in self.ports.inputs]
        return self._outputs(self.plan.run(arrays) if profile is None else profile.run_plan(self.plan, arrays))

    def run_fed(self, feeds: Mapping[str, Any]) -> list[Array] | None:
        """What `run` does, in a tenth of its time; None if the feeds are not exactly what it serves, or there is
        another reason to take the long way.
        """
        if self._call is None:
            return None
        try:
            results = self._call.run(feeds)
        except MemoryError:
            return None  # the long way tells what there is no memory for
        except _kernels.Fault as fault:
            raise self.plan.invalid(fault) from fault
        return results if results is None or self.ports is None else self._outputs(results)

    @cached_property
    def _call(self) -> _kernels.PlanCall | None:
        """Runs the plan in C, from a dict of arrays to its outputs."""
        if not self.plan.runs_in_c:
            return None
        if self.ports is None:
            feeds = tuple(map(Feed, self.plan.inputs))
        else:
            taken = self.ports.inputs
            others = (index for index in range(len(self.ports.feeds)) if index not in taken)
            feeds = tuple(self.ports.feeds[index] for index in (*taken, *others))
        inputs = tuple((port.name, port.dtype.numpy, port.shape, content) for port, content in feeds)
        return _kernels.PlanCall(self.plan.plan, np.ndarray, inputs, tuple(pool.take for pool in self.plan.pools))

    def _outputs(self, results: list[Array]) -> list[Array]:
        if self.ports is None:
            return results
        try:
            return [
                results[index] if counted is None else cut(results, counted) for index, counted in self.ports.outputs
            ]
        except MemoryError as error:
            raise ResourceLimit("R0001", f"no memory for the results: {error}") from error


def _exchange(inputs: list[Array], outputs: list[Array], swaps: Sequence[tuple[int, int]]) -> None:
    for input_, output in swaps:
        inputs[input_], outputs[output] = outputs[output], inputs[input_]


def segments_of(tasks: TaskRecords, joins: Sequence[int] = ()) -> tuple[Segment, ...]:
    """Group tasks by where they run. `joins` are those of a plan in which collectives run beside other tasks."""
    on_host = set(tasks.numbers_of(HOST_FAMILY))
    # A plan has thousands of tasks and mostly one segment.
    starts = {0, *on_host, *(number + 1 for number in on_host)}
    starts.update(number for number in range(1, len(joins)) if joins[number] != joins[number - 1])
    segments: list[Segment] = []
    for first, last in pairwise(sorted({*starts, len(tasks)})):
        ended = joins[first] if joins else 0
        is_host = first in on_host
        is_beside = is_host and len(joins) > 0 and read_order(tasks[first].record)[0] > 0
        segments.append(Segment(first, last, is_host, ended, is_beside))
    return tuple(segments)


def single_tasks(tasks: TaskRecords) -> Iterator[Segment]:
    """A segment for each task, in order; tasks that an `if` or a `loop` runs are part of its segment."""
    from atcpy.kernels.table import read_number

    number = 0
    while number < len(tasks):
        family, record = tasks[number].kernel, tasks[number].record
        behind = sum(read_number(record, family, name) for name in _BODIES.get(family, ()))
        if family != STREAM_ACTIVE:  # which would run the tasks of its section itself
            yield Segment(number, number + 1 + behind, family == HOST_FAMILY)
        number += 1 + behind


def _is_task_of(node: Node, src: Sequence[HostSlot | None], dst: Sequence[HostSlot]) -> bool:
    """Whether the operands of a record have as many bytes as the values of the node that it names."""
    if len(src) != node.input_count or len(dst) != len(node.outputs):
        return False
    pairs = zip((*node.inputs, *node.outputs), (*src, *dst), strict=True)
    return all(
        slot is None
        if value is None
        # Row-major, whatever format the file says.
        else slot is not None and value.desc.is_static and value.desc.dtype.nbytes(value.desc.elements) == slot[3]
        for value, slot in pairs
    )

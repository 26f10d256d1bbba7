"""Stage 6, execute: InferenceSession, of the shape of onnxruntime's class of that name."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from atcpy.errors import ModelInvalid, PackageCorrupt, ResourceLimit, UsageError, Where
from atcpy.ir import DType, Node, Region
from atcpy.ir.shape import StaticShape, element_count
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.kernels.table import HostSlot, read_slots
from atcpy.om import numbers
from atcpy.om.container import Verify
from atcpy.om.inout import TensorInfo
from atcpy.om.weights import pack_bits, unpack_bits
from atcpy.ops.reference import EVALUATION_ERRORS, evaluate_by_onnx
from atcpy.options import default_threads
from atcpy.runtime.loader import ExecutionPlan, Segment, load

_FAULTS = {
    1: "index {value} is outside an axis of size {bound}",
    2: "integer division by zero",
}


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output: its name, its dims, and its type as onnxruntime writes it."""

    name: str
    shape: tuple[int, ...]
    type: str
    dtype: DType


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


class InferenceSession:
    """A package, loaded and ready to run. Threads may share it: each run has memory of its own.

    source: path of a `.om`, or its bytes. threads: most threads to use (default: physical cores).
    verify: "full" checks every byte against the checksum, "header" all but the weights. mmap: map
    the file; without it, read it.

    Raises PackageCorrupt, ResourceLimit, UsageError.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes,
        *,
        threads: int | None = None,
        verify: Literal["full", "header"] = "full",
        mmap: bool = True,
        custom_ops: Sequence[object] = (),
    ) -> None:
        if verify not in ("full", "header"):
            raise UsageError("E10001", f'verify: "{verify}" is not full or header')
        if custom_ops:
            raise UsageError("E10055", "custom_ops are not supported yet")
        if threads is not None and not 1 <= threads <= 1024:
            raise UsageError("E10013", f"threads: {threads} is outside 1..1024")
        self.threads = threads or default_threads()
        self._plan: ExecutionPlan = load(
            source, threads=self.threads, verify=Verify.FULL if verify == "full" else Verify.HEADER, mmap=mmap
        )
        package = self._plan.package
        self._inputs = [_node_arg(port, package.container.source) for port in package.inputs]
        self._outputs = [_node_arg(port, package.container.source) for port in package.outputs]
        self._by_name = {port.name: index for index, port in enumerate(self._inputs)}

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in the model's order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the model's order."""
        return list(self._outputs)

    @property
    def tasks(self) -> list[TaskInfo]:
        """The tasks in order of execution."""
        rows = self._plan.plan.rows()
        infos: list[TaskInfo] = []
        for record, row in zip(self._plan.package.tasks, rows, strict=True):
            node = self._node(record.op_index)
            engine = node.engine.value if node.engine is not None else ""
            infos.append(TaskInfo(node.name, node.op_type, engine, row or record.kernel, node.sources, node.passes))
        return infos

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """Runs the model. `feeds` maps every input's name to an array of its dtype and shape; the
        result has the outputs named, or all, as arrays that the caller owns.

        Raises UsageError for feeds that do not fit, ModelInvalid (D0001) for values that break an
        op's rule, ResourceLimit if there is no memory.
        """
        return self._run(output_names, feeds, None)

    def profile(self, feeds: Mapping[str, Array]) -> list[float]:
        """Runs the model once and returns the seconds that each task took."""
        elapsed = np.zeros(len(self._plan.package.tasks), np.int64)
        self._run(None, feeds, elapsed)
        return [float(ns) * 1e-9 for ns in elapsed]

    def _run(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, Array], elapsed: Array | None
    ) -> list[Array]:
        chosen = self._choose_outputs(output_names)
        inputs = self._check_feeds(feeds)
        outputs = [_room_for(port) for port in self._outputs]
        try:
            run = self._plan.plan.start(list(inputs), [_bytes(array) for array in outputs])
        except MemoryError as error:
            raise ResourceLimit("R0001", f"no memory for {self._plan.package.arena_bytes} bytes of arena") from error
        for segment in self._plan.segments:
            if segment.on_host:
                start = time.perf_counter_ns()
                self._run_on_host(segment, run, inputs, outputs)
                if elapsed is not None:
                    elapsed[segment.first] = time.perf_counter_ns() - start
            else:
                self._run_in_c(segment, run, elapsed)
        return [
            outputs[index]
            if self._outputs[index].dtype.bits >= 8
            else _from_memory(outputs[index], self._outputs[index].dtype, self._outputs[index].shape)
            for index in chosen
        ]

    def _run_in_c(self, segment: Segment, run: _kernels.Run, elapsed: Array | None) -> None:
        try:
            run.execute(segment.first, segment.last, elapsed)
        except _kernels.Fault as fault:
            task, code, value, bound = fault.args
            node = self._node(self._plan.package.tasks[task].op_index)
            raise ModelInvalid("D0001", _FAULTS[code].format(value=value, bound=bound), where=node) from fault

    def _run_on_host(
        self, segment: Segment, run: _kernels.Run, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> None:
        record = self._plan.package.tasks[segment.first]
        node = self._node(record.op_index)
        src, dst = read_slots(record.record)
        if not _is_task_of(node, src, dst):
            raise PackageCorrupt("P0005", "its task has other operands than the node", where=node)
        memory = {Region.ARENA: memoryview(run), Region.WEIGHTS: self._plan.package.weights}
        ports = {Region.INPUT: inputs, Region.OUTPUT: outputs}

        def operand(slot: tuple[Region, int, int, int] | None) -> Array:
            assert slot is not None
            region, index, offset, nbytes = slot
            whole = _bytes(ports[region][index]) if region in ports else np.frombuffer(memory[region], np.uint8)
            return whole[offset : offset + nbytes]

        arrays = [
            None
            if value is None or slot is None
            else _from_memory(operand(slot), value.desc.dtype, value.desc.static_shape)
            for value, slot in zip(node.inputs, src, strict=True)
        ]
        try:
            results = evaluate_by_onnx(node, arrays)
        except EVALUATION_ERRORS as error:
            raise ModelInvalid("D0001", f"{type(error).__name__}: {error}", where=node) from error
        for value, slot, result in zip(node.outputs, dst, results, strict=True):
            expected = value.desc.static_shape
            if result.shape != expected:
                raise ModelInvalid("D0001", f"its result is {result.shape}, planned {expected}", where=node)
            operand(slot)[:] = _to_memory(np.ascontiguousarray(result, value.desc.dtype.numpy), value.desc.dtype)

    def _node(self, index: int) -> Node:
        nodes = self._plan.nodes
        if index >= len(nodes):
            raise PackageCorrupt("P0005", f"a task names node {index} of {len(nodes)}")
        return nodes[index]

    def _choose_outputs(self, names: Sequence[str] | None) -> list[int]:
        if names is None:
            return list(range(len(self._outputs)))
        known = [port.name for port in self._outputs]
        for name in names:
            if name not in known:
                raise UsageError("E13031", f'run: no output "{name}"', hint=f"the outputs are {', '.join(known)}")
        return [known.index(name) for name in names]

    def _check_feeds(self, feeds: Mapping[str, Array]) -> list[Array]:
        for name in feeds:
            if name not in self._by_name:
                close = difflib.get_close_matches(name, self._by_name, 1)
                hint = f'did you mean "{close[0]}"?' if close else f"the inputs are {', '.join(self._by_name)}"
                raise UsageError("E13025", f'run: no input "{name}"', hint=hint)
        return [self._check_feed(port, feeds) for port in self._inputs]

    def _check_feed(self, port: NodeArg, feeds: Mapping[str, Array]) -> Array:
        if port.name not in feeds:
            raise UsageError(
                "E13025", f'run: input "{port.name}" is missing', hint=f"it is {port.dtype.long} {list(port.shape)}"
            )
        array = np.asarray(feeds[port.name])
        if array.dtype != port.dtype.numpy or array.shape != port.shape:
            raise UsageError(
                "E10401",
                f'run: input "{port.name}" needs {list(port.shape)} {port.dtype.long}, '
                f"got {list(array.shape)} {array.dtype}",
                where=Where(value=port.name),
            )
        return _to_memory(np.require(array, requirements=["C", "A"]), port.dtype)


def _is_task_of(node: Node, src: Sequence[HostSlot | None], dst: Sequence[HostSlot]) -> bool:
    """Do the operands of a record lie in as many bytes as the values of the node that it names?"""
    if len(src) != node.input_count or len(dst) != len(node.outputs):
        return False
    pairs = zip((*node.inputs, *node.outputs), (*src, *dst), strict=True)
    return all(
        slot is None if value is None else slot is not None and value.desc.is_static and value.desc.nbytes == slot[3]
        for value, slot in pairs
    )


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _room_for(port: NodeArg) -> Array:
    """Memory for an output: the array itself, or bytes where elements are smaller than one."""
    if port.dtype.bits >= 8:
        return np.empty(port.shape, port.dtype.numpy)
    return np.empty(port.dtype.nbytes(element_count(port.shape)), np.uint8)


def _to_memory(array: Array, dtype: DType) -> Array:
    """The bytes of an array, elements of 2 and 4 bits packed."""
    return _bytes(array) if dtype.bits >= 8 else pack_bits(array, dtype)


def _from_memory(raw: Array, dtype: DType, shape: StaticShape) -> Array:
    """The array that bytes hold; elements of 2 and 4 bits get a byte each."""
    flat = raw if dtype.bits >= 8 else unpack_bits(raw, dtype, element_count(shape))
    return flat.view(dtype.numpy).reshape(shape)


def _node_arg(port: TensorInfo, source: str) -> NodeArg:
    dtype = numbers.DTYPE_OF_GE.get(port.dtype)
    if dtype is None or any(dim < 0 for dim in port.dims):
        raise PackageCorrupt("P0005", f"{port.name} has no type and shape that can be run", where=Where(file=source))
    count = 1
    for dim in port.dims:
        count *= dim
    if dtype.nbytes(count) != port.nbytes:
        raise PackageCorrupt("P0005", f"{port.name} has {port.nbytes} bytes for {list(port.dims)}")
    return NodeArg(port.name, port.dims, f"tensor({_ORT_TYPE.get(dtype, dtype.long)})", dtype)


_ORT_TYPE = {DType.FLOAT32: "float", DType.FLOAT64: "double"}

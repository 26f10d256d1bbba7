"""A package as the loader reads it: header, table, checksum, inputs and outputs, task records; never MODEL_DEF.

Every size and offset in a file is checked against the bytes that are there, whatever the checksum.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError, Message

from atcpy.errors import PackageCorrupt
from atcpy.ir.dtype import DType
from atcpy.kernels import _kernels
from atcpy.om import container, inout, numbers
from atcpy.om.container import FORMAT_VERSION, Container, Partition, Verify, corrupt
from atcpy.om.inout import TensorInfo
from atcpy.om.schema.task_pb2 import ModelTaskDef
from atcpy.om.task_record import TaskRecords

if TYPE_CHECKING:
    from atcpy.ir import Gear, PlannedCluster
    from atcpy.om.ports import OpenPort
    from atcpy.om.signature import PublicKey
    from atcpy.om.weight_files import WeightFile


@dataclass(frozen=True, slots=True)
class Package:
    """All that running needs; weights are not copied unless they must not change."""

    container: Container
    weights: memoryview  # the WEIGHTS_DATA partition, and behind it the files with weights
    version: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    tasks: TaskRecords
    arena_bytes: int
    stream_count: int
    event_count: int
    has_unknown_shapes: bool  # no tasks, but a graph, and plans of its clusters
    clusters: tuple[PlannedCluster[TaskRecords], ...] = ()  # the others, and sizes that no plan serves, are compiled
    default_inputs: frozenset[int] = frozenset()  # those that need not be fed, by their index
    map_keys: Mapping[int, tuple[int | str, ...]] = field(default_factory=dict)  # of outputs that are given as maps
    custom_ops: tuple[tuple[str, str], ...] = ()  # domain and name of users' operators, which it needs
    gears: tuple[Gear, ...] = ()  # `tasks` are those of all gears, one after the other
    open_inputs: tuple[OpenPort, ...] = ()  # `inputs` where dims vary
    open_outputs: tuple[OpenPort, ...] = ()
    weight_files: Mapping[WeightFile, int] = field(default_factory=dict)  # where each begins in `weights`
    checks_status: bool = False  # runs check what nodes compute

    @property
    def weight_bytes(self) -> int:
        """Bytes of WEIGHTS_DATA and of the files with weights."""
        return self.container.extent(Partition.WEIGHTS_DATA).size + sum(file.nbytes for file in self.weight_files)

    def check_sha256(self) -> None:
        """Refuse a package whose recorded SHA-256, or that of a file with its weights, is not that of the bytes."""
        self.container.check_sha256()
        if self.weight_files:
            from atcpy.om.weight_files import check_sha256

            check_sha256(self.container, self.weight_files, self.weights)

    def tasks_of(self, gear: int) -> TaskRecords:
        """The tasks of a gear."""
        first = sum(before.task_count for before in self.gears[:gear])
        return self.tasks[first : first + self.gears[gear].task_count]


def read_package(
    path: str | os.PathLike[str],
    *,
    mmap: bool = True,
    verify: Verify = Verify.FULL,
    signers: Sequence[PublicKey] = (),
) -> Package:
    """Open a package for running. If there are `signers`, nothing in it is parsed before its signature is checked."""
    opened = container.open_container(path, mmap=mmap, verify=verify, signers=signers)
    return _package(opened, verify, is_signed=bool(signers))


def parse_package(
    package: bytes, *, source: str = "package", verify: Verify = Verify.FULL, signers: Sequence[PublicKey] = ()
) -> Package:
    """`read_package` for bytes in memory."""
    opened = container.parse(package, source=source, verify=verify, signers=signers)
    return _package(opened, verify, is_signed=bool(signers))


def _package(opened: Container, verify: Verify, *, is_signed: bool) -> Package:
    at = opened.extent(Partition.MODEL_INOUT_INFO)
    payload = opened.partition(Partition.MODEL_INOUT_INFO)
    model = inout.decode(payload, source=opened.source, offset=at.offset)
    inputs, outputs = model.inputs, model.outputs
    planned_tasks, tasks, info = _tasks(opened)
    version = info.attr.get("atcpy_format", "")
    if not version.isascii() or not version.isdigit() or len(version) > 9:
        raise malformed(opened, Partition.TASK_INFO, "the format of the task records is missing")
    if int(version) != FORMAT_VERSION:
        code = "P0002" if int(version) > FORMAT_VERSION else "P0005"
        what = f"task records have format {version}, this atcpy reads {FORMAT_VERSION}"
        raise corrupt(code, opened.source, opened.extent(Partition.TASK_INFO).offset, Partition.TASK_INFO.name, what)
    if info.weight_size != opened.extent(Partition.WEIGHTS_DATA).size:
        raise malformed(opened, Partition.TASK_INFO, f"tasks were compiled for {info.weight_size} bytes of weights")
    unknown = info.attr.get("atcpy_shapes", "known") == "unknown"
    if planned_tasks and not unknown:
        raise malformed(opened, Partition.TASK_INFO, "it has programs of plans though shapes are known")
    if unknown and tasks:
        raise malformed(opened, Partition.TASK_INFO, "it has tasks without a program though shapes are unknown")
    defaults = frozenset(filter(None, info.attr.get("atcpy_default_inputs", "").split(",")))
    if not defaults <= {str(index) for index in range(len(inputs))}:
        raise malformed(opened, Partition.TASK_INFO, "an input that there is not has a default")
    try:
        planned = _clusters(info.attr.get("atcpy_clusters"), planned_tasks, len(outputs))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise malformed(opened, Partition.TASK_INFO, f"its plans are malformed: {error}") from None
    gears = _gears(model, info.attr.get("atcpy_gears"), len(tasks), opened)
    open_inputs, open_outputs = (
        _open_ports(model, info.attr.get("atcpy_ports"), opened) if unknown or gears else ((), ())
    )
    try:
        keys = _map_keys(info.attr["atcpy_map_keys"], outputs) if "atcpy_map_keys" in info.attr else {}
    except (ValueError, TypeError, RecursionError) as error:
        raise malformed(opened, Partition.TASK_INFO, f"the keys of its maps are malformed: {error}") from None
    custom = filter(None, info.attr.get("atcpy_custom_ops", "").split(","))
    files: Mapping[WeightFile, int] = {}
    weights = opened.partition(Partition.WEIGHTS_DATA)
    if (text := info.attr.get("atcpy_weight_files")) is not None:
        opened, weights, files = _open_files(opened, text, verify, is_signed=is_signed)
    return Package(
        opened,
        _unchangeable(opened, weights, [tasks, *(records for records, _ in planned_tasks)]),
        info.version,
        inputs,
        outputs,
        tasks,
        info.memory_size,
        info.stream_num,
        info.event_num,
        unknown,
        planned,
        frozenset(map(int, defaults)),
        keys,
        tuple((domain, name) for domain, _, name in (full.rpartition("::") for full in custom)),
        gears,
        open_inputs,
        open_outputs,
        files,
        info.attr.get("atcpy_status_check", "") == "1",
    )


def _tasks(opened: Container) -> tuple[list[tuple[TaskRecords, bytes]], TaskRecords, ModelTaskDef]:
    """The tasks of each plan for open dims with its program, the other tasks, and what else TASK_INFO says."""
    try:
        plans, records, rest = _kernels.split_tasks(opened.partition(Partition.TASK_INFO))
    except _kernels.Refused as refused:
        reason, number = refused.args
        what = f"task {number}: {reason}" if number >= 0 else reason
        raise malformed(opened, Partition.TASK_INFO, what) from None
    info = ModelTaskDef()
    _parse(info, rest, opened, Partition.TASK_INFO)
    return [(TaskRecords(tasks), program) for tasks, program in plans], TaskRecords(records), info


def _open_files(
    opened: Container, text: str, verify: Verify, *, is_signed: bool
) -> tuple[Container, memoryview, Mapping[WeightFile, int]]:
    """All constants of a package that has some in files beside it. Most have none, and do without what reads them."""
    from atcpy.om.weight_files import decode, open_weights

    try:
        files = decode(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise malformed(opened, Partition.TASK_INFO, f"the list of its weight files is malformed: {error}") from None
    opened, weights, offsets = open_weights(opened, files, verify=verify, is_signed=is_signed)
    return opened, weights, dict(zip(files, offsets, strict=True))


def _unchangeable(opened: Container, weights: memoryview, plans: Sequence[TaskRecords]) -> memoryview:
    """The constants. Kernels that follow indices in them, which their checkers have proved, would follow those that
    somebody writes to the file later: such constants are copied.
    """
    if opened.file is None or not any(tasks.numbers_of(name) for tasks in plans for name in _kernels.CONSTANT_READERS):
        return weights
    return memoryview(bytes(weights))


def _clusters(
    text: str | None, programs: Sequence[tuple[TaskRecords, bytes]], outputs: int
) -> tuple[PlannedCluster[TaskRecords], ...]:
    """The plans for open dims. Most packages have none, and do without what reads them."""
    if text is None and not programs:
        return ()
    from atcpy.om.clusters import decode

    return decode(text or "[]", programs, outputs)


def _gears(model: inout.ModelInfo, text: str | None, task_count: int, opened: Container) -> tuple[Gear, ...]:
    """The gears of a package, if it has some."""
    if text is None and model.gears is None:
        return ()
    from atcpy.om.gears import read_gears

    try:
        return read_gears(model, text or "", task_count)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise malformed(opened, Partition.TASK_INFO, f"its gears are malformed: {error}") from None


def _open_ports(
    model: inout.ModelInfo, text: str | None, opened: Container
) -> tuple[tuple[OpenPort, ...], tuple[OpenPort, ...]]:
    """The inputs and the outputs of a package whose dims vary."""
    from atcpy.om.ports import read_ports

    try:
        return read_ports(model, text or "")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise malformed(opened, Partition.TASK_INFO, f"its inputs and outputs are malformed: {error}") from None


def _map_keys(text: str, outputs: Sequence[TensorInfo]) -> dict[int, tuple[int | str, ...]]:
    """The keys of the maps that outputs are given as, by index. Raises ValueError or TypeError if they cannot be."""
    import json

    listed = json.loads(text)
    if len(listed) > len(outputs):
        raise ValueError(f"{len(listed)} outputs")
    found: dict[int, tuple[int | str, ...]] = {}
    for index, keys in enumerate(listed):
        if keys == "":
            continue
        found[index] = tuple(json.loads(keys))
        if not (all(type(key) is int for key in found[index]) or all(type(key) is str for key in found[index])):
            raise ValueError(f"output {index} has keys of other types than int64 or string")
        if numbers.DTYPE_OF_GE.get(outputs[index].dtype) is not DType.FLOAT32:
            raise ValueError(f"output {index} has other values than float32")
    return found


def parse_message(message: Message, opened: Container, partition: Partition) -> None:
    """Parse a partition. Raises PackageCorrupt (P0005) if it is not of that type."""
    _parse(message, bytes(opened.partition(partition)), opened, partition)


def _parse(message: Message, payload: bytes, opened: Container, partition: Partition) -> None:
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        raise malformed(opened, partition, f"it is no {message.DESCRIPTOR.full_name}: {error}") from None


def malformed(opened: Container, partition: Partition, what: str) -> PackageCorrupt:
    """The error for a partition whose content no writer writes."""
    return corrupt("P0005", opened.source, opened.extent(partition).offset, partition.name, what)

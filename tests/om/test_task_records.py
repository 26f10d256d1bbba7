"""TASK_INFO as C reads it, beside protobuf; tasks that lie one behind the other, as a sequence."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from atcpy.cli.app import execute
from atcpy.kernels import _kernels
from atcpy.kernels.table import pack_task
from atcpy.om.container import Partition, reseal
from atcpy.om.schema import task_pb2
from atcpy.om.schema.task_pb2 import KernelDef, ModelTaskDef, TaskDef
from atcpy.om.task_record import TaskRecord, TaskRecords
from tests.effort import trials
from tests.models_in_text import package
from tests.om.mutator import mutate_partition

Found = tuple[list[tuple[bytes, bytes]], bytes, bytes]
READ_IN_C = {
    "ModelTaskDef": ["task"],
    "TaskDef": ["kernel", "private_def"],
    "KernelDef": ["context", "args_size", "args", "kernel_name"],
    "KernelContext": ["op_index"],
}
VARINT, FIXED_64, LENGTH, GROUP, FIXED_32 = 0, 1, 2, 3, 5


def _schema() -> Any:
    """The schema without the fields that C does not read. Texts are bytes: it reads them as such."""
    file = descriptor_pb2.FileDescriptorProto()
    task_pb2.DESCRIPTOR.CopyToProto(file)
    for message in file.message_type:
        kept = [field for field in message.field if field.name in READ_IN_C.get(message.name, ())]
        for field in kept:
            if field.type == field.TYPE_STRING:
                field.type = field.TYPE_BYTES
        del message.field[:], message.nested_type[:]
        message.field.extend(kept)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("domi.ModelTaskDef"))


READ = _schema()


def read_by_c(payload: bytes) -> Found | None:
    try:
        return _kernels.split_tasks(payload)
    except _kernels.Refused:
        return None


def read_by_protobuf(info: Any) -> Found | None:
    """What C is to read of a message; None if it is to refuse it."""
    plans: list[tuple[bytes, bytes]] = []
    records = b""
    for task in info.task:
        kernel = task.kernel
        if task.private_def:
            plans.append((records, task.private_def))
            records = b""
        elif is_of_record(kernel.args, kernel.args_size, kernel.kernel_name, kernel.context.op_index):
            records += kernel.args
        else:
            return None
    del info.task[:]
    return plans, records, info.SerializeToString()


def is_of_record(record: bytes, size: int, name: bytes, op_index: int) -> bool:
    return (
        len(record) == size == _kernels.TASK_BYTES
        and 0 < len(name) < 24
        and name == record[:24].rstrip(b"\0")
        and op_index == int.from_bytes(record[40:44], "little")
    )


def has_group(message: Message) -> bool:
    """Are there groups among the fields that are not read? C refuses them, protobuf passes over them."""
    nested = [value for field, value in message.ListFields() if field.type == field.TYPE_MESSAGE]
    messages = [each for value in nested for each in ([value] if isinstance(value, Message) else value)]
    return any(field.wire_type == GROUP for field in UnknownFieldSet(message)) or any(map(has_group, messages))


def message(rng: random.Random) -> ModelTaskDef:
    info = ModelTaskDef(version="1", memory_size=rng.randrange(1 << 40), weight_size=7)
    info.attr["atcpy_format"] = "2"
    for number in range(rng.randrange(6)):
        task = info.task.add(id=number, stream_id=rng.randrange(3))
        if rng.random() < 0.3:
            task.private_def = rng.randbytes(rng.choice([1, 200]))
            continue
        family = rng.choice(["relu", "a" * 23, "host"])
        op_index = rng.choice([0, 1, 300, (1 << 32) - 1])
        task.kernel.kernel_name = family
        task.kernel.args = pack_task(family, [], [], rng.randbytes(8), op_index=op_index)
        task.kernel.args_size = len(task.kernel.args)
        task.kernel.context.op_index = op_index
        task.kernel.context.args_count = number
        if rng.random() < 0.3:
            task.kernel_hccl.hccl_type = "HcomAllReduce"
    return info


def test_c_reads_the_tasks_that_protobuf_reads() -> None:
    rng = random.Random(0)
    for _ in range(trials(200)):
        info = message(rng)
        found = read_by_c(info.SerializeToString())
        assert found is not None
        assert found[:2] == (read_by_protobuf(READ.FromString(info.SerializeToString())) or ())[:2]
        del info.task[:]
        assert ModelTaskDef.FromString(found[2]) == info


class Wire:
    """Tasks as no writer writes them: fields in any order, in pieces, repeated, padded, of other types."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def varint(self, number: int, widths: tuple[int, ...] = (0, 0, 0, 0, 0, 0, 5, 6, 10, 11)) -> bytes:
        """A number, some with zeros up to a number of bytes."""
        out = bytearray()
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
        padding = self.rng.choice(widths) - len(out) if self.rng.random() < 0.1 else 0
        if padding > 0:
            out[-1] |= 0x80
            out += b"\x80" * (padding - 1) + b"\0"
        return bytes(out)

    def field(self, number: int, content: int | bytes) -> bytes:
        if isinstance(content, int):
            return self.varint(number << 3 | VARINT) + self.varint(content)
        return self.varint(number << 3 | LENGTH) + self.varint(len(content)) + content

    def other(self) -> bytes:
        """A field that has the number of one that is read, or another one, of any type."""
        number = self.rng.choice([1, 4, 10, 12, 13, 17, 20, 34, 98, (1 << 29) - 1])
        tag = self.varint(number << 3 | (kind := self.rng.choice([VARINT, FIXED_64, LENGTH, FIXED_32])))
        match kind:
            case 0:
                return tag + self.varint(self.rng.choice([0, 640, (1 << 32) + 640, (1 << 64) - 1]))
            case 2:
                return tag + self.varint(size := self.rng.choice([0, 1, 9])) + self.rng.randbytes(size)
        return tag + bytes(8 if kind == FIXED_64 else 4)

    def in_pieces(self, number: int, fields: list[bytes]) -> bytes:
        """A message of fields, some of them twice, as one field or as two."""
        fields += self.rng.choices(fields, k=self.rng.choice([0, 0, 1, 2]))
        if self.rng.random() < 0.3:
            fields.append(self.other())
        self.rng.shuffle(fields)
        cut = self.rng.choice([0, 0, self.rng.randrange(len(fields))])
        parts = [fields[:cut], fields[cut:]] if cut else [fields]
        return b"".join(self.field(number, b"".join(part)) for part in parts)

    def task(self) -> bytes:
        if self.rng.random() < 0.2:
            return self.field(10, self.field(34, self.rng.randbytes(self.rng.choice([0, 1, 9]))))
        number = self.rng.choice([0, 7, 1 << 31])
        kernel = [
            self.field(12, self.rng.choice([640] * 9 + [(1 << 32) + 640, 641])),
            self.field(13, pack_task("relu", [], [], b"", op_index=number)),
            self.field(17, self.rng.choice([b"relu"] * 9 + [b"relu\0", b"re\xff"])),
            self.in_pieces(1, [self.field(4, number), self.field(7, 3)]),
        ]
        return self.field(10, self.in_pieces(20, kernel))

    def info(self) -> bytes:
        fields = [self.task() for _ in range(self.rng.randrange(1, 4))]
        fields += [self.other() for _ in range(self.rng.choice([0, 0, 1]))]
        self.rng.shuffle(fields)
        return b"".join(fields)

    def damage(self, payload: bytes) -> bytes:
        """Change some bytes that are not zero, as few of a record's are not, or cut off the end."""
        damaged = bytearray(payload)
        places = [at for at, byte in enumerate(payload) if byte]
        for at in self.rng.sample(places, min(len(places), self.rng.randrange(3))):
            damaged[at] = self.rng.choice([0, 0xFF, damaged[at] ^ 1 << self.rng.randrange(8), self.rng.randrange(256)])
        return bytes(damaged[: self.rng.choice([len(damaged)] * 4 + [self.rng.randrange(len(damaged) + 1)])])


@pytest.mark.parametrize("is_damaged", [False, True])
def test_each_message_is_refused_or_read_as_protobuf_reads_it(is_damaged: bool) -> None:
    wire = Wire(1)
    seen = {"read": 0, "malformed": 0, "other records": 0}
    for _ in range(trials(3000)):
        payload = wire.damage(wire.info()) if is_damaged else wire.info()
        found = read_by_c(payload)
        try:
            info = READ.FromString(payload)
        except DecodeError:
            assert found is None, payload.hex()
            seen["malformed"] += 1
            continue
        if has_group(info):
            assert found is None
            continue
        assert found == read_by_protobuf(info), payload.hex()
        seen["other records" if found is None else "read"] += 1
    assert min(seen.values()) > 20


NO_MESSAGES = [
    "52", "5205", "0000", "54", "0e00",
    "08ffffffffffffffffffff", "ffffffffffff", "ffffffff7f00", "88808080800000", "12808080808000",
    "0900000000000000", "0d000000",
    "5202a201", "5203a20101", "5204a201010a", "5206a201030a0120",
]  # fmt: skip


@pytest.mark.parametrize("payload", [*map(bytes.fromhex, NO_MESSAGES)], ids=NO_MESSAGES)
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        READ.FromString(payload)
    with pytest.raises(_kernels.Refused, match=r"no domi\.ModelTaskDef"):
        _kernels.split_tasks(payload)


@pytest.mark.parametrize("payload", [b"\x53\x54", b"\x1b\x1c", b"\x52\x02\x1b\x1c"], ids=bytes.hex)
def test_groups_are_refused(payload: bytes) -> None:
    assert has_group(READ.FromString(payload))
    with pytest.raises(_kernels.Refused, match=r"no domi\.ModelTaskDef"):
        _kernels.split_tasks(payload)


@pytest.mark.parametrize("name", ["", "rel", "relu_", "relu\0", "b" * 25])
def test_a_task_names_the_family_of_its_record(name: str) -> None:
    info = ModelTaskDef(
        task=[TaskDef(kernel=KernelDef(kernel_name=name, args=pack_task("relu", [], [], b""), args_size=640))]
    )
    with pytest.raises(_kernels.Refused, match="not of the kernel") as caught:
        _kernels.split_tasks(info.SerializeToString())
    assert caught.value.args[1] == 0


def test_a_task_names_the_node_of_its_record() -> None:
    record = pack_task("relu", [], [], b"", op_index=3)
    kernel = KernelDef(kernel_name="relu", args=record, args_size=640, context={"op_index": 4})
    with pytest.raises(_kernels.Refused, match="not of the node"):
        _kernels.split_tasks(ModelTaskDef(task=[TaskDef(kernel=kernel)]).SerializeToString())


@pytest.mark.parametrize("partition", [None, "text", memoryview(b"abcd")[::2]], ids=["none", "text", "gaps"])
def test_a_partition_is_bytes(partition: Any) -> None:
    with pytest.raises((TypeError, BufferError)):
        _kernels.split_tasks(partition)


def _rename(info: Any) -> None:
    """Give a task and its record a kernel whose name is no text."""
    kernel = info.task[0].kernel
    kernel.args = b"\xff" * 4 + bytes(20) + kernel.args[24:]
    kernel.kernel_name = "text"


TEXTS: dict[str, tuple[Callable[[Any], object], bool]] = {
    "the name of a kernel": (_rename, False),
    "a text of a task that nobody reads": (lambda m: setattr(m.task[0].kernel, "so_name", "text"), True),
    "the name of an attribute": (lambda m: m.attr.update({"text": ""}), False),
}


@pytest.mark.parametrize(("change", "runs"), TEXTS.values(), ids=TEXTS)
def test_text_that_is_no_utf_8_is_refused_or_not_read(
    change: Callable[[Any], object], runs: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = mutate_partition(package("m (float[4] x) => (float[4] y) { y = Relu(x) }"), Partition.TASK_INFO, change)
    damaged = reseal(whole.replace(b"text", b"\xff" * 4))
    assert damaged != whole
    (tmp_path / "m.om").write_bytes(damaged)
    for command in (["inspect", "--all"], ["run", "--fill", "zeros"]):
        code = execute([command[0], str(tmp_path / "m.om"), *command[1:]])
        printed = capsys.readouterr().err
        assert code == (0 if runs else 7) and ("error[P0005]" in printed) is not runs, printed


def test_records_are_a_sequence_of_tasks() -> None:
    heads = [("relu", 4), ("host", 5), ("relu", 6)]
    records = [pack_task(family, [], [], b"", op_index=number) for family, number in heads]
    tasks = TaskRecords(b"".join(records))
    listed = [TaskRecord(*head, record) for head, record in zip(heads, records, strict=True)]
    assert list(tasks) == listed and tasks[-1] == listed[2] and tasks.numbers_of("relu") == [0, 2]
    for part in (slice(1, None), slice(-1), slice(2, 1), slice(0, 9)):
        assert list(tasks[part]) == listed[part]
    assert tasks[:] == tasks and hash(tasks[:]) == hash(tasks) and tasks[:1] != tasks and tasks != listed
    with pytest.raises(IndexError):
        tasks[3]
    with pytest.raises(ValueError, match="order"):
        tasks[::2]

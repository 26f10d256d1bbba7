"""Changes one field of a protobuf message at random: a mutant that every byte-level check lets through."""

import random
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message

from atcpy.om import container
from atcpy.om.container import Partition
from atcpy.om.reader import parse_package
from atcpy.om.schema.ge_ir_pb2 import ModelDef
from atcpy.om.schema.task_pb2 import ModelTaskDef
from atcpy.om.writer import _padding

NUMBERS = [0, 1, -1, 2, 7, 255, 2**31 - 1, -(2**31), 2**62, -(2**63)]
NAMES = ["", "x:0", "conv", "conv:0", "conv:99", "1.body", "ND"]
TEXTS = [
    b"", b"\xff", b"1.body", b"f32[1] [1e999]", b"i8[1] [300]", b"u4[1] [-1]", b"c64[1] [[1,2]]", b"str[1] [1]",
    b"NC1HWC0", b"FRACTAL_Z", b"float8e5m2", b'{"passes":[],"removed":[]}', b"[" * 20_000,
]  # fmt: skip
RANGES = {
    Field.TYPE_UINT32: (0, 2**32 - 1),
    Field.TYPE_UINT64: (0, 2**64 - 1),
    Field.TYPE_INT32: (-(2**31), 2**31 - 1),
    Field.TYPE_INT64: (-(2**63), 2**63 - 1),
}


def mutate_partition(whole: bytes, partition: Partition, change: Callable[[Any], object]) -> bytes:
    """A package whose one message is changed, with sizes and checksums that fit."""
    opened = parse_package(whole).container
    kind = ModelDef if partition is Partition.MODEL_DEF else ModelTaskDef
    message = kind.FromString(bytes(opened.partition(partition)))
    change(message)
    parts = {e.partition: bytes(opened.partition(e.partition)) for e in opened.extents}
    parts[partition] = message.SerializeToString() or b"\0"
    sizes = {p: len(payload) for p, payload in parts.items()}
    parts[Partition.MODEL_DEF] += _padding(-container.weights_offset(sizes))
    sizes[Partition.MODEL_DEF] = len(parts[Partition.MODEL_DEF])
    head, order = container.frame(sizes, name="m", platform_version="1")
    return container.reseal(head + b"".join(parts[p] for p in order))


def mutate_message(message: Message, rng: random.Random) -> None:
    """Change, drop, repeat or swap something in one to four places."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if fields := _places(message):
            _mutate_field(*rng.choice(fields), rng)


def _places(message: Message) -> list[tuple[Message, Field]]:
    """Every field that is set, of the message and of those in it."""
    fields: list[tuple[Message, Field]] = []
    pending: list[Any] = [message]
    for holder in pending:  # grows while it is walked
        for field, value in holder.ListFields():
            fields.append((holder, field))
            if _is_map(field):
                values = value.values()
                pending.extend(v for v in values if isinstance(v, Message))
            elif field.message_type is not None:
                pending.extend(value if field.is_repeated else [value])
    return fields


def _is_map(field: Field) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _mutate_field(holder: Message, field: Field, rng: random.Random) -> None:
    value = getattr(holder, field.name)
    if _is_map(field):
        _mutate_map(value, rng)
    elif field.is_repeated:
        _mutate_list(value, field, rng)
    elif field.message_type is not None or rng.random() < 0.2:
        holder.ClearField(field.name)
    else:
        setattr(holder, field.name, _other_value(field, value, rng))


def _mutate_map(entries: Any, rng: random.Random) -> None:
    key, other = rng.choice(sorted(entries)), rng.choice(sorted(entries))
    if rng.random() < 0.5:
        del entries[key]
    elif isinstance(entries[key], Message):
        entries[key].CopyFrom(entries[other])
    else:
        entries[key] = rng.choice([entries[other], "2", "-1", "x"])


def _mutate_list(items: Any, field: Field, rng: random.Random) -> None:
    index = rng.randrange(len(items))
    chance = rng.random()
    if chance < 0.3:
        del items[index]
    elif chance < 0.5:
        items.append(items[index])
    elif field.message_type is not None:
        items[index].CopyFrom(rng.choice(list(items)))
    else:
        items[index] = _other_value(field, items[index], rng)


def _other_value(field: Field, old: Any, rng: random.Random) -> Any:
    if field.type == Field.TYPE_STRING:
        return rng.choice([*NAMES, old[:-1], old + "0"])
    if field.type == Field.TYPE_BYTES:
        return rng.choice([*TEXTS, old[:-1], old + b"0"])
    if field.type == Field.TYPE_BOOL:
        return not old
    if field.type == Field.TYPE_FLOAT:
        return float("nan")
    if field.type == Field.TYPE_ENUM:
        return rng.randrange(45)
    low, high = RANGES[field.type]
    return min(max(rng.choice([*NUMBERS, old + 1, old - 1, old * 2]), low), high)

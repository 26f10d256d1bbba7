"""Changes fields of a package's protobuf messages at random: mutants that every byte-level check lets through."""

import random
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from atcpy.om import container
from atcpy.om.container import Partition
from atcpy.om.reader import parse_package
from atcpy.om.schema.ge_ir_pb2 import ModelDef
from atcpy.om.schema.task_pb2 import ModelTaskDef
from atcpy.om.writer import _padding
from tests.fuzz.changes import Vocabulary, change_message

VOCABULARY = Vocabulary(
    ["", "x:0", "conv", "conv:0", "conv:99", "1.body", "ND"],
    [
        b"", b"\xff", b"1.body", b"f32[1] [1e999]", b"i8[1] [300]", b"u4[1] [-1]", b"c64[1] [[1,2]]", b"str[1] [1]",
        b"NC1HWC0", b"FRACTAL_Z", b"float8e5m2", b'{"passes":[],"removed":[]}', b"[" * 20_000,
    ],
)  # fmt: skip


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
    """Change something in one to four fields."""
    change_message(message, rng, VOCABULARY)

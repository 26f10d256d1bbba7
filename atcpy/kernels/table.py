"""The kernel table as Python sees it, and task records: packing arguments by name.

The C side is the one truth: families, their argument fields and the rows come from the extension.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate

from atcpy.errors import InternalError
from atcpy.ir import DType, Region, Slot, Task
from atcpy.ir.instruction import Instruction
from atcpy.ir.symbolic import is_symbolic
from atcpy.kernels import _kernels
from atcpy.kernels.record import HEADER, SLOT

_PROGRAMS = "graph_kernel"
_FIRST_OP = {"unary": 0, "binary": 64, "reduce": 128, _PROGRAMS: 192}
_OWN_OPS = ("Const", "Cast", "Select", "Pow", "IsNaN", "IsInf")
TASK_BYTES: int = _kernels.TASK_BYTES
MAX_RANK: int = _kernels.MAX_RANK

ParamValue = int | float | str | Sequence[int | Instruction]

_PARAMS_OFFSET = HEADER.size + SLOT.size * _kernels.MAX_SLOTS


@dataclass(frozen=True, slots=True)
class Field:
    """One argument of a family: `count` numbers of 8 bytes; `choices` names an enum's values."""

    name: str
    is_float: bool
    count: int
    choices: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One kernel: the family that it implements, for which element type, on which ISA, and whether for some launches of
    it only.
    """

    name: str
    family: str
    dtype: DType
    isa: str
    is_conditional: bool


@cache
def families() -> Mapping[str, tuple[Field, ...]]:
    """The families and their arguments."""
    return {
        name: tuple(
            Field(field, is_float, count, tuple(choices) if choices is not None else None)
            for field, is_float, count, choices in fields
        )
        for name, fields in _kernels.families().items()
    }


@cache
def kernel_table() -> tuple[KernelRow, ...]:
    """Every kernel row, in the order in which the loader tries them."""
    return tuple(
        KernelRow(name, family, DType.from_onnx(dtype), isa, is_conditional)
        for name, family, dtype, isa, is_conditional in _kernels.rows()
    )


@cache
def _packers() -> Mapping[str, tuple[struct.Struct, int]]:
    """Of each family's argument struct, and how many numbers it has."""
    return {
        name: (
            struct.Struct("<" + "".join(f"{field.count}{'d' if field.is_float else 'q'}" for field in fields)),
            sum(field.count for field in fields),
        )
        for name, fields in families().items()
    }


@cache
def _field_offsets() -> Mapping[str, Mapping[str, tuple[Field, int]]]:
    """Of each family, the arguments by name and where the numbers of each begin."""
    starts = {name: accumulate((field.count for field in fields), initial=0) for name, fields in families().items()}
    return {
        name: {field.name: (field, start) for field, start in zip(fields, starts[name], strict=False)}
        for name, fields in families().items()
    }


def pack_params(family: str, params: Mapping[str, ParamValue]) -> bytes:
    """The family's argument struct; fields that `params` leaves out are zero, lists are padded
    with zeros, names of enum values become numbers. InternalError for a name that does not exist.
    """
    field_offsets = _field_offsets().get(family)
    if field_offsets is None:
        raise InternalError(f"no kernel family {family}")
    packer, count = _packers()[family]
    numbers: list[int | float] = [0] * count
    for name, value in params.items():
        if name not in field_offsets:
            raise InternalError(f"kernel family {family} has no argument {name}")
        field, start = field_offsets[name]
        if isinstance(value, str):
            if field.choices is None or value not in field.choices:
                raise InternalError(f"kernel family {family}: {name} cannot be {value!r}")
            value = field.choices.index(value)
        values = [value] if isinstance(value, int | float) else [_number(item) for item in value]
        if len(values) > field.count:
            raise InternalError(f"kernel family {family}: {name} has {len(values)} values")
        numbers[start : start + len(values)] = values
    return packer.pack(*numbers)


def read_number(record: bytes, family: str, name: str) -> int:
    """The argument `name`, one integer, of a record of a family."""
    _, number = _field_offsets()[family][name]
    return int.from_bytes(record[_PARAMS_OFFSET + 8 * number :][:8], "little", signed=True)


def split_symbolic(
    family: str, params: Mapping[str, ParamValue]
) -> tuple[Mapping[str, ParamValue], tuple[tuple[int, int], ...]]:
    """The arguments with 0 for those that depend on symbols, and these with their offsets in bytes in the record."""
    plain: dict[str, ParamValue] = {}
    patches: list[tuple[int, int]] = []
    for name, value in params.items():
        items: Sequence[object] = [value] if isinstance(value, int | float | str) else value
        if not any(map(is_symbolic, items)):
            plain[name] = value
            continue
        field, start = _field_offsets()[family][name]
        if field.is_float or field.choices is not None:
            raise InternalError(f"kernel family {family}: {name} depends on symbols")
        numbers = [item for item in items if isinstance(item, int)]
        plain[name] = [0 if is_symbolic(number) else number for number in numbers]
        offsets = range(_PARAMS_OFFSET + 8 * start, TASK_BYTES, 8)
        patches += [(offset, number) for offset, number in zip(offsets, numbers, strict=False) if is_symbolic(number)]
    return plain, tuple(patches)


def slot_patches(slots: Sequence[Slot | None]) -> Iterator[tuple[int, int]]:
    """Offset and size in bytes of operands where they depend on symbols, with their offsets in the record."""
    for number, slot in enumerate(slots):
        start = HEADER.size + number * SLOT.size
        if slot is not None and is_symbolic(slot.offset):
            yield start + 8, slot.offset
        if slot is not None and is_symbolic(slot.nbytes):
            yield start + 16, slot.nbytes


def _number(item: int | Instruction) -> int:
    """An instruction as the word that it is in C: op, d, a, b of 8 bits each, 32 bits of data; signed."""
    if not isinstance(item, Instruction):
        return item if item < 1 << 63 else item - (1 << 64)
    number = _number_of_op(item.family, item.op)
    word = number | item.d << 8 | item.a << 16 | item.b << 24 | item.immediate << 32
    return word if word < 1 << 63 else word - (1 << 64)


@cache
def _number_of_op(family: str, op: str) -> int:
    """What a program calls an op: as in graph_kernel.h."""
    if family == _PROGRAMS:
        return _FIRST_OP[family] + _OWN_OPS.index(op)
    choices = next(field.choices for field in families()[family] if field.choices is not None)
    assert choices is not None
    return _FIRST_OP[family] + choices.index(op)


def pack_compiled_task(task: Task, moved: Callable[[int], int] | None = None) -> bytes:
    """The record of a task of a compiled model. Constants lie at their planned offsets, or where `moved` says
    that these are.
    """
    src = task.src if moved is None else [_move(slot, moved) for slot in task.src]
    return pack_task(
        task.kernel,
        src,
        task.dst,
        task.params,
        op_index=task.op_index,
        stream=task.stream,
        event_wait=task.event_wait,
        event_record=task.event_record,
    )


def _move(slot: Slot | None, moved: Callable[[int], int]) -> Slot | None:
    if slot is None or slot.region is not Region.WEIGHTS:
        return slot
    return replace(slot, offset=moved(slot.offset))


def pack_task(
    family: str,
    src: Sequence[Slot | None],
    dst: Sequence[Slot],
    params: bytes,
    *,
    op_index: int = 0,
    stream: int = 0,
    event_wait: int = 0,
    event_record: int = 0,
) -> bytes:
    """A task record of TASK_BYTES bytes, as csrc/core/task.h lays it out."""
    if len(src) + len(dst) > _kernels.MAX_SLOTS:
        raise InternalError(f"a task of {family} has {len(src) + len(dst)} operands")
    head = HEADER.pack(family.encode(), len(src), len(dst), 0, stream, event_wait, event_record, op_index, 0)
    slots = b"".join(map(_pack_slot, (*src, *dst)))
    body = head + slots.ljust(SLOT.size * _kernels.MAX_SLOTS, b"\0") + params
    return body.ljust(TASK_BYTES, b"\0")


def _pack_slot(slot: Slot | None) -> bytes:
    if slot is None:
        return bytes(SLOT.size)
    offset = 0 if is_symbolic(slot.offset) else slot.offset
    nbytes = 0 if is_symbolic(slot.nbytes) else slot.nbytes
    return SLOT.pack(slot.region, slot.desc.dtype.onnx, slot.index, 0, offset, nbytes)

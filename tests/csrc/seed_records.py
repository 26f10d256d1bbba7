"""Writes kernel launches as seeds for the fuzz targets in C: `seed_records.py OUT [MODEL.onnx…]`.

The seeds are those of `launches.txt`, which has some of every kernel family, and the launches of converted models. A
line of `launches.txt` is a launch as the fuzzers print it: the family, the type and the bytes of each operand (`-`:
left out, `=N`: in the memory of source N, `@N`: a constant at byte N), the arguments that are not zero, and constants.

    unary src f32:64 dst f32:64=0 n=16 op=Exp

`seed_records.py --lines FILE` prints the lines of what a fuzzer wrote to FILE.

Each record stands alone: its operands are laid one after another into an arena, sharing memory where they shared it.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from atcpy.errors import AtcError
from atcpy.ir import DType, Region, Slot, Task, TensorDesc
from atcpy.kernels.record import HEADER, HOST_FAMILY, SLOT, record_family
from atcpy.kernels.table import TASK_BYTES, Field, families, pack_task
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model

LAUNCHES = Path(__file__).with_name("launches.txt")
MAX_ARENA = 1 << 18  # of fuzz_plan.c: larger operands would be out of its bounds
MAX_CONSTANTS = 1024  # FUZZ_CONSTANTS of fuzz.h
PER_FAMILY = 60
_TYPES = {dtype.short: dtype for dtype in DType}
_PARAMS_AT = HEADER.size + SLOT.size * 12


def launches() -> Iterator[tuple[str, bytes]]:
    """(family, launch) of each line of `launches.txt`."""
    for line in LAUNCHES.read_text().splitlines():
        yield line.split()[0], read_line(line)


def read_line(line: str) -> bytes:
    """The record of a line, and its constants."""
    family, keyword, *words = line.split()
    assert keyword == "src", line
    cut = words.index("dst")
    arguments = [word for word in words if "=" in word and not word.split("=")[0].partition(":")[1]]
    sources, end = _read_slots(words[:cut], [], 0)
    results, _ = _read_slots(words[cut + 1 : len(words) - len(arguments)], sources, end)
    values = dict(word.split("=", 1) for word in arguments)
    constants = bytes.fromhex(values.pop("constants", ""))
    dst = [slot for slot in results if slot is not None]
    record = pack_task(family, sources, dst, _read_params(families()[family], values))
    return record + constants.ljust(MAX_CONSTANTS, b"\0")


def _read_slots(words: Sequence[str], before: Sequence[Slot | None], end: int) -> tuple[list[Slot | None], int]:
    """Operands, and where the next one may lie."""
    slots: list[Slot | None] = []
    for word in words:
        if word == "-":
            slots.append(None)
            continue
        dtype, _, size = word.partition(":")
        size, _, shared = size.partition("=")
        size, _, constant = size.partition("@")
        desc = TensorDesc.plain(_TYPES[dtype], (1,))
        if constant:
            slots.append(Slot(Region.WEIGHTS, int(constant), int(size), desc))
            continue
        source = before[int(shared)] if shared else None
        slots.append(Slot(Region.ARENA, end if source is None else source.offset, int(size), desc))
        end += -(-max(int(size), 1) // 64) * 64
    return slots, end


def _read_params(fields: Sequence[Field], values: dict[str, str]) -> bytes:
    packed = b""
    for field in fields:
        words = values.pop(field.name, "").split(",")
        words = [*words, *[""] * field.count][: field.count]
        for word in words:
            if field.is_float:
                packed += struct.pack("<d", float(word or 0))
            elif field.choices is not None and word in field.choices:
                packed += struct.pack("<q", field.choices.index(word))
            else:
                packed += struct.pack("<q", int(word or 0))
    assert not values, f"no such arguments: {sorted(values)}"
    return packed


def line_of(launch: bytes) -> str:
    """The line of a record and its constants."""
    family = record_family(launch)
    _, n_src, n_dst, *_ = HEADER.unpack_from(launch)
    slots = [SLOT.unpack_from(launch, HEADER.size + SLOT.size * number) for number in range(n_src + n_dst)]
    words = [family, "src", *(_slot_word(slot, []) for slot in slots[:n_src]), "dst"]
    words += [_slot_word(slot, slots[:n_src] if number == 0 else []) for number, slot in enumerate(slots[n_src:])]
    at = _PARAMS_AT
    for field in families()[family]:
        values = struct.unpack_from(f"<{field.count}{'d' if field.is_float else 'q'}", launch, at)
        bits = struct.unpack_from(f"<{field.count}q", launch, at)
        at += 8 * field.count
        used = max((index + 1 for index, word in enumerate(bits) if word != 0), default=0)
        if used > 0:
            names = field.choices or ()
            words.append(f"{field.name}={','.join(_number_word(v, names) for v in values[:used])}")
    constants = launch[TASK_BYTES:].rstrip(b"\0")
    return " ".join([*words, f"constants={constants.hex()}"] if constants else words)


def _slot_word(slot: tuple[int, ...], sources: Sequence[tuple[int, ...]]) -> str:
    region, dtype, _, _, offset, nbytes = slot
    if region == 0:
        return "-"
    word = f"{DType.from_onnx(dtype).short}:{nbytes}"
    if region == Region.WEIGHTS:
        return f"{word}@{offset}"
    shared = [index for index, source in enumerate(sources) if source[0] == region and source[4] == offset]
    return f"{word}={shared[0]}" if shared else word


def _number_word(value: float, names: Sequence[str]) -> str:
    if isinstance(value, int) and 0 <= value < len(names):
        return names[value] or str(value)
    return repr(value)


def standalone(task: Task) -> tuple[list[Slot | None], list[Slot], int]:
    """The operands in an arena of their own, and its size."""
    placed: dict[tuple[Region, int, int], int] = {}
    end = 0

    def move(slot: Slot) -> Slot:
        nonlocal end
        key = (slot.region, slot.index, slot.offset)
        if key not in placed:
            placed[key] = end
            end += -(-max(slot.nbytes, 1) // 64) * 64
        return replace(slot, region=Region.ARENA, offset=placed[key], index=0)

    src = [None if slot is None else move(slot) for slot in task.src]
    return src, [move(slot) for slot in task.dst], end


def model_launches(path: Path) -> Iterator[tuple[str, bytes]]:
    """(family, launch) of each task that fits."""
    compiled, _ = compile_model(path, convert_options({}))
    for task in compiled.tasks:
        src, dst, end = standalone(task)
        if task.kernel != HOST_FAMILY and end <= MAX_ARENA:
            yield task.kernel, pack_task(task.kernel, src, dst, task.params) + bytes(MAX_CONSTANTS)


def write(out: str, *models: str) -> None:
    """Write the launches of the file, and the distinct ones of all models that convert as they are."""
    found: dict[str, dict[bytes, None]] = {}
    for model in models:
        try:
            for family, launch in model_launches(Path(model)):
                kept = found.setdefault(family, {})
                if len(kept) < PER_FAMILY:
                    kept[launch] = None
        except AtcError as error:
            print(f"{model}: {error.code}", file=sys.stderr)
    for family, launch in launches():
        found.setdefault(family, {})[launch] = None
    Path(out).write_bytes(b"".join(launch for kept in found.values() for launch in kept))
    print(", ".join(f"{family} {len(kept)}" for family, kept in sorted(found.items())))


def main(*arguments: str) -> None:
    """Write seeds, or print the lines of a file of launches."""
    if arguments[0] != "--lines":
        write(*arguments)
        return
    content, size = Path(arguments[1]).read_bytes(), TASK_BYTES + MAX_CONSTANTS
    for start in range(0, len(content), size):
        print(line_of(content[start : start + size]))


if __name__ == "__main__":
    main(*sys.argv[1:])

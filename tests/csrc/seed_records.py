"""Writes the task records of converted models, as seeds for fuzz_plan: `seed_records.py OUT MODEL.onnx…`.

Each record stands alone: its operands are laid one after another into an arena, sharing memory where they shared it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from atcpy.errors import AtcError
from atcpy.ir import DType, Region, Slot, Task, TensorDesc
from atcpy.kernels.record import HOST_FAMILY
from atcpy.kernels.table import pack_task
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.kernels.graph_programs import IS_NAN, Program, record

MAX_ARENA = 1 << 18  # of fuzz_plan.c: larger operands would be out of its bounds
PER_FAMILY = 60


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


def records(path: Path) -> Iterator[tuple[str, bytes]]:
    """(family, record) of each task that fits."""
    compiled, _ = compile_model(path, convert_options({}))
    for task in compiled.tasks:
        src, dst, end = standalone(task)
        if task.kernel != HOST_FAMILY and end <= MAX_ARENA:
            yield task.kernel, pack_task(task.kernel, src, dst, task.params)


def program_records() -> Iterator[bytes]:
    """Programs of graph_kernel that no model may have: every kind of instruction, broadcast and destination."""
    f32, i64, f16 = DType.FLOAT32, DType.INT64, DType.FLOAT16
    for dims, column in (((3, 5), (3, 1)), ((2, 3, 700), (3, 1)), ((40, 30), (30,)), ((4, 1500), (4, 1))):
        program = Program([f32, f32, i64, f16])
        product = program.binary("Mul", 0, 1)
        clipped = program.unary("Clip", program.binary("Sub", product, None, 1.5), -1, 2)
        flag = program.binary("Greater", program.cast(2, f32), clipped)
        chosen = program.select(program.binary("Or", flag, program.classify(IS_NAN, 3)), clipped, program.const(f32, 7))
        narrow = program.cast(program.binary("Pow", chosen, None, 1.5), f16)
        top = program.reduce("max", narrow)
        shares = program.binary("Div", program.binary("Sub", narrow, top), program.reduce("sum", product))
        for results in (
            ((shares, f32, dims), (top, f32, (*dims[:-1], 1))),
            ((narrow, f16, dims), (flag, DType.BOOL, dims)),
        ):
            shapes = [(dims, f32), (column, f32), (dims, i64), ((1,), f16), *((s, t) for _, t, s in results)]
            arrays = [np.zeros(shape, dtype.numpy) for shape, dtype in shapes]
            slots, end = [], 0
            for array, (shape, dtype) in zip(arrays, shapes, strict=True):
                slots.append(Slot(Region.ARENA, end, array.nbytes, TensorDesc.plain(dtype, shape)))
                end += -(-array.nbytes // 64) * 64
            pairs = [(register, array) for (register, _, _), array in zip(results, arrays[4:], strict=True)]
            yield record(program, dims, arrays[:4], pairs, slots)


def main(out: str, *models: str) -> None:
    """Writes the distinct records of all models that convert as they are."""
    found: dict[str, dict[bytes, None]] = {}
    for model in models:
        try:
            for family, task in records(Path(model)):
                kept = found.setdefault(family, {})
                if len(kept) < PER_FAMILY:
                    kept[task] = None
        except AtcError as error:
            print(f"{model}: {error.code}", file=sys.stderr)
    found.setdefault("graph_kernel", {}).update(dict.fromkeys(program_records()))
    Path(out).write_bytes(b"".join(task for kept in found.values() for task in kept))
    print(", ".join(f"{family} {len(kept)}" for family, kept in sorted(found.items())))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Writes the task records of converted models, as seeds for fuzz_plan: `seed_records.py OUT MODEL.onnx…`.

Each record stands alone: its operands are laid one after another into an arena, sharing memory where they shared it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from atcpy.errors import AtcError
from atcpy.ir import Region, Slot, Task
from atcpy.kernels.table import HOST_FAMILY, pack_task
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model

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


def main(out: str, *models: str) -> None:
    """Writes the distinct records of all models that convert as they are."""
    found: dict[str, dict[bytes, None]] = {}
    for model in models:
        try:
            for family, record in records(Path(model)):
                kept = found.setdefault(family, {})
                if len(kept) < PER_FAMILY:
                    kept[record] = None
        except AtcError as error:
            print(f"{model}: {error.code}", file=sys.stderr)
    Path(out).write_bytes(b"".join(record for kept in found.values() for record in kept))
    print(", ".join(f"{family} {len(kept)}" for family, kept in sorted(found.items())))


if __name__ == "__main__":
    main(*sys.argv[1:])

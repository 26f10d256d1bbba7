"""Serialized symbolic plans, in the layout of core/symbolic.h."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.kernels import _kernels

OPS = {name: number for number, name in enumerate(_kernels.PROGRAM_OPS)}
SELECT, REQUIRE = 0, 1
I64, F64, RECIPROCAL = 0, 1, 2
SLOTS_AT, SLOT_BYTES, PARAMS_AT = 48, 24, 336


def offset_of(operand: int) -> int:
    """Position of an operand's offset in a task record."""
    return SLOTS_AT + operand * SLOT_BYTES + 8


def bytes_of(operand: int) -> int:
    """Position of an operand's size in bytes in a task record."""
    return SLOTS_AT + operand * SLOT_BYTES + 16


@dataclass
class Blob:
    """The parts of a symbolic plan."""

    symbols: Sequence[tuple[int, int]] = ()
    constants: Sequence[int] = ()
    instrs: Sequence[tuple[int, int, int, int]] = ()
    guards: Sequence[tuple[int, int]] = ()
    patches: Sequence[tuple[int, int, int, int]] = ()
    blocks: Sequence[tuple[int, int, int]] = ()
    placements: Sequence[tuple[int, int]] = ()
    inputs: Sequence[int] = ()
    outputs: Sequence[tuple[int, Sequence[int]]] = ()
    n_tasks: int = 0
    version: int = 2

    def pack(self) -> bytes:
        """Serialize the plan."""
        counts = [
            len(part)
            for part in (
                self.symbols,
                self.constants,
                self.instrs,
                self.guards,
                self.patches,
                self.blocks,
                self.placements,
                self.inputs,
                self.outputs,
            )
        ]
        code = [
            word for part in (self.instrs, self.guards, self.patches, self.blocks) for item in part for word in item
        ]
        numbers = [number for placement in self.placements for number in placement]
        ports = [
            *self.inputs,
            *(word for slot, dims in self.outputs for word in (slot, len(dims), *dims)),
        ]
        values = [*(bound for symbol in self.symbols for bound in symbol), *self.constants]
        form = f"<11I{len(values)}q{len(code)}I{len(numbers)}q{len(ports)}I"
        return struct.pack(form, self.version, *counts, self.n_tasks, *values, *code, *numbers, *ports)

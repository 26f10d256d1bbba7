"""Symbolic plans as the compiler writes them: memory planning of blocks, and corrupted programs."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from atcpy.ir import DType, Engine, Region, Slot, Task, TensorDesc
from atcpy.ir.symbolic import Guard, Tracer, terms_of
from atcpy.kernels import _kernels
from atcpy.kernels.symbolic_program import (
    BlockSize,
    Placement,
    encode_program,
    largest_arena_bytes,
    planned_arena_bytes,
)
from atcpy.kernels.table import pack_compiled_task, pack_params, slot_patches, split_symbolic
from atcpy.passes.compile.memory_bound import Block
from atcpy.passes.compile.plan_largest import plan_largest
from atcpy.passes.compile.plan_memory import plan_memory


def pack_u32(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def constant_and_copy_plan(
    lives: Sequence[tuple[int, int]], sizes: Sequence[int], placements: Sequence[Placement] = ()
) -> tuple[bytes, bytes]:
    """The program and the task records of a plan with one symbol s: block i has s · sizes[i] bytes, is filled with
    i + 1 by task lives[i][0] and copied to output i by task lives[i][1].
    """
    tracer = Tracer()
    symbol = tracer.symbol("s", 1, 2**40, 3)
    tasks: dict[int, Task] = {}
    for number, ((first, last), size) in enumerate(zip(lives, sizes, strict=True)):
        nbytes = symbol * size
        desc = TensorDesc.plain(DType.UINT8, (nbytes,))
        block, port = Slot(Region.ARENA, 0, nbytes, desc, number), Slot(Region.OUTPUT, 0, nbytes, desc, number)
        line = {"rank": 1, "dims": [nbytes], "dst_strides": [1], "item": 1}
        for at, src, dst in ((first, (), block), (last, (block,), port)):
            params, patches = split_symbolic(
                "strided_copy", line | ({"src_strides": [1]} if src else {"value": number + 1})
            )
            packed = pack_params("strided_copy", params)
            patches = (*patches, *slot_patches((*src, dst)))
            tasks[at] = Task("", 0, "", Engine.VECTOR, "strided_copy", src, (dst,), packed, (), (), patches=patches)
    ordered = [tasks[number] for number in range(len(tasks))]
    blocks = [BlockSize(symbol * size, *life) for life, size in zip(lives, sizes, strict=True)]
    outputs = [(symbol * size, (symbol * size,)) for size in sizes]
    guard = Guard(terms_of(symbol - 1000), "<", True, "")
    program = encode_program(tracer, [symbol], [(1, 2**40)], [guard], ordered, blocks, placements, [], outputs)
    return program, b"".join(map(pack_compiled_task, ordered))


def random_lives(rng: random.Random, count: int) -> list[tuple[int, int]]:
    moments = rng.sample(range(2 * count), 2 * count)
    return [(min(pair), max(pair)) for pair in zip(moments[::2], moments[1::2], strict=True)]


def run(plan: _kernels.Plan, shapes: Sequence[tuple[int, ...]]) -> list[bytes]:
    outputs = [np.zeros(shape, np.uint8) for shape in shapes]
    plan.start([], [*outputs]).execute(0, len(plan.rows()))
    return [output.tobytes() for output in outputs]


@pytest.mark.parametrize("seed", range(20))
def test_live_blocks_do_not_overlap(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 24)
    lives, sizes = random_lives(rng, count), [rng.choice((0, 1, 63, 64, 65, 400, 5000)) for _ in range(count)]
    plan = _kernels.SymbolicPlan(*constant_and_copy_plan(lives, sizes), None, 1)
    for symbol in (1, 7, 100):
        completed = plan.instantiate((symbol,))
        assert completed is not None
        bound, _, shapes, arena_bytes = completed
        assert shapes == [(symbol * size,) for size in sizes]
        assert run(bound, shapes) == [bytes([number + 1]) * (symbol * size) for number, size in enumerate(sizes)]
        blocks = [Block(-(-symbol * size // 64) * 64, *life) for life, size in zip(lives, sizes, strict=True)]
        assert arena_bytes <= 1.15 * plan_memory(blocks, reuse=True).arena_bytes


@pytest.mark.parametrize("seed", range(20))
def test_placed_blocks_do_not_overlap(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 24)
    lives, sizes = random_lives(rng, count), [rng.choice((0, 1, 63, 64, 65, 400, 5000)) for _ in range(count)]
    blocks = [BlockSize(size, *life) for life, size in zip(lives, sizes, strict=True)]
    largest = plan_largest(blocks, [100 * size for size in sizes], reuse=True)
    program, records = constant_and_copy_plan(lives, sizes, largest.placements)
    plan = _kernels.SymbolicPlan(program, records, None, 1)
    assert plan.arena_bytes() == planned_arena_bytes(program) == largest.arena_bytes
    for symbol in (1, 7, 100):
        completed = plan.instantiate((symbol,))
        assert completed is not None
        bound, _, shapes, arena_bytes = completed
        assert run(bound, shapes) == [bytes([number + 1]) * (symbol * size) for number, size in enumerate(sizes)]
        assert arena_bytes == largest.arena_bytes
    if any(size >= 64 for size in sizes):
        with pytest.raises(_kernels.Refused, match="is no size up to"):
            plan.instantiate((102,))


@pytest.mark.parametrize("placements", [(), (Placement(0, 640), Placement(640, 640), Placement(0, 64))])
def test_a_broken_program_is_refused_or_harmless(placements: Sequence[Placement]) -> None:
    program, records = constant_and_copy_plan([(0, 2), (1, 3), (4, 5)], [100, 200, 1], placements)
    refused = 0
    for at in range(0, len(program), 4):
        for number in (0, 1, 5, 0xFFFF, 2**31, 2**32 - 1):
            broken = program[:at] + pack_u32(number) + program[at + 4 :]
            try:
                completed = _kernels.SymbolicPlan(broken, records, None, 1).instantiate((3,))
            except (_kernels.Refused, MemoryError, ValueError):
                refused += 1
                continue
            if completed is not None and all(np.prod(shape) < 10**6 for shape in completed[2]):
                try:
                    run(completed[0], completed[2])
                except (ValueError, MemoryError):
                    refused += 1  # the shape does not match the size in bytes, or the arena is too large
    assert refused > 100


@pytest.mark.parametrize(
    ("offset", "kind"),
    [
        (0, 0),  # the family
        (24, 0),  # the number of operands
        (48, 0),  # the region of an operand
        (48 + 8 + 24 * 5, 0),  # beyond the last operand
        (336 + 8 * 30, 0),  # beyond the last parameter
        (336 + 4, 0),
        (337, 0),
        (48 + 8, 1),  # an offset as a double
        (336, 1),
        (336, 2),
        (336, 3),
        (640, 0),
        (2**32 - 8, 0),
    ],
)
def test_patches_outside_patchable_fields_are_refused(offset: int, kind: int) -> None:
    program, records = constant_and_copy_plan([(0, 1)], [100])
    assert _kernels.SymbolicPlan(program, records, None, 1).instantiate((1,)) is not None
    patch = program.index(pack_u32(1, 48 + 16))  # the first operand's size in bytes
    broken = (
        program[:patch]
        + pack_u32(1, offset, struct.unpack_from("<I", program, patch + 8)[0], kind)
        + program[patch + 16 :]
    )
    with pytest.raises(_kernels.Refused):
        _kernels.SymbolicPlan(broken, records, None, 1)


def test_an_operand_beyond_its_block_is_refused() -> None:
    program, records = constant_and_copy_plan([(0, 1)], [100])
    for offset, index, fits in ((0, 0, True), (1, 0, False), (2**63, 0, False), (0, 1, False)):
        slot = struct.pack("<BBHIQ", Region.ARENA, DType.UINT8.onnx, index, 0, offset)
        broken = records[:48] + slot + records[48 + len(slot) :]
        if fits:
            assert _kernels.SymbolicPlan(program, broken, None, 1).instantiate((2,)) is not None
        else:
            with pytest.raises(_kernels.Refused):
                _kernels.SymbolicPlan(program, broken, None, 1).instantiate((2,))


def test_the_largest_arena_of_several_plans() -> None:
    small, large = (constant_and_copy_plan([(0, 1)], [1], [Placement(offset, 64)])[0] for offset in (0, 6400))
    opened = constant_and_copy_plan([(0, 1)], [1])[0]
    assert largest_arena_bytes([small, large, small]) == 6464
    assert largest_arena_bytes([small, opened]) is None
    assert largest_arena_bytes([]) is None


def test_the_arena_of_a_broken_program_is_refused_or_a_number() -> None:
    placements = (Placement(0, 640), Placement(640, 640), Placement(0, 64))
    program, _ = constant_and_copy_plan([(0, 2), (1, 3), (4, 5)], [100, 200, 1], placements)
    for at in range(0, 44, 4):
        for number in (0, 1, 2**32 - 1):
            broken = program[:at] + pack_u32(number) + program[at + 4 :]
            try:
                assert isinstance(planned_arena_bytes(broken), int | None)
            except ValueError as error:
                assert "its program" in str(error)
    with pytest.raises(ValueError, match="truncated"):
        planned_arena_bytes(program[:40])
    with pytest.raises(ValueError, match="truncated"):
        planned_arena_bytes(program[: program.index(struct.pack("<4q", 0, 640, 640, 640)) + 40])


@pytest.mark.parametrize(("factor", "is_held"), [(2**63 - 1, True), (2**63, False), (-(2**63), False)])
def test_a_factor_that_is_no_int64_is_refused(factor: int, is_held: bool) -> None:
    tracer = Tracer()
    symbol = tracer.symbol("s", 1, 2**40, 3)
    encode = partial(encode_program, tracer, [symbol], [(1, 2**40)], [], [], [], [])
    if is_held:
        assert encode([symbol * factor], [])
    else:
        with pytest.raises(OverflowError, match="no int64"):
            encode([symbol * factor], [])

"""Symbolic plans: programs against Python's integers, memory plans against the compiler's, and refused plans."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.kernels import _kernels, table
from atcpy.passes.compile.memory_bound import Block
from atcpy.passes.compile.plan_memory import plan_memory
from tests.effort import trials
from tests.kernels.symbolic_plans import F64, I64, OPS, RECIPROCAL, REQUIRE, SELECT, Blob, bytes_of, offset_of
from tests.kernels.symbolic_plans import PARAMS_AT as PARAMS

F32 = TensorDesc.plain(DType.FLOAT32, (1,))
LIMIT = 1 << 47
INPUT, OUTPUT = Slot(Region.INPUT, 0, 0, F32), Slot(Region.OUTPUT, 0, 0, F32)
N, WIDTH, ITEM, ELEMENTS, BYTES = range(5)  # indices of CHAIN's values


def unary(op: str, src: Slot, dst: Slot) -> bytes:
    return table.pack_task("unary", [src], [dst], table.pack_params("unary", {"op": op, "alpha": 1.0}))


def in_block(block: int) -> Slot:
    return Slot(Region.ARENA, 0, 0, F32, block)


RECORDS = unary("Abs", INPUT, in_block(0)) + unary("Neg", in_block(0), OUTPUT)
CHAIN = Blob(
    symbols=[(0, 1 << 20)],
    constants=[8, 4],
    instrs=[(OPS["MUL"], N, WIDTH, 0), (OPS["MUL"], ELEMENTS, ITEM, 0)],
    patches=[
        (task, offset, slot, I64)
        for task in (0, 1)
        for offset, slot in ((bytes_of(0), BYTES), (bytes_of(1), BYTES), (PARAMS, ELEMENTS))
    ],
    blocks=[(BYTES, 0, 1)],
    inputs=[BYTES],
    outputs=[(BYTES, [N, WIDTH])],
    n_tasks=2,
)


def load(blob: Blob, records: bytes = RECORDS) -> _kernels.SymbolicPlan:
    return _kernels.SymbolicPlan(blob.pack(), records, None, 1)


@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 1009, 40000])
def test_an_instance_runs_at_its_size(n: int) -> None:
    instance = load(CHAIN).instantiate([n])
    assert instance is not None
    plan, port_bytes, shapes, arena_bytes = instance
    assert (port_bytes, shapes, arena_bytes) == ([n * 32, n * 32], [(n, 8)], -(-n * 32 // 64) * 64)
    x = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
    y = np.empty(shapes[0], np.float32)
    plan.start([x.reshape(-1).view(np.uint8)], [y.reshape(-1).view(np.uint8)]).execute(0, 2)
    np.testing.assert_array_equal(y, -np.abs(x))


def test_instances_outlive_the_symbolic_plan_and_each_other() -> None:
    symbolic = load(CHAIN)
    instances = [symbolic.instantiate([n]) for n in (3, 5)]
    del symbolic
    for n, instance in zip((3, 5), instances, strict=True):
        assert instance is not None
        x, y = np.full(n * 8, 2, np.float32), np.empty(n * 8, np.float32)
        instance[0].start([x.view(np.uint8)], [y.view(np.uint8)]).execute(0, 2)
        np.testing.assert_array_equal(y, -x)


def start(symbolic: _kernels.SymbolicPlan, n: int) -> _kernels.Run:
    """Start a run of the instance of size n."""
    instance = symbolic.instantiate([n])
    assert instance is not None
    plan, port_bytes, _, _ = instance
    ports = [np.empty(nbytes, np.uint8) for nbytes in port_bytes]
    return plan.start(ports[:1], ports[1:])


def address(run: _kernels.Run) -> int:
    """The address of a run's arena."""
    return np.frombuffer(memoryview(run), np.uint8).ctypes.data


def test_instances_share_arenas_that_no_run_uses() -> None:
    symbolic = load(CHAIN)
    first = start(symbolic, 1 << 16)
    arena = address(first)
    assert address(start(symbolic, 1 << 16)) != arena  # the first run still uses its own
    del first
    assert address(start(symbolic, 1 << 14)) == arena


def test_plans_share_arenas() -> None:
    first = load(CHAIN)
    arena = address(start(first, 1 << 16))
    second = _kernels.SymbolicPlan(CHAIN.pack(), RECORDS, None, 1, arenas_of=first)
    third = _kernels.SymbolicPlan(CHAIN.pack(), RECORDS, None, 1, arenas_of=second)
    del first, second
    assert address(start(third, 1 << 16)) == arena
    assert address(start(load(CHAIN), 1 << 16)) != arena


@pytest.mark.parametrize("other", [1, "plan", _kernels.SymbolicPlan.__new__(_kernels.SymbolicPlan)])
def test_arenas_of_what_is_no_plan(other: Any) -> None:
    with pytest.raises(TypeError, match="arenas_of"):
        _kernels.SymbolicPlan(CHAIN.pack(), RECORDS, None, 1, arenas_of=other)


def test_an_arena_grows_by_a_quarter_or_more() -> None:
    symbolic = load(CHAIN)
    address(start(symbolic, 1 << 16))
    arena = address(start(symbolic, (1 << 16) + 2))
    assert address(start(symbolic, 5 << 14)) == arena


def test_an_arena_that_stays_too_large_is_freed() -> None:
    symbolic = load(CHAIN)
    arena = address(start(symbolic, 1 << 20))
    small = [address(start(symbolic, 1 << 17)) for _ in range(65)]
    assert small == [arena] * 64 + small[64:]
    assert small[64] != arena
    address(start(symbolic, 1 << 20))
    enough = [address(start(symbolic, 1 << 18)) for _ in range(65)]  # a quarter of it
    assert len(set(enough)) == 1


def evaluate(op: str, *values: int) -> int:
    """The result of one instruction, returned as an output's dim; -1 if it is not a valid size."""
    blob = Blob(
        symbols=[(-(1 << 63), (1 << 63) - 1)] * len(values),
        constants=[0],
        instrs=[(OPS[op], *range(len(values)), *[0] * (3 - len(values)))],
        outputs=[(len(values), [len(values) + 1])],
    )
    instance = load(blob, b"").instantiate(values)
    assert instance is not None
    return instance[2][0][0]


@pytest.mark.parametrize(
    ("op", "values", "result"),
    [
        ("ADD", (LIMIT - 2, 1), LIMIT - 1),
        ("SUB", (LIMIT - 1, 0), LIMIT - 1),
        ("MUL", (1 << 23, (1 << 24) - 1), (1 << 47) - (1 << 23)),
        ("FDIV", (7, 2), 3),
        ("CDIV", (7, 2), 4),
        ("CDIV", (-7, 8), 0),
        ("MOD", (-7, 3), 2),
        ("MIN", ((1 << 63) - 1, 5), 5),
        ("MAX", (-(1 << 63), 5), 5),
        ("ALIGN64", (65,), 128),
        ("ALIGN64", (64,), 64),
        ("ALIGN64", (LIMIT - 64,), LIMIT - 64),
        ("EQ", (3, 3), 1),
        ("NE", (3, 3), 0),
        ("LT", (3, 3), 0),
        ("LE", (3, 3), 1),
        ("AND", (2, 1), 1),
        ("AND", (2, 0), 0),
        ("OR", (0, -4), 1),
        ("NOT", (7,), 0),
        ("SELECT", (-1, 5, 6), 5),
        ("SELECT", (0, 5, 6), 6),
        ("SCALE_F32", (7, 0x3FC00000), 10),
        ("SCALE_F32", (1, 0x56FFFFFF), (1 << 47) - (1 << 23)),
    ],
)
def test_each_op(op: str, values: tuple[int, ...], result: int) -> None:
    assert evaluate(op, *values) == result


@pytest.mark.parametrize(
    ("op", "values"),
    [
        ("ADD", (LIMIT - 1, 1)),
        ("ADD", ((1 << 63) - 1, 1)),
        ("SUB", (-LIMIT, 0)),
        ("SUB", (-(1 << 63), 1)),
        ("MUL", (1 << 23, 1 << 24)),
        ("MUL", (1 << 62, 4)),
        ("FDIV", (7, 0)),
        ("FDIV", (-(1 << 63), -1)),
        ("CDIV", (7, 0)),
        ("MOD", (7, -1)),
        ("MIN", (LIMIT, LIMIT)),
        ("ALIGN64", ((1 << 63) - 1,)),
        ("ALIGN64", (LIMIT - 63,)),
        ("SELECT", (1, LIMIT, 0)),
        ("SCALE_F32", (1, 0x57000000)),
        ("SCALE_F32", (1, 0x7FC00000)),
        ("SCALE_F32", (1, 0x7F800000)),
    ],
)
def test_each_op_outside_its_domain_is_refused(op: str, values: tuple[int, ...]) -> None:
    with pytest.raises(_kernels.Refused, match=rf"instruction 0, {op} of"):
        evaluate(op, *values)


def python_result(op: str, a: int, b: int, c: int) -> int | None:
    """The op in Python; None if the interpreter must refuse it."""
    if op in ("FDIV", "CDIV", "MOD") and b <= 0:
        return None
    if op == "SCALE_F32":
        with np.errstate(all="ignore"):
            scaled = np.floor(np.float32(a) * np.frombuffer(struct.pack("<Q", b % (1 << 64))[:4], np.float32)[0])
        result = int(scaled) if abs(scaled) < LIMIT else None
    else:
        result = {
            "ADD": lambda: a + b,
            "SUB": lambda: a - b,
            "MUL": lambda: a * b,
            "FDIV": lambda: a // b,
            "CDIV": lambda: -(-a // b),
            "MOD": lambda: a % b,
            "MIN": lambda: min(a, b),
            "MAX": lambda: max(a, b),
            "ALIGN64": lambda: -(-a // 64) * 64,
            "EQ": lambda: int(a == b),
            "NE": lambda: int(a != b),
            "LT": lambda: int(a < b),
            "LE": lambda: int(a <= b),
            "AND": lambda: int(a != 0 and b != 0),
            "OR": lambda: int(a != 0 or b != 0),
            "NOT": lambda: int(a == 0),
            "SELECT": lambda: b if a else c,
        }[op]()
    return result if result is not None and abs(result) < LIMIT else None


def test_random_programs_agree_with_python() -> None:
    """Dims cannot be negative, so each result x is returned twice: as max(x, 0) and as max(-x, 0)."""
    rng = random.Random(7)
    finished = 0
    for _ in range(2000):
        values = [rng.choice([0, 1, 2, 63, 64, 1000, -5, 0x3F000000, 1 << 40, rng.randint(-99, 99)]) for _ in range(6)]
        blob = Blob(symbols=[(-(1 << 63), (1 << 63) - 1)] * 4, constants=[*values[4:], 0])
        slots, instrs, failed = [*values, 0], [], False
        for _ in range(rng.randint(1, 9)):
            name = rng.choice(list(OPS))
            reads = 1 if name in ("ALIGN64", "NOT") else 3 if name == "SELECT" else 2
            operands = [rng.randrange(len(slots)) for _ in range(reads)] + [0] * (3 - reads)
            instrs.append((OPS[name], *operands))
            result = python_result(name, *(slots[k] for k in operands))
            failed = result is None
            if result is None:
                break
            slots.append(result)
        if failed:
            with pytest.raises(_kernels.Refused, match=f"instruction {len(instrs) - 1},"):
                load(replace(blob, instrs=instrs), b"").instantiate(values[:4])
            continue
        finished += 1
        results = range(7, len(slots))
        negated = [(OPS["SUB"], 6, k, 0) for k in results]
        first = len(slots)
        positive = [(OPS["MAX"], 6, k, 0) for k in (*results, *range(first, first + len(results)))]
        dims = range(first + len(results), first + 3 * len(results))
        whole = replace(blob, instrs=[*instrs, *negated, *positive], outputs=[(6, dims)])
        instance = load(whole, b"").instantiate(values[:4])
        assert instance is not None
        expected = slots[7:]
        assert instance[2] == [(*(max(v, 0) for v in expected), *(max(-v, 0) for v in expected))]
    assert finished > 300


def test_symbols_stay_in_their_range() -> None:
    symbolic = load(replace(CHAIN, symbols=[(2, 5)]))
    assert symbolic.instantiate([2]) and symbolic.instantiate((5,))
    for n in (1, 6):
        with pytest.raises(_kernels.Refused, match=f"symbol 0 is {n}, not in 2 to 5"):
            symbolic.instantiate([n])
    with pytest.raises(ValueError, match="2 values for 1 symbols"):
        symbolic.instantiate([2, 3])
    with pytest.raises(OverflowError):
        symbolic.instantiate([1 << 63])
    with pytest.raises(TypeError):
        symbolic.instantiate(["2"])  # type: ignore[list-item]


def test_the_first_guard_that_fails_decides() -> None:
    is_small, is_even = 5, 7
    instrs = [*CHAIN.instrs, (OPS["LT"], N, WIDTH, 0), (OPS["MOD"], N, ITEM, 0), (OPS["NOT"], 6, 0, 0)]
    guards = [(is_small, SELECT), (is_even, REQUIRE)]
    symbolic = load(replace(CHAIN, instrs=instrs, guards=guards))
    assert symbolic.instantiate([4])
    assert symbolic.instantiate([9]) is None
    with pytest.raises(_kernels.Unmet) as raised:
        symbolic.instantiate([7])
    assert raised.value.args[1:] == (-1, 1)
    assert symbolic.instantiate([0])
    with pytest.raises(_kernels.Unmet):
        load(replace(CHAIN, instrs=instrs, guards=guards[::-1])).instantiate([9])


def test_a_guard_before_a_failing_instruction_takes_precedence() -> None:
    instrs = [(OPS["MUL"], N, WIDTH, 0), (OPS["MUL"], ELEMENTS, ITEM, 0), (OPS["FDIV"], WIDTH, N, 0)]
    symbolic = load(replace(CHAIN, instrs=instrs, guards=[(N, SELECT)]))
    assert symbolic.instantiate([1])
    assert symbolic.instantiate([0]) is None
    with pytest.raises(_kernels.Refused, match="instruction 2, FDIV of 8 and 0: the divisor is not positive"):
        load(replace(CHAIN, instrs=instrs, guards=[(5, SELECT)])).instantiate([0])


def test_patches_of_float_parameters() -> None:
    record = table.pack_task(
        "unary", [INPUT], [OUTPUT], table.pack_params("unary", {"n": 2, "op": "LeakyRelu", "alpha": 7.0})
    )
    patches = [(0, bytes_of(0), 1, I64), (0, bytes_of(1), 1, I64), (0, PARAMS + 16, 0, F64)]
    blob = Blob(symbols=[(-100, 100)], constants=[8], patches=patches, inputs=[1], outputs=[(1, [1])], n_tasks=1)
    for kind, value, alpha in ((F64, 3, 3.0), (F64, -3, -3.0), (RECIPROCAL, 4, 0.25)):
        instance = load(replace(blob, patches=[*patches[:2], (*patches[2][:3], kind)]), record).instantiate([value])
        assert instance is not None
        x, y = np.array([-1, 2], np.float32), np.empty(2, np.float32)
        instance[0].start([x.view(np.uint8)], [y.view(np.uint8)]).execute(0, 1)
        np.testing.assert_array_equal(y, [-alpha, 2])
    with pytest.raises(_kernels.Refused, match="patch 2: a value of 0"):
        load(replace(blob, patches=[*patches[:2], (*patches[2][:3], RECIPROCAL)]), record).instantiate([0])


PATCH = CHAIN.patches[0]
BROKEN = {
    "version": (replace(CHAIN, version=3), "version 3"),
    "tasks": (replace(CHAIN, n_tasks=1), "1 tasks do not take 1280 bytes"),
    "symbol": (replace(CHAIN, symbols=[(1, 0)]), "symbol 0 has no values"),
    "op": (replace(CHAIN, instrs=[(len(OPS), 0, 0, 0)] * 2), "instruction 0: no such op"),
    "operand": (replace(CHAIN, instrs=[(0, 0, 3, 0), (0, 0, 0, 0)]), "instruction 0: no such operand"),
    "unused operand": (replace(CHAIN, instrs=[(0, 0, 0, 1), (0, 0, 0, 0)]), "instruction 0: no such operand"),
    "guard slot": (replace(CHAIN, guards=[(5, 0)]), "guard 0"),
    "guard kind": (replace(CHAIN, guards=[(0, 2)]), "guard 0"),
    "patch task": (replace(CHAIN, patches=[(2, *PATCH[1:])]), "patch 0: no such"),
    "patch slot": (replace(CHAIN, patches=[(*PATCH[:2], 5, I64)]), "patch 0: no such"),
    "patch kind": (replace(CHAIN, patches=[(0, PARAMS, 0, 3)]), "patch 0: no such"),
    "patch of the family": (replace(CHAIN, patches=[(0, 0, 0, I64)]), "patch 0: no such"),
    "patch of a region": (replace(CHAIN, patches=[(0, offset_of(0) - 8, 0, I64)]), "patch 0: no such"),
    "patch of no operand": (replace(CHAIN, patches=[(0, bytes_of(2), 0, I64)]), "patch 0: no such"),
    "patch between fields": (replace(CHAIN, patches=[(0, PARAMS + 4, 0, I64)]), "patch 0: no such"),
    "patch beyond the fields": (replace(CHAIN, patches=[(0, PARAMS + 48, 0, I64)]), "patch 0: no such"),
    "patch beyond the record": (replace(CHAIN, patches=[(0, 640, 0, I64)]), "patch 0: no such"),
    "patch of an enum": (replace(CHAIN, patches=[(0, PARAMS + 8, 0, I64)]), "patch 0: no such"),
    "integer in a float": (replace(CHAIN, patches=[(0, PARAMS + 16, 0, I64)]), "patch 0: no such"),
    "float in an integer": (replace(CHAIN, patches=[(0, PARAMS, 0, F64)]), "patch 0: no such"),
    "float in a size": (replace(CHAIN, patches=[(0, bytes_of(0), 0, F64)]), "patch 0: no such"),
    "patch twice": (replace(CHAIN, patches=[PATCH, PATCH]), "patch 1 is out of order"),
    "patches swapped": (replace(CHAIN, patches=CHAIN.patches[::-1]), "patch 1 is out of order"),
    "block slot": (replace(CHAIN, blocks=[(5, 0, 1)]), "block 0: no such slot"),
    "block backwards": (replace(CHAIN, blocks=[(BYTES, 1, 1), (BYTES, 1, 0)]), "no block that lives here"),
    "lifetime backwards": (replace(CHAIN, blocks=[*CHAIN.blocks, (BYTES, 1, 0)]), "block 1: no such lifetime"),
    "lifetime too long": (replace(CHAIN, blocks=[(BYTES, 0, 2)]), "block 0: no such lifetime"),
    "lifetime too short": (replace(CHAIN, blocks=[(BYTES, 0, 0)]), "operand 0: no block that lives here"),
    "no block": (replace(CHAIN, blocks=[]), "operand 1: no block that lives here"),
    "placement missing": (replace(CHAIN, blocks=CHAIN.blocks * 2, placements=[(0, 64)]), "1 placements of 2 blocks"),
    "placement too many": (replace(CHAIN, placements=[(0, 64)] * 2), "2 placements of 1 blocks"),
    "placement between lines": (replace(CHAIN, placements=[(32, 64)]), "block 0: its offset is not a multiple of 64"),
    "placement before the arena": (replace(CHAIN, placements=[(-64, 64)]), "block 0: its offset"),
    "placement of a negative size": (replace(CHAIN, placements=[(0, -64)]), "block 0: it ends beyond"),
    "placement too high": (replace(CHAIN, placements=[(LIMIT - 64, 64)]), "block 0: it ends beyond"),
    "placement too large": (replace(CHAIN, placements=[(64, (1 << 63) - 1)]), "block 0: it ends beyond"),
    "placements overlap": (
        replace(CHAIN, blocks=[*CHAIN.blocks, (BYTES, 1, 1)], placements=[(0, 65), (64, 64)]),
        "block 1 overlaps another",
    ),
    "placed for no lifetime": (replace(CHAIN, blocks=[(BYTES, 0, 2)], placements=[(0, 64)]), "block 0: no such"),
    "placed backwards": (
        replace(CHAIN, blocks=[*CHAIN.blocks, (BYTES, 1, 0)], placements=[(0, 64)] * 2),
        "block 1: no such lifetime",
    ),
    "placed block slot": (replace(CHAIN, blocks=[(5, 0, 1)], placements=[(0, 64)]), "block 0: no such slot"),
    "input slot": (replace(CHAIN, inputs=[5]), "input 0: no such slot"),
    "output slot": (replace(CHAIN, outputs=[(5, [])]), "output 0: no such slot"),
    "output dim": (replace(CHAIN, outputs=[(0, [5])]), "output dim 0: no such slot"),
}


@pytest.mark.parametrize(("blob", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plan_is_refused(blob: Blob, reason: str) -> None:
    with pytest.raises(_kernels.Refused, match=reason):
        load(blob)


@pytest.mark.parametrize("chain", [CHAIN, replace(CHAIN, placements=[(0, 64)])], ids=["open", "placed"])
def test_a_plan_of_wrong_length_is_refused(chain: Blob) -> None:
    blob = chain.pack()
    for length in range(len(blob)):
        with pytest.raises(_kernels.Refused):
            _kernels.SymbolicPlan(blob[:length], RECORDS, None, 1)
    with pytest.raises(_kernels.Refused, match="bytes beyond"):
        _kernels.SymbolicPlan(blob + b"\0", RECORDS, None, 1)


def test_invalid_instances_are_refused() -> None:
    minus = replace(CHAIN, symbols=[(-5, 5)])
    assert load(minus).instantiate([5])
    with pytest.raises(_kernels.Refused, match="bytes of input 0: -32 is no size"):
        load(minus).instantiate([-1])
    small = replace(CHAIN, blocks=[(WIDTH, 0, 1)])
    with pytest.raises(_kernels.Refused, match="operand 1 reaches beyond its block") as raised:
        load(small).instantiate([1])
    assert raised.value.args[1] == 0
    assert load(small).instantiate([0])
    with pytest.raises(_kernels.Refused, match="unary: ") as raised:
        load(replace(CHAIN, patches=[*CHAIN.patches[:5], (1, PARAMS, BYTES, I64)])).instantiate([1])
    assert raised.value.args[1] == 1


def test_placed_blocks_lie_there_at_every_size() -> None:
    placed = load(replace(CHAIN, placements=[(128, 32 * 17)]))
    assert placed.arena_bytes() == 128 + 32 * 17
    assert load(CHAIN).arena_bytes() is None
    for n in (0, 1, 16, 17):
        instance = placed.instantiate([n])
        assert instance is not None and instance[3] == -(-placed.arena_bytes() // 64) * 64
        x = np.random.default_rng(n).standard_normal(n * 8).astype(np.float32)
        y = np.empty_like(x)
        run = instance[0].start([x.view(np.uint8)], [y.view(np.uint8)])
        memoryview(run)[:] = bytes(instance[3])
        run.execute(0, 2)
        np.testing.assert_array_equal(y, -np.abs(x))
        arena = np.frombuffer(bytes(memoryview(run)), np.float32)
        np.testing.assert_array_equal(arena[32 : 32 + n * 8], np.abs(x))
        assert not arena[:32].any() and not arena[32 + n * 8 :].any()
    with pytest.raises(_kernels.Refused, match="bytes of block 0: 576 is no size up to 544"):
        placed.instantiate([18])


def many_blocks(lifetimes: Sequence[tuple[int, int]], placements: Sequence[tuple[int, int]] = ()) -> tuple[Blob, bytes]:
    """A plan with these blocks, which no task uses; their sizes are the symbols."""
    n = len(lifetimes)
    blob = Blob(
        symbols=[(0, 1 << 40)] * n,
        constants=[0],
        blocks=[(i, *lifetime) for i, lifetime in enumerate(lifetimes)],
        placements=placements,
        inputs=[n],
        outputs=[(n, [])],
        n_tasks=1 + max(last for _, last in lifetimes),
    )
    return blob, unary("Abs", INPUT, OUTPUT) * blob.n_tasks


def planned_arena_bytes(sizes: list[int], lifetimes: list[tuple[int, int]]) -> int:
    """The arena size that C plans for these blocks."""
    instance = load(*many_blocks(lifetimes)).instantiate(sizes)
    assert instance is not None
    return instance[3]


def any_overlap(lifetimes: Sequence[tuple[int, int]], placements: Sequence[tuple[int, int]]) -> bool:
    """Do two blocks have a task and a byte in common? Each is compared with each."""
    return any(
        max(a[0], b[0]) <= min(a[1], b[1]) and max(p[0], q[0]) < min(sum(p), sum(q))
        for (a, p), (b, q) in combinations(zip(lifetimes, placements, strict=True), 2)
    )


def test_placements_that_overlap_are_found() -> None:
    rng = random.Random(7)
    overlapping = 0
    for _ in range(trials(400)):
        n = rng.randint(1, 9)
        lifetimes = [(first, rng.randint(first, 7)) for first in (rng.randint(0, 7) for _ in range(n))]
        placements = [(64 * rng.randint(0, 12), rng.choice([0, 1, 63, 64, 65, 200])) for _ in range(n)]
        blob, records = many_blocks(lifetimes, placements)
        if any_overlap(lifetimes, placements):
            overlapping += 1
            with pytest.raises(_kernels.Refused, match="overlaps another"):
                load(blob, records)
        else:
            assert load(blob, records).arena_bytes() == max(map(sum, placements))
    assert 0.2 < overlapping / trials(400) < 0.9


@pytest.mark.parametrize("seed", range(8))
def test_what_the_compiler_places_is_accepted(seed: int) -> None:
    rng = random.Random(seed)
    lifetimes = [(first, rng.randint(first, 40)) for first in (rng.randint(0, 40) for _ in range(60))]
    blocks = [Block(64 * rng.randint(1, 300), *lifetime) for lifetime in lifetimes]
    memory = plan_memory(blocks, reuse=True)
    placements = [(block.offset, block.nbytes) for block in blocks]
    assert load(*many_blocks(lifetimes, placements)).arena_bytes() == memory.arena_bytes
    moved = rng.choice([number for number, block in enumerate(blocks) if block.offset])
    placements[moved] = placements[moved][0] - 64, placements[moved][1]
    blob, records = many_blocks(lifetimes, placements)
    if any_overlap(lifetimes, placements):
        with pytest.raises(_kernels.Refused, match="overlaps another"):
            load(blob, records)
    else:
        load(blob, records)


def test_as_many_blocks_as_a_plan_may_have_are_checked() -> None:
    """All live at the same time, which is too many pairs to compare."""
    n = 65535
    placements = [(64 * (i * 40504 % n), 64) for i in range(n)]
    blob, records = many_blocks([(0, 0)] * n, placements)
    assert load(blob, records).arena_bytes() == 64 * n
    blob, records = many_blocks([(0, 0)] * n, [*placements[:-1], (placements[0][0], 64)])
    with pytest.raises(_kernels.Refused, match="block 65534 overlaps another"):
        load(blob, records)


def test_the_arena_is_nearly_as_small_as_the_compiler_plans() -> None:
    rng = random.Random(3)
    for _ in range(60):
        n = rng.randint(1, 60)
        lifetimes = []
        for i in range(n):
            first = rng.randrange(n) if rng.random() < 0.25 else i
            lifetimes.append((first, min(first + rng.choice([0, 1, 1, 2, n]), n - 1)))
        batch, length = rng.randint(1, 9), rng.randint(1, 200)
        sizes = [
            64 * rng.choice([1, batch, length, batch * length, length * length]) * rng.randint(1, 8) for _ in range(n)
        ]
        blocks = [Block(sizes[i], first, last) for i, (first, last) in enumerate(lifetimes)]
        planned = plan_memory(blocks, reuse=True)
        assert planned.lower_bound <= planned_arena_bytes(sizes, lifetimes) <= 1.15 * planned.arena_bytes

"""The guards of plans as inequalities."""

from __future__ import annotations

import struct

import pytest

from atcpy.ir import plans_of
from atcpy.ir.compiled import Symbol
from atcpy.kernels.guard_text import guard_texts
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model

NAMES = ("b", "s")
B, S, ONE, TWO, HUGE, HALF = range(6)  # slots of the symbols and of the constants below
CONSTANTS = (1, 2, 2**40, 0x3F000000)  # the last has the bits of the float32 0.5
ADD, SUB, MUL, FDIV, CDIV, MOD, MIN, MAX, ALIGN64, EQ, NE, LT, LE, AND, OR, NOT, SELECT, SCALE = range(18)


def program(*instructions: tuple[int, ...], guards: tuple[int, ...] = ()) -> bytes:
    """A program over b and s whose last instruction is the guard, unless others are named."""
    first = len(NAMES) + len(CONSTANTS)
    slots = guards or (first + len(instructions) - 1,)
    head = struct.pack("<11I", 2, len(NAMES), len(CONSTANTS), len(instructions), len(slots), 0, 0, 0, 0, 0, 0)
    code = b"".join(struct.pack("<4I", *(*item, 0, 0, 0)[:4]) for item in instructions)
    ranges = struct.pack("<4q", 0, 2**40, 0, 2**40)
    return head + ranges + struct.pack("<4q", *CONSTANTS) + code + b"".join(struct.pack("<2I", s, 0) for s in slots)


R = len(NAMES) + len(CONSTANTS)  # slot of the first result


@pytest.mark.parametrize(
    ("instructions", "text"),
    [
        ([(LT, B, TWO)], "b <= 1"),
        ([(LE, B, TWO)], "b <= 2"),
        ([(LT, ONE, B)], "b >= 2"),
        ([(LE, TWO, B)], "b >= 2"),
        ([(SUB, ONE, B), (LT, R, ONE)], "b >= 1"),
        ([(EQ, B, TWO)], "b == 2"),
        ([(NE, TWO, B)], "b != 2"),
        ([(EQ, B, S)], "b == s"),
        ([(ADD, S, ONE), (EQ, R, B)], "s == b - 1"),
        ([(MUL, B, TWO), (LT, R, S)], "2*b < s"),
        ([(MUL, B, S), (ADD, R, TWO), (LE, R + 1, S)], "b*s + 2 <= s"),
        ([(MOD, S, TWO), (EQ, R, ONE)], "(s % 2) == 1"),
        ([(MIN, B, S), (LT, TWO, R)], "min(b, s) >= 3"),
        ([(ALIGN64, B), (LE, R, TWO)], "align64(b) <= 2"),
        ([(SELECT, B, S, ONE), (LE, R, TWO)], "select(b, s, 1) <= 2"),
        ([(NOT, B)], "not(b)"),
        ([(SCALE, B, HALF), (LE, R, TWO)], "floor(b * 0.5) <= 2"),
        ([(SCALE, B, S), (LE, R, TWO)], "scale_f32(b, s) <= 2"),
    ],
)
def test_guards_are_inequalities(instructions: list[tuple[int, ...]], text: str) -> None:
    assert guard_texts(program(*instructions), NAMES) == [text]


def test_what_holds_for_every_tensor_is_left_out() -> None:
    assert guard_texts(program((LE, B, HUGE)), NAMES) == []
    assert guard_texts(program((LT, B, HUGE)), NAMES) == ["b <= 1099511627775"]
    assert guard_texts(program((LT, B, TWO), guards=(R, R)), NAMES) == ["b <= 1"]


def test_long_expressions_are_cut() -> None:
    squares = [(MUL, TWO, TWO), *((MUL, R + i, R + i) for i in range(9))]
    assert guard_texts(program(*squares, (LE, R + 9, B)), NAMES) == ["… <= b"]
    nested = [(MIN, B, S), *((MIN, R + i, R + i) for i in range(9))]
    assert guard_texts(program(*nested, (LE, R + 9, TWO)), NAMES) == ["… <= 2"]
    powers = [(MUL, B, B), *((MUL, R + i, R + i) for i in range(9))]
    assert guard_texts(program(*powers, (LE, R + 9, TWO)), NAMES) == ["… <= 2"]


GOOD = program((LT, B, TWO))


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        GOOD[:-1],
        GOOD[:50],
        struct.pack("<I", 3) + GOOD[4:],
        program((99, B)),
        program((ADD, 77)),
        program((ADD, B, R)),
    ],
    ids=["empty", "cut", "cut early", "version", "op", "slot", "its own result"],
)
def test_malformed_programs_are_refused(blob: bytes) -> None:
    with pytest.raises(ValueError, match="program"):
        guard_texts(blob, NAMES)
    with pytest.raises(ValueError, match="symbols"):
        guard_texts(GOOD, NAMES[:1])


def test_the_guards_of_a_model() -> None:
    text = "m (float[b,s,8] x, float[b,t,8] y) => (float[b,s,8] z) { z = Add(x, y) }"
    compiled, _ = compile_model(model(text), convert_options({"input_shape": "x:2~9,-1,8;y:2~9,-1,8"}))
    general, *_ = plans_of(compiled.clusters)
    assert Symbol("b", 0, 0) in general.symbols
    texts = guard_texts(general.program, [symbol.name for symbol in general.symbols])
    assert texts[:3] == ["b >= 2", "b <= 9", "s >= 1"]
    assert "t == s" in texts

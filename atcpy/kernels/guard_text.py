"""The guards of a symbolic plan as people read them: inequalities over the sizes that the plan serves."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from atcpy.kernels.symbolic_program import HEADER_BYTES, OPS, read_counts
from atcpy.sizes import MAX_DIM

# A sum of products of named sizes, by the names in ascending order.
_Polynomial = dict[tuple[str, ...], int]
_COMPARISONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<="}
_INFIX = {"FDIV": "//", "MOD": "%", "AND": "and", "OR": "or"}
_OPERAND_COUNT = {"ALIGN64": 1, "NOT": 1, "SELECT": 3}  # others have two
_MAX_TERMS, _MAX_TEXT, _MAX_NUMBER = 32, 200, 2**63  # a hostile program may be as long as it likes
_TOO_LONG: _Polynomial = {("…",): 1}


def guard_texts(program: bytes, names: Sequence[str]) -> list[str]:
    """Return the guards of a program, whose symbols have these names; those that hold for any tensor are left out.
    Raises ValueError for a program that is malformed.
    """
    try:
        return list(dict.fromkeys(text for text in _guards(program, names) if text))
    except (struct.error, IndexError) as error:
        raise ValueError(f"it is no program of a plan: {error}") from error


def _guards(program: bytes, names: Sequence[str]) -> Iterator[str]:
    counts = read_counts(program)
    if counts.symbols != len(names):
        raise ValueError(f"its program has {counts.symbols} symbols")
    at = HEADER_BYTES + 16 * counts.symbols  # behind the ranges of the symbols
    slots: list[_Polynomial] = [{(name,): 1} for name in names]
    slots += [{(): number} if number else {} for number in struct.unpack_from(f"<{counts.constants}q", program, at)]
    at += 8 * counts.constants
    end = at + 16 * counts.instructions
    of_guards = [struct.unpack_from("<2I", program, end + 8 * number)[0] for number in range(counts.guards)]
    relations: dict[int, tuple[str, _Polynomial]] = {}
    for number in range(
        min(counts.instructions, max(of_guards, default=0) + 1 - len(slots))
    ):  # others are for tasks and memory
        op, *operands = struct.unpack_from("<4I", program, at + 16 * number)
        name, values = OPS[op], [slots[operand] for operand in operands]
        if name in _COMPARISONS:
            relations[len(slots)] = _COMPARISONS[name], _sum(values[0], values[1], -1)
        slots.append(_apply(name, values))
    for slot in of_guards:
        yield _inequality(*relations[slot]) if slot in relations else _text(slots[slot])


def _apply(op: str, operands: Sequence[_Polynomial]) -> _Polynomial:
    """The value of an instruction: a polynomial, or one computed size with a name of its own."""
    a, b, *_ = operands
    used = operands[: _OPERAND_COUNT.get(op, 2)]
    if _TOO_LONG in used:
        return _TOO_LONG
    if op == "ADD":
        return _sum(a, b, 1)
    if op == "SUB":
        return _sum(a, b, -1)
    if op == "MUL":
        return _product(a, b)
    sign = _INFIX.get(op) or _COMPARISONS.get(op)
    if op == "SCALE_F32" and set(b) == {()}:
        [factor] = struct.unpack("<f", struct.pack("<I", b[()] % 2**32))
        text = f"floor({_operand(a)} * {factor:g})"
    elif sign is None:
        text = f"{op.lower()}({', '.join(map(_text, used))})"
    else:
        text = f"({_operand(a)} {sign} {_operand(b)})"
    return {(text,): 1} if len(text) <= _MAX_TEXT else _TOO_LONG


def _sum(a: _Polynomial, b: _Polynomial, factor: int) -> _Polynomial:
    total = dict(a)
    for names, coefficient in b.items():
        total[names] = total.get(names, 0) + factor * coefficient
    return _bounded(total)


def _product(a: _Polynomial, b: _Polynomial) -> _Polynomial:
    product: _Polynomial = {}
    for left, x in a.items():
        for right, y in b.items():
            names = tuple(sorted(left + right))
            product[names] = product.get(names, 0) + x * y
    return _bounded(product)


def _bounded(polynomial: _Polynomial) -> _Polynomial:
    """A polynomial without terms that are 0; what no compiler writes is not spelled out."""
    kept = {names: coefficient for names, coefficient in polynomial.items() if coefficient}
    is_long = len(kept) > _MAX_TERMS or any(
        len(names) > _MAX_TERMS or abs(coefficient) >= _MAX_NUMBER for names, coefficient in kept.items()
    )
    return _TOO_LONG if is_long else kept


def _inequality(relation: str, difference: _Polynomial) -> str:
    """`difference relation 0` without signs; empty if every size keeps it."""
    constant = difference.get((), 0)
    left = {names: number for names, number in difference.items() if number > 0 and names}
    right = {names: -number for names, number in difference.items() if number < 0 and names}
    if relation in ("==", "!="):
        left, right = (left, right) if left else (right, left)
        bound = -constant if left and sum(difference.get(names, 0) for names in left) > 0 else constant
        return f"{_text(left)} {relation} {_text(_sum(right, {(): bound}, 1))}"
    strict = relation == "<"
    if left and right:
        sides = (_sum(left, {(): max(constant, 0)}, 1), _sum(right, {(): max(-constant, 0)}, 1))
        return f"{_text(sides[0])} {relation} {_text(sides[1])}"
    if right:
        return f"{_text(right)} >= {constant + strict}"
    is_any = sum(left.values()) == len(left) == 1 and -constant - strict >= MAX_DIM
    return "" if is_any else f"{_text(left)} <= {-constant - strict}"


def _operand(polynomial: _Polynomial) -> str:
    """An operand of an infix operator: in parentheses, unless it is one number or one name, which has its own."""
    [*terms] = polynomial.items()
    is_simple = not terms or (len(terms) == 1 and (terms[0][0] == () or (len(terms[0][0]), terms[0][1]) == (1, 1)))
    return _text(polynomial) if is_simple else f"({_text(polynomial)})"


def _text(polynomial: _Polynomial) -> str:
    """A sum as text: terms with names first, numbers behind them."""
    text = ""
    for names, number in sorted(polynomial.items(), key=lambda term: (not term[0], term[0])):
        factors = [*([str(abs(number))] if abs(number) != 1 or not names else []), *names]
        sign = ("- " if number < 0 else "+ ") if text else ("-" if number < 0 else "")
        text += f"{' ' if text else ''}{sign}{'*'.join(factors)}"
    return text or "0"

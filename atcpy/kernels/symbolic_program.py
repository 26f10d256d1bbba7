"""The program of a symbolic plan: what depends on symbols, as csrc/core/symbolic.h reads it.

Sizes become a straight line of checked integer operations, each written once however often it is used. Slots are
numbered: symbols, then constants, then results in order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from atcpy.errors import InternalError
from atcpy.ir.compiled import Task
from atcpy.ir.symbolic import Guard, Op, Terms, Tracer, terms_of

VERSION = 2
OPS = (
    "ADD", "SUB", "MUL", "FDIV", "CDIV", "MOD", "MIN", "MAX", "ALIGN64",
    "EQ", "NE", "LT", "LE", "AND", "OR", "NOT", "SELECT", "SCALE_F32",
)  # fmt: skip
_NUMBER = {name: number for number, name in enumerate(OPS)}
_ATOM_OP = {Op.FDIV: "FDIV", Op.MOD: "MOD", Op.MIN: "MIN", Op.MAX: "MAX", Op.SCALE: "SCALE_F32"}
MAX_NUMBER = 2**47 - 1
_SELECT = 0  # the kind of a guard: false means that another plan is to be taken


@dataclass(frozen=True, slots=True)
class BlockSize:
    """Memory of the arena that is live from task `first` to task `last`."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a block lies in the arena at all sizes, and the most bytes that it has."""

    offset: int
    max_nbytes: int


class Counts(NamedTuple):
    """The header of a program: its version, and how many parts of each kind follow."""

    version: int
    symbols: int
    constants: int
    instructions: int
    guards: int
    patches: int
    blocks: int
    placements: int
    inputs: int
    outputs: int
    tasks: int


_HEADER, _PLACEMENT = struct.Struct("<11I"), struct.Struct("<2q")
HEADER_BYTES = _HEADER.size


@dataclass(slots=True)
class _Program:
    """Slots, and the instructions that fill them."""

    tracer: Tracer
    symbols: dict[int, int]  # slot of each symbol, by its atom
    constants: list[int] = field(default_factory=list)
    _atoms: dict[int, tuple[str, int]] = field(default_factory=dict)
    _constant_ids: dict[int, tuple[str, int]] = field(default_factory=dict)
    code: list[tuple[str, tuple[tuple[str, int], ...]]] = field(default_factory=list)
    _results: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[str, int]] = field(default_factory=dict)

    def size(self, size: int) -> tuple[str, int]:
        """The reference of the slot that holds a size."""
        return self.terms(terms_of(size))

    def terms(self, terms: Terms) -> tuple[str, int]:
        """The slot of a polynomial."""
        total: tuple[str, int] | None = None
        constant = 0
        for monomial, coefficient in terms:
            if monomial == ():
                constant = coefficient
                continue
            product = self._product(monomial)
            if abs(coefficient) != 1:
                product = self._apply("MUL", product, self.constant(abs(coefficient)))
            if total is None:
                total = product if coefficient > 0 else self._apply("SUB", self.constant(0), product)
            else:
                total = self._apply("ADD" if coefficient > 0 else "SUB", total, product)
        if total is None:
            return self.constant(constant)
        if constant:
            total = self._apply("ADD" if constant > 0 else "SUB", total, self.constant(abs(constant)))
        return total

    def _product(self, monomial: Sequence[int]) -> tuple[str, int]:
        product = self._atom(monomial[0])
        for atom in monomial[1:]:
            product = self._apply("MUL", product, self._atom(atom))
        return product

    def _atom(self, number: int) -> tuple[str, int]:
        """The slot of an atom. What it is computed of comes first: operands have smaller numbers."""
        needed, pending = set[int](), [number]
        while pending:
            atom = pending.pop()
            if atom not in self._atoms and atom not in needed:
                needed.add(atom)
                operands = self.tracer.atoms[atom].operands
                pending += [inner for terms in operands for product, _ in terms for inner in product]
        for index in sorted(needed):
            atom_of = self.tracer.atoms[index]
            if atom_of.op is None:
                self._atoms[index] = "symbol", self.symbols[index]
            else:
                self._atoms[index] = self._apply(_ATOM_OP[atom_of.op], *map(self.terms, atom_of.operands))
        return self._atoms[number]

    def constant(self, number: int) -> tuple[str, int]:
        """The slot of a number. Raises OverflowError if it is no int64."""
        if not -(2**63) <= number < 2**63:
            raise OverflowError(f"{number} is no int64")
        if number not in self._constant_ids:
            self._constant_ids[number] = ("constant", len(self.constants))
            self.constants.append(number)
        return self._constant_ids[number]

    def holds(self, guard: Guard) -> tuple[str, int]:
        """The slot that is not 0 where the guard answers as it did for the examples."""
        rest = tuple(term for term in guard.terms if term[0] != ())
        bound = -sum(coefficient for monomial, coefficient in guard.terms if monomial == ())
        bound = max(min(bound, MAX_NUMBER), -MAX_NUMBER)  # a program stops at larger numbers
        left, right = self.terms(rest), self.constant(bound)
        if guard.relation == "==":
            return self._apply("EQ" if guard.answer else "NE", left, right)
        return self._apply("LT", left, right) if guard.answer else self._apply("LE", right, left)

    def _apply(self, op: str, *operands: tuple[str, int]) -> tuple[str, int]:
        key = (op, operands)
        if key not in self._results:
            self._results[key] = ("result", len(self.code))
            self.code.append(key)
        return self._results[key]

    def number(self, reference: tuple[str, int]) -> int:
        """The number of a slot, once no more constants come."""
        kind, index = reference
        start = {"symbol": 0, "constant": len(self.symbols), "result": len(self.symbols) + len(self.constants)}
        return start[kind] + index


def encode_program(
    tracer: Tracer,
    symbols: Sequence[int],
    ranges: Sequence[tuple[int, int]],
    guards: Iterable[Guard],
    tasks: Sequence[Task],
    blocks: Sequence[BlockSize],
    placements: Sequence[Placement],
    input_bytes: Sequence[int],
    outputs: Sequence[tuple[int, Sequence[int]]],
) -> bytes:
    """The bytes of the program. `symbols` are sizes that are one symbol each, in the order of the values that a run
    gives, each in its range; `outputs` are the sizes in bytes and the dims of the results. Without `placements`, each
    run places the blocks.
    """
    atoms = [_atom_of(symbol) for symbol in symbols]
    program = _Program(tracer, {atom: slot for slot, atom in enumerate(atoms)})
    guard_slots = [program.holds(guard) for guard in guards]
    patches = [
        (number, offset, program.size(size)) for number, task in enumerate(tasks) for offset, size in task.patches
    ]
    block_slots = [(program.size(block.nbytes), block.first, block.last) for block in blocks]
    inputs = [program.size(size) for size in input_bytes]
    results = [(program.size(nbytes), [program.size(dim) for dim in dims]) for nbytes, dims in outputs]

    number = program.number
    counts = Counts(
        VERSION, len(atoms), len(program.constants), len(program.code), len(guard_slots), len(patches),
        len(block_slots), len(placements), len(inputs), len(results), len(tasks),
    )  # fmt: skip
    parts = [_HEADER.pack(*counts)]
    parts += [struct.pack("<2q", *bounds) for bounds in ranges]
    parts += [struct.pack("<q", constant) for constant in program.constants]
    for op, operands in program.code:
        a, b, c = [*map(number, operands), 0, 0, 0][:3]
        parts.append(struct.pack("<4I", _NUMBER[op], a, b, c))
    parts += [struct.pack("<2I", number(slot), _SELECT) for slot in guard_slots]
    parts += [struct.pack("<4I", task, offset, number(slot), 0) for task, offset, slot in sorted(patches)]
    parts += [struct.pack("<3I", number(slot), first, last) for slot, first, last in block_slots]
    parts += [_PLACEMENT.pack(placement.offset, placement.max_nbytes) for placement in placements]
    parts += [struct.pack("<I", number(slot)) for slot in inputs]
    for nbytes, dims in results:
        parts.append(struct.pack(f"<{2 + len(dims)}I", number(nbytes), len(dims), *map(number, dims)))
    return b"".join(parts)


def read_counts(program: bytes) -> Counts:
    """Read the header of a program, which may be a hostile one. Raises ValueError for other versions."""
    if len(program) < HEADER_BYTES:
        raise ValueError("its program is truncated")
    counts = Counts(*_HEADER.unpack_from(program))
    if counts.version != VERSION:
        raise ValueError(f"its program has version {counts.version}")
    return counts


def planned_arena_bytes(program: bytes) -> int | None:
    """Return the bytes of the arena if all runs have the same; None if each run places the blocks. Raises ValueError
    for a program that is malformed; that blocks do not overlap is checked when it is loaded.
    """
    counts = read_counts(program)
    if counts.placements != counts.blocks:
        return None
    numbers = 16 * counts.symbols + 8 * counts.constants
    start = (
        HEADER_BYTES + numbers + 16 * (counts.instructions + counts.patches) + 8 * counts.guards + 12 * counts.blocks
    )
    end = start + _PLACEMENT.size * counts.placements
    if end > len(program):
        raise ValueError("its program is truncated")
    return max((offset + max_nbytes for offset, max_nbytes in _PLACEMENT.iter_unpack(program[start:end])), default=0)


def largest_arena_bytes(programs: Iterable[bytes]) -> int | None:
    """Return the bytes of the largest arena of several plans; None if there are none, or runs place the blocks of one.
    Raises ValueError as above.
    """
    arenas = [planned_arena_bytes(program) for program in programs]
    known = [arena for arena in arenas if arena is not None]
    return max(known) if known and len(known) == len(arenas) else None


def _atom_of(symbol: int) -> int:
    terms = terms_of(symbol)
    if len(terms) != 1 or len(terms[0][0]) != 1 or terms[0][1] != 1:
        raise InternalError(f"{symbol} is no symbol")
    return terms[0][0][0]

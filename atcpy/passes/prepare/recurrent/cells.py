"""Recurrent cells in what a body computes: LSTM, GRU or RNN, and the weights of their gates.

    c' = f·c + i·g,  h' = o·tanh(c')         LSTM
    h' = z·h + (1 − z)·g                     GRU
    h' = g                                   RNN

Gates are activations of x·W + h·R + b. To that LSTM may add peepholes p·c, and of GRU's g it is (r·h)·R or r·(h·R + b).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from atcpy.ir import Reject, Value
from atcpy.ir.tensor import Array
from atcpy.passes.prepare.recurrent.linear_form import (
    Activation,
    Atom,
    Columns,
    Factor,
    Kind,
    NotACell,
    Product,
    Terms,
    width,
)

MAX_WEIGHTS: Final = 1 << 24  # of a gate, for one source
MAX_UNIT: Final = 1 << 20  # the same where they only hand columns on


@dataclass(frozen=True, slots=True)
class State:
    """A value that a turn gets, and what it makes of it."""

    old: Value
    new: Value


@dataclass(slots=True)
class Gate:
    """What an activation is given: weights [columns of the source, hidden] by source, of the state and of the bias.
    `reset_bias` is what GRU adds to h·R before it resets that.
    """

    hidden: int
    inputs: dict[Value, Array] = field(default_factory=dict)
    state: Array = field(init=False)
    bias: Array = field(init=False)
    reset_bias: Array = field(init=False)
    peephole: Array = field(init=False)
    is_late: bool = False  # the state is reset after the product

    def __post_init__(self) -> None:
        self.state = np.zeros((self.hidden, self.hidden))
        self.bias, self.reset_bias, self.peephole = (np.zeros(self.hidden) for _ in range(3))

    def negated(self) -> Gate:
        """The gate whose sum is the opposite."""
        gate = Gate(self.hidden, {source: -weights for source, weights in self.inputs.items()})
        gate.state, gate.bias = -self.state, -self.bias
        return gate


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A cell of an op of the standard, gates and activations in its order."""

    op_type: str
    h: State
    c: State | None
    gates: tuple[Gate, ...]
    activations: tuple[Activation, ...]

    @property
    def hidden(self) -> int:
        """The number of its columns."""
        return self.gates[0].hidden

    @property
    def sources(self) -> list[Value]:
        """What it reads beside its state."""
        return list(dict.fromkeys(source for gate in self.gates for source in gate.inputs))


def find_cells(columns: Columns, states: Sequence[State]) -> list[Cell]:
    """The cells that all the states belong to."""
    terms = {state: columns.made(state.new, 0, width(state.old)) for state in states}
    cells: list[Cell] = []
    taken: set[State] = set()
    for c in states:
        parts = _lstm_parts(columns, c, terms[c])
        for h in states if parts is not None else ():
            output = _output_gate(columns, c, terms[h])
            if parts is not None and output is not None and h not in taken:
                cells.append(_lstm(columns, h, c, (*parts, *output)))
                taken |= {h, c}
                break
    for state in states:
        if state not in taken:
            cells.append(_gru(columns, state, terms[state]) or _rnn(columns, state, terms[state]))
    return cells


# --- LSTM --------------------------------------------------------------------------------------


def _lstm_parts(columns: Columns, c: State, terms: Terms) -> tuple[Atom, Atom, Atom] | None:
    """f, and i and g in any order, of f·c + i·g."""
    if len(terms) != 2 or not all(len(atoms) == 2 and is_number(factor, 1) for atoms, factor in terms.items()):
        return None
    old = Atom(Kind.SOURCE, c.old, 0, width(c.old))
    for kept, fresh in (list(terms), list(terms)[::-1]):
        others = [atom for atom in kept if atom != old]
        if len(others) == 1 and all(atom.kind is Kind.ACTIVATION for atom in (*others, *fresh)):
            return others[0], fresh[0], fresh[1]
    return None


def _output_gate(columns: Columns, c: State, terms: Terms) -> tuple[Atom, Atom] | None:
    """o and tanh(c') of o·tanh(c')."""
    if len(terms) != 1:
        return None
    [(atoms, factor)] = terms.items()
    if len(atoms) != 2 or not is_number(factor, 1) or any(atom.kind is not Kind.ACTIVATION for atom in atoms):
        return None
    new = (Atom(Kind.SOURCE, c.new, 0, width(c.old)),)
    for gate, out in (atoms, atoms[::-1]):
        given = _given(columns, out)
        if list(given) == [new] and is_number(given[new], 1):
            return gate, out
    return None


def _lstm(columns: Columns, h: State, c: State, atoms: tuple[Atom, ...]) -> Cell:
    f, first, second, o, out = atoms
    kinds = {atom: _plain(columns.activation(atom.value)) for atom in atoms}
    i, g = (first, second) if kinds[first] == kinds[f] else (second, first)
    if not kinds[i] == kinds[f] == kinds[o]:
        raise NotACell(Reject("other-formula", i.value.name, "gates of different activations"))
    seen = (c.old, c.new, c.old, None)  # by the peepholes
    gates = [_Reader(columns, h, cell).gate(atom) for cell, atom in zip(seen, (i, o, f, g), strict=True)]
    return Cell("LSTM", h, c, tuple(gates), (kinds[f], kinds[g], kinds[out]))


# --- GRU and RNN -------------------------------------------------------------------------------


def _gru(columns: Columns, h: State, terms: Terms) -> Cell | None:
    """z·h + (1 − z)·g, or the same with 1 − z for z."""
    old = Atom(Kind.SOURCE, h.old, 0, width(h.old))
    single = [atoms[0] for atoms in terms if len(atoms) == 1]
    gates = [atom for atoms in terms if len(atoms) == 2 and old in atoms for atom in atoms if atom != old]
    fresh = [atom for atoms in terms if len(atoms) == 2 and old not in atoms for atom in atoms if atom not in gates]
    if len(terms) != 3 or not len(single) == len(gates) == len(fresh) == 1:
        return None
    z, g = gates[0], fresh[0]
    sign = 1.0 if single == [g] else -1.0
    wanted = {frozenset((z, old)): sign, frozenset((z, g)): -sign, frozenset(single): 1.0}
    if single not in ([g], [old]) or any(atom.kind is not Kind.ACTIVATION for atom in (z, g)):
        return None
    if not all(is_number(factor, wanted.get(frozenset(atoms), 0)) for atoms, factor in terms.items()):
        return None
    kinds = [_plain(columns.activation(atom.value)) for atom in (z, g)]
    update = _Reader(columns, h, None).gate(z)
    if sign < 0:
        if kinds[0].name != "Sigmoid":  # 1 − σ(x) = σ(−x)
            raise NotACell(Reject("other-formula", z.value.name, f"1 − {kinds[0].name}"))
        update = update.negated()
    reader = _Reader(columns, h, None, resets=True)
    candidate = reader.gate(g)
    if reader.reset is None or _plain(columns.activation(reader.reset.value)) != kinds[0]:
        raise NotACell(Reject("other-formula", g.value.name, "no reset"))
    reset = _Reader(columns, h, None).gate(reader.reset)
    return Cell("GRU", h, None, (update, reset, candidate), tuple(kinds))


def _rnn(columns: Columns, h: State, terms: Terms) -> Cell:
    """An activation of the sum."""
    atom = next((atoms[0] for atoms in terms if len(atoms) == 1 and atoms[0].kind is Kind.ACTIVATION), None)
    if len(terms) != 1 or atom is None or not is_number(terms[(atom,)], 1):
        raise NotACell(Reject("other-formula", h.new.name))
    gate = _Reader(columns, h, None).gate(atom)
    if not gate.state.any():
        raise NotACell(Reject("other-formula", h.new.name, "nothing of the state"))
    return Cell("RNN", h, None, (gate,), (_plain(columns.activation(atom.value)),))


# --- the sum of a gate -------------------------------------------------------------------------


@dataclass(slots=True)
class _Reader:
    """Reads what a gate is given, which may see the state `cell`. With `resets` the state h may be multiplied by a
    gate, which is `reset` then.
    """

    columns: Columns
    h: State
    cell: Value | None
    resets: bool = False
    reset: Atom | None = None
    _is_plain: bool = False  # the state comes without being reset, too

    def gate(self, atom: Atom) -> Gate:
        """The weights in the sum."""
        hidden = width(self.h.old)
        if hidden * hidden > MAX_WEIGHTS:
            raise NotACell(Reject("constant-too-large", self.h.old.name))
        gate = Gate(hidden)
        if atom.end - atom.begin != gate.hidden:
            raise NotACell(Reject("other-formula", atom.value.name, "another number of columns"))
        late: set[bool] = set()
        for atoms, factor in _given(self.columns, atom).items():
            self._read(gate, atoms, factor, late)
        if self.resets and (len(late) > 1 or self._is_plain or (gate.reset_bias.any() and late != {True})):
            raise NotACell(Reject("other-formula", atom.value.name, "a state that is not reset"))
        gate.is_late = True in late
        return gate

    def _read(self, gate: Gate, atoms: Product, factor: Factor, late: set[bool]) -> None:
        if not atoms:
            gate.bias += factor
            return
        rest = self._without_reset(atoms)
        if len(rest) < len(atoms):
            if not rest:
                gate.reset_bias += factor
                return
            late.add(True)
        if len(rest) != 1 or rest[0].kind is Kind.ACTIVATION:
            raise NotACell(Reject("other-formula", atoms[0].value.name, "a product of values"))
        if rest[0].kind is Kind.SOURCE:
            self._hand_on(gate, rest[0], np.broadcast_to(factor, gate.hidden), is_reset=rest != atoms)
            return
        value, weights = self.columns.weights(rest[0])
        weights = weights * factor
        for span in self.columns.spans(value, 0, len(weights)):
            some = weights[span.at : span.at + span.end - span.begin]
            for inner, gain in self.columns.terms(span.value, span.begin, span.end).items():
                scaled = some * np.reshape(gain, (-1, 1))
                if not inner and rest == atoms:
                    gate.bias += np.broadcast_to(scaled, some.shape).sum(0)
                    continue
                held = self._without_reset(inner) if rest == atoms else inner
                if len(held) != 1 or held[0].kind is not Kind.SOURCE:
                    raise NotACell(Reject("other-formula", span.value.name, "a product of values"))
                if held != inner:
                    late.add(False)
                self._put(gate, held[0], scaled, is_reset=(held, rest) != (inner, atoms))

    def _without_reset(self, atoms: Product) -> Product:
        """The other atoms of a product with the reset gate."""
        gates = [atom for atom in atoms if atom.kind is Kind.ACTIVATION]
        if not self.resets or len(gates) != 1 or self.reset not in (None, gates[0]):
            return atoms
        self.reset = gates[0]
        return tuple(atom for atom in atoms if atom != self.reset)

    def _put(self, gate: Gate, source: Atom, weights: Array, *, is_reset: bool) -> None:
        """Adds weights of columns of a source."""
        part = slice(source.begin, source.end)
        if source.value is self.h.old:
            if self.resets and not is_reset:
                self._is_plain = True
            if is_reset and source.end - source.begin != gate.hidden:
                raise NotACell(Reject("other-formula", source.value.name, "a part of the state is reset"))
            gate.state[part] += weights
        elif is_reset:
            raise NotACell(Reject("other-formula", source.value.name, "something else is reset"))
        else:
            inputs = self._inputs(gate, source, MAX_WEIGHTS)
            inputs[part] += weights

    def _hand_on(self, gate: Gate, source: Atom, factor: Factor, *, is_reset: bool) -> None:
        """Adds columns of a source, each times its factor, to those of the gate."""
        if source.value is self.cell and source.begin == 0 and not is_reset:
            gate.peephole += factor
        elif source.value is self.h.old or is_reset:
            raise NotACell(Reject("other-formula", source.value.name, "the state itself"))
        else:
            inputs = self._inputs(gate, source, MAX_UNIT)
            inputs[range(source.begin, source.end), range(gate.hidden)] += factor

    def _inputs(self, gate: Gate, source: Atom, limit: int) -> Array:
        """The weights of a source."""
        if width(source.value) * gate.hidden > limit:
            raise NotACell(Reject("constant-too-large", source.value.name))
        return gate.inputs.setdefault(source.value, np.zeros((width(source.value), gate.hidden)))


def _given(columns: Columns, atom: Atom) -> Terms:
    """What an activation is given, as the op's activation wants it."""
    scale = columns.activation(atom.value).scale
    terms = columns.terms(atom.value.producer.operand(0), atom.begin, atom.end)
    return {atoms: factor * scale for atoms, factor in terms.items()}


def _plain(activation: Activation) -> Activation:
    """Without what is in the weights already."""
    return Activation(activation.name, activation.alpha, activation.beta)


def is_number(factor: Factor, wanted: float) -> bool:
    """Is it this number in all columns, to six digits?"""
    return bool(np.allclose(factor, wanted, rtol=1e-6, atol=0))


def peepholes(cell: Cell) -> Array | None:
    """Those of i, o and f, if there are any."""
    found = np.concatenate([gate.peephole for gate in cell.gates[:3]])
    return found if cell.op_type == "LSTM" and found.any() else None


def operands(cell: Cell) -> Iterator[tuple[str, Array]]:
    """The constants that the op reads, of one direction: w, r and b."""
    w = [np.concatenate([_weights(gate, source) for source in cell.sources]).T for gate in cell.gates]
    biases = [gate.bias for gate in cell.gates]
    yield "w", np.concatenate(w)[None]
    yield "r", np.concatenate([gate.state.T for gate in cell.gates])[None]
    yield "b", np.concatenate([*biases, *[gate.reset_bias for gate in cell.gates]])[None]


def _weights(gate: Gate, source: Value) -> Array:
    held = gate.inputs.get(source)
    return np.zeros((width(source), gate.hidden)) if held is None else held

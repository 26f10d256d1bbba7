"""Recognise recurrent cells in the polynomials of a loop body, LSTM, GRU or RNN, and read the weights of their gates.

    c' = f·c + i·g,  h' = o·tanh(c')         LSTM
    h' = z·h + (1 − z)·g                     GRU
    h' = g                                   RNN

Gates are activations of x·W + h·R + b, to which LSTM may add peepholes p·c. In GRU's g, (r·h)·R or r·(h·R + b) stands
for h·R.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from atcpy.ir import Reject, Value
from atcpy.ir.tensor import Array
from atcpy.passes.prepare.recurrent.polynomials import (
    Activation,
    Coefficient,
    Kind,
    Monomial,
    NotACell,
    Polynomial,
    Polynomials,
    Variable,
    width,
)

MAX_WEIGHTS: Final = 1 << 24  # of a gate, for one source
MAX_UNIT: Final = 1 << 20  # the same of a source that is added without weights


@dataclass(frozen=True, slots=True)
class State:
    """A state of a cell before and after an iteration."""

    old: Value
    new: Value


@dataclass(slots=True)
class Gate:
    """The linear form to which a gate's activation is applied.

    inputs: the weights [columns of the source, hidden] of each source.
    state: the weights [hidden, hidden] of h.
    reset_bias: what GRU adds to h·R before it multiplies that by the reset gate.
    is_late: GRU multiplies by the reset gate after the product with R.
    """

    hidden: int
    inputs: dict[Value, Array] = field(default_factory=dict)
    state: Array = field(init=False)
    bias: Array = field(init=False)
    reset_bias: Array = field(init=False)
    peephole: Array = field(init=False)
    is_late: bool = False

    def __post_init__(self) -> None:
        self.state = np.zeros((self.hidden, self.hidden))
        self.bias, self.reset_bias, self.peephole = (np.zeros(self.hidden) for _ in range(3))

    def negated(self) -> Gate:
        """Return the gate of the negated linear form."""
        gate = Gate(self.hidden, {source: -weights for source, weights in self.inputs.items()})
        gate.state, gate.bias = -self.state, -self.bias
        return gate


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A cell of an ONNX op, with gates and activations in the op's order."""

    op_type: str
    h: State
    c: State | None
    gates: tuple[Gate, ...]
    activations: tuple[Activation, ...]

    @property
    def hidden(self) -> int:
        """Return the size of its state."""
        return self.gates[0].hidden

    @property
    def sources(self) -> list[Value]:
        """Return the values that it reads beside its state."""
        return list(dict.fromkeys(source for gate in self.gates for source in gate.inputs))


def find_cells(polynomials: Polynomials, states: Sequence[State]) -> list[Cell]:
    """Return the cells to which the states belong. Raises NotACell if a state belongs to none."""
    computed = {state: polynomials.expand(state.new, 0, width(state.old)) for state in states}
    cells: list[Cell] = []
    taken: set[State] = set()
    for c in states:
        parts = _lstm_parts(c, computed[c])
        for h in states if parts is not None else ():
            output = _output_gate(polynomials, c, computed[h])
            if parts is not None and output is not None and h not in taken:
                cells.append(_lstm(polynomials, h, c, (*parts, *output)))
                taken |= {h, c}
                break
    for state in states:
        if state not in taken:
            cells.append(_gru(polynomials, state, computed[state]) or _rnn(polynomials, state, computed[state]))
    return cells


# --- LSTM --------------------------------------------------------------------------------------


def _lstm_parts(c: State, computed: Polynomial) -> tuple[Variable, Variable, Variable] | None:
    """Return f, and i and g in any order, of f·c + i·g; None for another polynomial."""
    if len(computed) != 2 or not all(len(monomial) == 2 and is_number(k, 1) for monomial, k in computed.items()):
        return None
    old = Variable(Kind.SOURCE, c.old, 0, width(c.old))
    for kept, fresh in (list(computed), list(computed)[::-1]):
        others = [variable for variable in kept if variable != old]
        if len(others) == 1 and _are_activations(*others, *fresh):
            return others[0], fresh[0], fresh[1]
    return None


def _output_gate(polynomials: Polynomials, c: State, computed: Polynomial) -> tuple[Variable, Variable] | None:
    """Return o and tanh(c') of o·tanh(c'); None for another polynomial."""
    if len(computed) != 1:
        return None
    [(monomial, coefficient)] = computed.items()
    if len(monomial) != 2 or not is_number(coefficient, 1) or not _are_activations(*monomial):
        return None
    new = (Variable(Kind.SOURCE, c.new, 0, width(c.old)),)
    for gate, out in (monomial, monomial[::-1]):
        argument = _argument(polynomials, out)
        if list(argument) == [new] and is_number(argument[new], 1):
            return gate, out
    return None


def _are_activations(*variables: Variable) -> bool:
    return all(variable.kind is Kind.ACTIVATION for variable in variables)


def _lstm(polynomials: Polynomials, h: State, c: State, parts: tuple[Variable, ...]) -> Cell:
    f, first, second, o, out = parts
    kinds = {part: _plain(polynomials.activation(part.value)) for part in parts}
    i, g = (first, second) if kinds[first] == kinds[f] else (second, first)
    if not kinds[i] == kinds[f] == kinds[o]:
        raise NotACell(Reject("other-formula", i.value.name, "gates of different activations"))
    seen = (c.old, c.new, c.old, None)  # by the peepholes
    gates = [_Reader(polynomials, h, cell).gate(part) for cell, part in zip(seen, (i, o, f, g), strict=True)]
    return Cell("LSTM", h, c, tuple(gates), (kinds[f], kinds[g], kinds[out]))


# --- GRU and RNN -------------------------------------------------------------------------------


def _gru(polynomials: Polynomials, h: State, computed: Polynomial) -> Cell | None:
    """Return the GRU of z·h + (1 − z)·g, or of the same with 1 − z for z; None for another polynomial."""
    old = Variable(Kind.SOURCE, h.old, 0, width(h.old))
    single = [monomial[0] for monomial in computed if len(monomial) == 1]
    pairs = [monomial for monomial in computed if len(monomial) == 2]
    gates = [variable for pair in pairs if old in pair for variable in pair if variable != old]
    fresh = [variable for pair in pairs if old not in pair for variable in pair if variable not in gates]
    if len(computed) != 3 or not len(single) == len(gates) == len(fresh) == 1:
        return None
    z, g = gates[0], fresh[0]
    sign = 1.0 if single == [g] else -1.0
    required = {frozenset((z, old)): sign, frozenset((z, g)): -sign, frozenset(single): 1.0}
    if single not in ([g], [old]) or not _are_activations(z, g):
        return None
    if not all(is_number(k, required.get(frozenset(monomial), 0)) for monomial, k in computed.items()):
        return None
    kinds = [_plain(polynomials.activation(variable.value)) for variable in (z, g)]
    update = _Reader(polynomials, h, None).gate(z)
    if sign < 0:
        if kinds[0].name != "Sigmoid":  # 1 − σ(x) = σ(−x)
            raise NotACell(Reject("other-formula", z.value.name, f"1 − {kinds[0].name}"))
        update = update.negated()
    reader = _Reader(polynomials, h, None, resets=True)
    candidate = reader.gate(g)
    if reader.reset is None or _plain(polynomials.activation(reader.reset.value)) != kinds[0]:
        raise NotACell(Reject("other-formula", g.value.name, "no reset"))
    reset = _Reader(polynomials, h, None).gate(reader.reset)
    return Cell("GRU", h, None, (update, reset, candidate), tuple(kinds))


def _rnn(polynomials: Polynomials, h: State, computed: Polynomial) -> Cell:
    """Return the RNN whose state is an activation. Raises NotACell for another polynomial."""
    single = [monomial[0] for monomial in computed if len(monomial) == 1 and _are_activations(*monomial)]
    if len(computed) != 1 or not single or not is_number(computed[(single[0],)], 1):
        raise NotACell(Reject("other-formula", h.new.name))
    gate = _Reader(polynomials, h, None).gate(single[0])
    if not gate.state.any():
        raise NotACell(Reject("other-formula", h.new.name, "nothing of the state"))
    return Cell("RNN", h, None, (gate,), (_plain(polynomials.activation(single[0].value)),))


# --- the linear form of a gate -----------------------------------------------------------------


@dataclass(slots=True)
class _Reader:
    """Reads the linear form of a gate, which may have peepholes on the value `cell`. With `resets`, the state h may be
    multiplied by another gate, which becomes `reset`.
    """

    polynomials: Polynomials
    h: State
    cell: Value | None
    resets: bool = False
    reset: Variable | None = None
    _is_plain: bool = False  # h occurs without the reset gate, too

    def gate(self, variable: Variable) -> Gate:
        """Return the weights of a gate. Raises NotACell if its argument is no linear form."""
        hidden = width(self.h.old)
        if hidden * hidden > MAX_WEIGHTS:
            raise NotACell(Reject("constant-too-large", self.h.old.name))
        gate = Gate(hidden)
        if variable.end - variable.begin != gate.hidden:
            raise NotACell(Reject("other-formula", variable.value.name, "another number of columns"))
        late: set[bool] = set()
        for monomial, coefficient in _argument(self.polynomials, variable).items():
            self._read(gate, monomial, coefficient, late)
        if self.resets and (len(late) > 1 or self._is_plain or (gate.reset_bias.any() and late != {True})):
            raise NotACell(Reject("other-formula", variable.value.name, "a state that is not reset"))
        gate.is_late = True in late
        return gate

    def _read(self, gate: Gate, monomial: Monomial, coefficient: Coefficient, late: set[bool]) -> None:
        if not monomial:
            gate.bias += coefficient
            return
        rest = self._without_reset(monomial)
        if len(rest) < len(monomial):
            if not rest:
                gate.reset_bias += coefficient
                return
            late.add(True)
        if len(rest) != 1 or rest[0].kind is Kind.ACTIVATION:
            raise NotACell(Reject("other-formula", monomial[0].value.name, "a product of values"))
        if rest[0].kind is Kind.SOURCE:
            self._add_columns(gate, rest[0], np.broadcast_to(coefficient, gate.hidden), is_reset=rest != monomial)
            return
        value, weights = self.polynomials.weights(rest[0])
        weights = weights * coefficient
        for span in self.polynomials.spans(value, 0, len(weights)):
            some = weights[span.at : span.at + span.end - span.begin]
            for inner, gain in self.polynomials.of(span.value, span.begin, span.end).items():
                scaled = some * np.reshape(gain, (-1, 1))
                if not inner and rest == monomial:
                    gate.bias += np.broadcast_to(scaled, some.shape).sum(0)
                    continue
                source = self._without_reset(inner) if rest == monomial else inner
                if len(source) != 1 or source[0].kind is not Kind.SOURCE:
                    raise NotACell(Reject("other-formula", span.value.name, "a product of values"))
                if source != inner:
                    late.add(False)
                self._add_product(gate, source[0], scaled, is_reset=(source, rest) != (inner, monomial))

    def _without_reset(self, monomial: Monomial) -> Monomial:
        """Return a monomial without the reset gate."""
        gates = [variable for variable in monomial if variable.kind is Kind.ACTIVATION]
        if not self.resets or len(gates) != 1 or self.reset not in (None, gates[0]):
            return monomial
        self.reset = gates[0]
        return tuple(variable for variable in monomial if variable != self.reset)

    def _add_product(self, gate: Gate, source: Variable, weights: Array, *, is_reset: bool) -> None:
        """Add columns of a source times weights."""
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

    def _add_columns(self, gate: Gate, source: Variable, coefficient: Coefficient, *, is_reset: bool) -> None:
        """Add columns of a source, each times its coefficient."""
        if source.value is self.cell and source.begin == 0 and not is_reset:
            gate.peephole += coefficient
        elif source.value is self.h.old or is_reset:
            raise NotACell(Reject("other-formula", source.value.name, "the state itself"))
        else:
            inputs = self._inputs(gate, source, MAX_UNIT)
            inputs[range(source.begin, source.end), range(gate.hidden)] += coefficient

    def _inputs(self, gate: Gate, source: Variable, limit: int) -> Array:
        """Return the weights of a source, to add to."""
        if width(source.value) * gate.hidden > limit:
            raise NotACell(Reject("constant-too-large", source.value.name))
        return gate.inputs.setdefault(source.value, np.zeros((width(source.value), gate.hidden)))


def _argument(polynomials: Polynomials, variable: Variable) -> Polynomial:
    """Return the argument of an activation, with the activation's scale in it."""
    scale = polynomials.activation(variable.value).scale
    argument = polynomials.of(variable.value.producer.operand(0), variable.begin, variable.end)
    return {monomial: coefficient * scale for monomial, coefficient in argument.items()}


def _plain(activation: Activation) -> Activation:
    """Return an activation without its scale, which is in the weights, and its gain."""
    return Activation(activation.name, activation.alpha, activation.beta)


def is_number(coefficient: Coefficient, number: float) -> bool:
    """Return whether a coefficient is this number in all columns, to six digits."""
    return bool(np.allclose(coefficient, number, rtol=1e-6, atol=0))


def peepholes(cell: Cell) -> Array | None:
    """Return the peepholes of i, o and f, if there are any."""
    found = np.concatenate([gate.peephole for gate in cell.gates[:3]])
    return found if cell.op_type == "LSTM" and found.any() else None


def operands(cell: Cell) -> Iterator[tuple[str, Array]]:
    """Yield the constant inputs w, r and b of the op, by name."""
    w = [np.concatenate([_weights(gate, source) for source in cell.sources]).T for gate in cell.gates]
    biases = [gate.bias for gate in cell.gates]
    yield "w", np.concatenate(w)[None]
    yield "r", np.concatenate([gate.state.T for gate in cell.gates])[None]
    yield "b", np.concatenate([*biases, *[gate.reset_bias for gate in cell.gates]])[None]


def _weights(gate: Gate, source: Value) -> Array:
    weights = gate.inputs.get(source)
    return np.zeros((width(source), gate.hidden)) if weights is None else weights

"""Recurrent cells and blocks of them.

Weights are one matrix for the input and the state below each other, its columns the gates: `w` [I + H, 4·H].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from atcpy.ir import Value
from atcpy.ir.arithmetic import Expr
from atcpy.parsers.tensorflow.op import OpBuilder, maps, refused

_OUTPUTS: Final = ("i", "cs", "f", "o", "ci", "co", "h")
_STANDARD_ORDER: Final = "iofc"  # of the gates in LSTM


@dataclass(frozen=True, slots=True)
class _Lstm:
    """The attributes of a block or cell. `order` is that of the gates in the columns of `w`."""

    order: str
    forget_bias: float
    clip: float
    has_peepholes: bool

    @staticmethod
    def of(b: OpBuilder) -> _Lstm:
        """Those of a node."""
        is_second = b.node.op == "BlockLSTMV2"
        bias = 0.0 if is_second else b.float_attr("forget_bias")
        clip, peepholes = b.float_attr("cell_clip"), b.bool_attr("use_peephole")
        return _Lstm("ifco" if is_second else "icfo", bias, clip, peepholes)

    def step(self, b: OpBuilder, sums: Value, state: Value, peepholes: Sequence[Value]) -> dict[str, Value]:
        """Return the outputs of one step by name, from the sums of its gates and the state of the cell."""
        gates = b.ops("Split", sums, outputs=4, axis=1, num_outputs=4)
        parts = {name: Expr(b, gate) for name, gate in zip(self.order, gates, strict=True)}
        cs = Expr(b, state)
        if self.has_peepholes:
            parts["i"] += cs * Expr(b, peepholes[0])
            parts["f"] += cs * Expr(b, peepholes[1])
        if self.forget_bias:
            parts["f"] += self.forget_bias
        i, f, ci = parts["i"].apply("Sigmoid"), parts["f"].apply("Sigmoid"), parts["c"].apply("Tanh")
        cs = f * cs + i * ci
        if self.clip > 0:
            cs = cs.clip(-self.clip, self.clip)
        if self.has_peepholes:
            parts["o"] += cs * Expr(b, peepholes[2])
        o, co = parts["o"].apply("Sigmoid"), cs.apply("Tanh")
        outputs = {"i": i, "cs": cs, "f": f, "o": o, "ci": ci, "co": co, "h": o * co}
        return {name: output.value for name, output in outputs.items()}


def _sizes(b: OpBuilder, w: Value) -> tuple[int, int]:
    """The sizes of input and state."""
    shape = b.shape_of(w)
    if len(shape) != 2 or not (isinstance(shape[0], int) and isinstance(shape[1], int)) or shape[1] % 4:
        raise b.invalid(f"weights of shape {list(shape)}")
    return shape[0] - shape[1] // 4, shape[1] // 4


@maps("LSTMBlockCell")
def lstm_cell(b: OpBuilder) -> list[Value | None]:
    """MatMul of input and state, and the gates; every output is there"""
    x, cs, h, w, *peepholes = [b.input(index) for index in range(7)]
    sums = b.op("Add", b.op("MatMul", b.op("Concat", x, h, axis=1), w), b.input(7))
    return list(_Lstm.of(b).step(b, sums, cs, peepholes).values())


@maps("BlockLSTM", "BlockLSTMV2")
def lstm_block(b: OpBuilder) -> list[Value | None]:
    """LSTM; a Scan where more than h is read or the cell is clipped"""
    cell = _Lstm.of(b)
    names = [name for index, name in enumerate(_OUTPUTS) if b.is_read(index)]
    x, rest = _used_steps(b)
    is_standard = cell.clip <= 0 and names == ["h"]
    outputs = {"h": _standard(b, cell, x)} if is_standard else _scanned(b, cell, x, names)
    if rest is not None:
        outputs = {name: _with_zeros(b, value, rest) for name, value in outputs.items()}
    return [outputs.get(name) for name in _OUTPUTS]


def _used_steps(b: OpBuilder) -> tuple[Value, Value | None]:
    """The input up to `seq_len_max`, and the number of steps behind that if there may be any."""
    x, known = b.input(1), b.known(b.input(0))
    steps = b.dim_of(x, 0)
    if known is not None and len(known) == 1:
        limit = known[0]
        if limit == steps or (isinstance(limit, int) and isinstance(steps, int) and limit >= steps):
            return x, None
    count = b.op("Shape", x, start=0, end=1)
    used = b.op("Max", b.size_input(0), b.const([0]))
    used = b.op("Min", used, count)
    return b.slice(x, 0, used, 0), b.op("Sub", count, used)


def _with_zeros(b: OpBuilder, value: Value, rest: Value) -> Value:
    shape = b.op("Concat", rest, b.op("Shape", value, start=1), axis=0)
    return b.op("Concat", value, b.op("Expand", b.like(0, value), shape), axis=0)


def _rows(b: OpBuilder, w: Value, inputs: int) -> tuple[Value, Value]:
    """The weights of the input, and those of the state."""
    first = b.slice(w, 0, inputs, 0)
    return first, b.slice(w, inputs, 2**31 - 1, 0)


def _standard(b: OpBuilder, cell: _Lstm, x: Value) -> Value:
    """The states of all steps by an LSTM of the standard."""
    cs, h, w, wci, wcf, wco, bias = [b.input(index) for index in range(2, 9)]
    inputs, hidden = _sizes(b, w)

    def ordered(value: Value, axis: int) -> Value:
        parts = b.ops("Split", value, outputs=4, axis=axis, num_outputs=4)
        by_gate = dict(zip(cell.order, parts, strict=True))
        if cell.forget_bias and axis == 0:
            by_gate["f"] = b.op("Add", by_gate["f"], b.like(cell.forget_bias, value))
        return b.op("Concat", *[by_gate[gate] for gate in _STANDARD_ORDER], axis=axis)

    of_input, of_state = [b.unsqueeze(b.transpose(ordered(part, 1), (1, 0)), 0) for part in _rows(b, w, inputs)]
    zeros = b.op("Expand", b.like(0, bias), b.const([4 * hidden]))
    biases = b.unsqueeze(b.op("Concat", ordered(bias, 0), zeros, axis=0), 0)
    peepholes = b.unsqueeze(b.op("Concat", wci, wco, wcf, axis=0), 0) if cell.has_peepholes else None
    states = [b.unsqueeze(value, 0) for value in (h, cs)]
    y = b.op("LSTM", x, of_input, of_state, biases, None, *states, peepholes, hidden_size=hidden)
    return b.squeeze(y, 1)


def _scanned(b: OpBuilder, cell: _Lstm, x: Value, names: Sequence[str]) -> dict[str, Value]:
    """The outputs of all steps: the product with the inputs at once, the rest in a Scan."""
    cs, h, w, *peepholes = [b.input(index) for index in range(2, 8)]
    inputs, _ = _sizes(b, w)
    of_input, of_state = _rows(b, w, inputs)
    sums = b.op("Add", b.op("MatMul", x, of_input), b.input(8))

    def step(inner: OpBuilder, values: list[Value]) -> tuple[list[Value], list[Value]]:
        state, hidden, of_x = values
        gates = inner.op("Add", of_x, inner.op("MatMul", hidden, of_state))
        outputs = cell.step(inner, gates, state, peepholes)
        return [outputs["cs"], outputs["h"]], [outputs[name] for name in names]

    return dict(zip(names, b.scan({"cs": cs, "h": h}, {"sums": sums}, step)[2:], strict=True))


@maps("GRUBlockCell")
def gru_cell(b: OpBuilder) -> list[Value | None]:
    """MatMuls of input and state, and the gates; every output is there"""
    x, h, w_ru, w_c, b_ru, b_c = [b.expr(index) for index in range(6)]

    def product(state: Expr, weights: Expr, bias: Expr) -> Expr:
        return Expr(b, b.op("Concat", x.value, state.value, axis=1)).apply("MatMul", weights) + bias

    gates = product(h, w_ru, b_ru).apply("Sigmoid").value
    r, u = [Expr(b, gate) for gate in b.ops("Split", gates, outputs=2, axis=1, num_outputs=2)]
    c = product(r * h, w_c, b_c).apply("Tanh")
    return [r.value, u.value, c.value, (u * h + (1 - u) * c).value]


maps("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", note="Refused: its weights are in an order that cuDNN alone knows")(
    refused("weights in the order of cuDNN", "export the model with layers that run without a GPU")
)

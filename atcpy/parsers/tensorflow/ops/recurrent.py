"""Recurrent cells and blocks of them.

Weights are one matrix for the input and the state below each other, its columns the gates: `w` [I + H, 4·H].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, TensorDesc, Value
from atcpy.parsers.tensorflow.op import Op, maps

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
    def of(op: Op) -> _Lstm:
        """Those of a node."""
        is_second = op.node.op == "BlockLSTMV2"
        bias = 0.0 if is_second else op.float_attr("forget_bias")
        clip, peepholes = op.float_attr("cell_clip"), op.bool_attr("use_peephole")
        return _Lstm("ifco" if is_second else "icfo", bias, clip, peepholes)

    def step(self, op: Op, gates: Value, cs: Value, peepholes: Sequence[Value]) -> dict[str, Value]:
        """What a step makes of the sums of its gates and the state of the cell."""
        parts = dict(zip(self.order, op.add_many("Split", gates, outputs=4, axis=1, num_outputs=4), strict=True))
        in_sum, forget_sum, out_sum = parts["i"], parts["f"], parts["o"]
        if self.has_peepholes:
            in_sum = op.add("Add", in_sum, op.add("Mul", cs, peepholes[0]))
            forget_sum = op.add("Add", forget_sum, op.add("Mul", cs, peepholes[1]))
        if self.forget_bias:
            forget_sum = op.add("Add", forget_sum, op.like(self.forget_bias, forget_sum))
        i, f = op.add("Sigmoid", in_sum), op.add("Sigmoid", forget_sum)
        ci = op.add("Tanh", parts["c"])
        new = op.add("Add", op.add("Mul", f, cs), op.add("Mul", i, ci))
        if self.clip > 0:
            new = op.add("Clip", new, op.like(-self.clip, new), op.like(self.clip, new))
        if self.has_peepholes:
            out_sum = op.add("Add", out_sum, op.add("Mul", new, peepholes[2]))
        o, co = op.add("Sigmoid", out_sum), op.add("Tanh", new)
        return {"i": i, "cs": new, "f": f, "o": o, "ci": ci, "co": co, "h": op.add("Mul", o, co)}


def _sizes(op: Op, w: Value) -> tuple[int, int]:
    """The sizes of input and state."""
    shape = op.shape_of(w)
    if len(shape) != 2 or not (isinstance(shape[0], int) and isinstance(shape[1], int)) or shape[1] % 4:
        raise ModelInvalid("E13014", f"weights of shape {list(shape)}", where=op.where)
    return shape[0] - shape[1] // 4, shape[1] // 4


@maps("LSTMBlockCell")
def lstm_cell(op: Op) -> list[Value | None]:
    """MatMul of input and state, and the gates; every output is there"""
    x, cs, h, w, *peepholes = [op.input(place) for place in range(7)]
    sums = op.add("Add", op.add("MatMul", op.add("Concat", x, h, axis=1), w), op.input(7))
    made = _Lstm.of(op).step(op, sums, cs, peepholes)
    return [made[name] for name in _OUTPUTS]


@maps("BlockLSTM", "BlockLSTMV2")
def lstm_block(op: Op) -> list[Value | None]:
    """LSTM; a Scan where more than h is read or the cell is clipped"""
    cell = _Lstm.of(op)
    wanted = [name for place, name in enumerate(_OUTPUTS) if op.is_read(place)]
    x, rest = _used_steps(op)
    if cell.clip <= 0 and wanted == ["h"]:
        made = {"h": _standard(op, cell, x)}
    else:
        made = _scanned(op, cell, x, wanted)
    if rest is not None:
        made = {name: _with_zeros(op, value, rest) for name, value in made.items()}
    return [made.get(name) for name in _OUTPUTS]


def _used_steps(op: Op) -> tuple[Value, Value | None]:
    """The input up to `seq_len_max`, and the number of steps behind that if there may be any."""
    x, known = op.input(1), op.known(op.input(0))
    steps = op.shape_of(x)[0]
    if known is not None and len(known) == 1:
        limit = known[0]
        if limit == steps or (isinstance(limit, int) and isinstance(steps, int) and limit >= steps):
            return x, None
    count = op.add("Shape", x, start=0, end=1)
    used = op.add("Max", op.reshape(op.cast(op.input(0), DType.INT64), [1]), op.const([0]))
    used = op.add("Min", used, count)
    return op.add("Slice", x, op.const([0]), used, op.const([0])), op.add("Sub", count, used)


def _with_zeros(op: Op, value: Value, rest: Value) -> Value:
    shape = op.add("Concat", rest, op.add("Shape", value, start=1), axis=0)
    return op.add("Concat", value, op.add("Expand", op.like(0, value), shape), axis=0)


def _rows(op: Op, w: Value, inputs: int) -> tuple[Value, Value]:
    """The weights of the input, and those of the state."""
    first = op.add("Slice", w, op.const([0]), op.const([inputs]), op.const([0]))
    return first, op.add("Slice", w, op.const([inputs]), op.const([2**31 - 1]), op.const([0]))


def _standard(op: Op, cell: _Lstm, x: Value) -> Value:
    """The states of all steps by an LSTM of the standard."""
    cs, h, w, wci, wcf, wco, b = [op.input(place) for place in range(2, 9)]
    inputs, hidden = _sizes(op, w)

    def ordered(value: Value, axis: int) -> Value:
        parts = op.add_many("Split", value, outputs=4, axis=axis, num_outputs=4)
        by_gate = dict(zip(cell.order, parts, strict=True))
        if cell.forget_bias and axis == 0:
            by_gate["f"] = op.add("Add", by_gate["f"], op.like(cell.forget_bias, value))
        return op.add("Concat", *[by_gate[gate] for gate in _STANDARD_ORDER], axis=axis)

    of_input, of_state = [op.unsqueeze(op.transpose(ordered(part, 1), (1, 0)), 0) for part in _rows(op, w, inputs)]
    zeros = op.add("Expand", op.like(0, b), op.const([4 * hidden]))
    bias = op.unsqueeze(op.add("Concat", ordered(b, 0), zeros, axis=0), 0)
    peepholes = op.unsqueeze(op.add("Concat", wci, wco, wcf, axis=0), 0) if cell.has_peepholes else None
    states = [op.unsqueeze(value, 0) for value in (h, cs)]
    y = op.add("LSTM", x, of_input, of_state, bias, None, *states, peepholes, hidden_size=hidden)
    return op.squeeze(y, 1)


def _scanned(op: Op, cell: _Lstm, x: Value, wanted: Sequence[str]) -> dict[str, Value]:
    """What is wanted of all steps: the product with the inputs at once, the rest in a Scan."""
    cs, h, w, *peepholes = [op.input(place) for place in range(2, 8)]
    inputs, _ = _sizes(op, w)
    of_input, of_state = _rows(op, w, inputs)
    sums = op.add("Add", op.add("MatMul", x, of_input), op.input(8))
    body = Graph(f"{op.node.name}/body", names=op.graph.names)
    fed: list[Value] = []
    for index, (name, value) in enumerate((("cs", cs), ("h", h), ("sums", sums))):
        data = body.append("Data", (), {"index": index}, name=f"{op.node.name}/{name}")
        shape = op.shape_of(value)
        data.output.desc = TensorDesc.plain(value.desc.dtype, shape[1:] if value is sums else shape)
        fed.append(data.output)
    inner = replace(op, graph=body)
    gates = inner.add("Add", fed[2], inner.add("MatMul", fed[1], of_state))
    made = cell.step(inner, gates, fed[0], peepholes)
    # A graph returns each value once.
    results = [made["cs"], made["h"], *[inner.add("Identity", made[name]) for name in wanted]]
    body.append("NetOutput", results, name="NetOutput", outputs=())
    names = ("",) * len(results)
    attrs = {"body": body, "num_scan_inputs": 1}
    node = op.graph.append("Scan", [cs, h, sums], attrs, name=f"{op.node.name}/Scan", outputs=names)
    node.sources = (op.node.name,)
    steps = op.shape_of(x)[0]
    for value, result in zip(node.outputs, results, strict=True):
        shape = inner.shape_of(result)
        value.desc = TensorDesc.plain(result.desc.dtype, shape if value.index < 2 else (steps, *shape))
    return dict(zip(wanted, node.outputs[2:], strict=True))


@maps("GRUBlockCell")
def gru_cell(op: Op) -> list[Value | None]:
    """MatMuls of input and state, and the gates; every output is there"""
    x, h, w_ru, w_c, b_ru, b_c = [op.input(place) for place in range(6)]
    both = op.add("MatMul", op.add("Concat", x, h, axis=1), w_ru)
    gates = op.add("Sigmoid", op.add("Add", both, b_ru))
    r, u = op.add_many("Split", gates, outputs=2, axis=1, num_outputs=2)
    candidate = op.add("MatMul", op.add("Concat", x, op.add("Mul", r, h), axis=1), w_c)
    c = op.add("Tanh", op.add("Add", candidate, b_c))
    kept = op.add("Mul", u, h)
    return [r, u, c, op.add("Add", kept, op.add("Mul", op.add("Sub", op.like(1, u), u), c))]


@maps("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
def cudnn(op: Op) -> Value:
    """Refused: its weights are in an order that cuDNN alone knows"""
    raise op.refuse("weights in the order of cuDNN", "export the model with layers that run without a GPU")

"""Recurrent nets with quantized weights."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib


@contrib(
    "DynamicQuantizeLSTM",
    "X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale R_zero_point",
    "activation_alpha:F activation_beta:F activations:S clip:f direction:s hidden_size:i input_forget:i",
    outputs=(0, 3),
)
def dynamic_quantize_lstm(e: Expansion) -> Sequence[Value]:
    """LSTM with the weights that the integers stand for; what flows stays in floating point."""
    optional = [e.input(name) for name in ("B", "sequence_lens", "initial_h", "initial_c", "P")]
    weights = [_dequantized(e, "W"), _dequantized(e, "R")]
    return e.ops("LSTM", e.operand("X"), *weights, *optional, outputs=3, **e.node.attrs)


def _dequantized(e: Expansion, name: str) -> Value:
    """[D, K, 4·H] of integers → [D, 4·H, K]; a scale for each direction, or for each column as well."""
    scale, zero = e.operand(f"{name}_scale"), e.operand(f"{name}_zero_point")
    integers, zeros = (e.cast(x, DType.FLOAT32) for x in (e.operand(name), zero))
    steps = e.op("Mul", e.op("Sub", integers, _spread(e, zeros, zero)), _spread(e, scale, scale))
    return e.transpose(steps, (0, 2, 1))


def _spread(e: Expansion, value: Value, like: Value) -> Value:
    return e.unsqueeze(value, *((1, 2) if e.rank_of(like) == 1 else (1,)))

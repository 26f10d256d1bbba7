"""The embedding layer of BERT, and rotary positions."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.ops.contrib.attention import joined_heads
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.quantized import dequantized
from atcpy.ops.contrib.record import contrib


@contrib(
    "EmbedLayerNormalization",
    "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? position_ids?",
    "epsilon:f mask_index_type:i",
    outputs=(1, 3),
)
def embed_layer_normalization(e: Expansion) -> Sequence[Value | str]:
    """LayerNormalization(word[id] + position[index] + segment[id]), the lengths by the mask, and the sum."""
    words, positions = e.operand("word_embedding"), e.operand("position_embedding")
    total = _embedding_sum(e, words, positions, e.input("segment_embedding"), e.input("position_ids"))
    y = e.op(
        "LayerNormalization",
        total,
        e.operand("gamma"),
        e.operand("beta"),
        axis=-1,
        epsilon=e.node.float_attr("epsilon", 1e-12),
    )
    return [y, _lengths(e) if e.has_output(1) else "", total]


_QUANTIZED = ["word_embedding", "position_embedding", "segment_embedding", "gamma", "beta"]


@contrib(
    "QEmbedLayerNormalization",
    "input_ids segment_ids? word_embedding_quant position_embedding_quant segment_embedding? gamma_quant beta_quant"
    " mask? "
    + " ".join(f"{name}_scale{'?' * name.startswith('s')}" for name in _QUANTIZED)
    + " "
    + " ".join(f"{name}_zero_point{'?' * name.startswith('s')}" for name in _QUANTIZED),
    "epsilon:f",
    outputs=(2, 2),
)
def q_embed_layer_normalization(e: Expansion) -> Sequence[Value]:
    """EmbedLayerNormalization of quantized tables."""
    segments = None if e.input("segment_embedding") is None else _table(e, "segment_embedding", "")
    words, positions, gamma, beta = (_table(e, name) for name in _QUANTIZED if name != "segment_embedding")
    total = _embedding_sum(e, words, positions, segments, None)
    y = e.op("LayerNormalization", total, gamma, beta, axis=-1, epsilon=e.node.float_attr("epsilon", 1e-12))
    return [y, _lengths(e)]


def _table(e: Expansion, name: str, suffix: str = "_quant") -> Value:
    return dequantized(e, e.operand(name + suffix), e.operand(f"{name}_scale"), e.input(f"{name}_zero_point"))


def _embedding_sum(
    e: Expansion, words: Value, positions: Value, segment_table: Value | None, position_ids: Value | None
) -> Value:
    ids, segments = e.operand("input_ids"), e.input("segment_ids")
    if position_ids is None:
        at = e.slice(positions, 0, e.dim(ids, 1), 0)
    else:
        at = e.op("Gather", positions, position_ids, axis=0)
    total = e.sum(e.op("Gather", words, ids, axis=0), at)
    if segments is None or segment_table is None:
        return total
    return e.sum(total, e.op("Gather", segment_table, segments, axis=0))


def _lengths(e: Expansion) -> Value:
    """How many of the mask's numbers are 1, for each of the batch; 0 without a mask."""
    mask = e.input("mask")
    if mask is None:
        return e.op("Expand", e.const([0], DType.INT32), e.dim(e.operand("input_ids"), 0))
    ones = e.op("Equal", mask, e.like(1, mask))
    return e.op("ReduceSum", e.cast(ones, DType.INT32), e.const([1]), keepdims=0)


def rotated(e: Expansion, x: Value, positions: Value, **attrs: object) -> Value:
    """RotaryEmbedding of x, [B, S, N·H] of `num_heads` heads or [B, N, S, H], by the angles at the positions [B, S]."""
    caches = e.operand("cos_cache"), e.operand("sin_cache")
    return e.op("RotaryEmbedding", x, *caches, positions, **attrs)


def rotated_elements(e: Expansion) -> int:
    """How many elements of a head are rotated: twice the width of the caches."""
    shape = e.operand("cos_cache").desc.shape
    width = shape[1] if shape is not None and len(shape) == 2 else None
    if not isinstance(width, int):
        raise e.unsupported("the width of cos_cache is not known", "give cos_cache a known shape")
    return 2 * width


@contrib(
    "RotaryEmbedding",
    "input position_ids cos_cache sin_cache",
    "interleaved:i is_packed_batching:i num_heads:i rotary_embedding_dim:i scale:f",
)
def rotary_embedding(e: Expansion) -> Value:
    """RotaryEmbedding of the standard, where all sequences may begin at one position."""
    e.refuse_attrs("is_packed_batching", "export the model without packed batches")
    x, positions = e.operand("input"), e.operand("position_ids")
    attrs = {name: e.node.int_attr(name, 0) for name in ("interleaved", "num_heads", "rotary_embedding_dim")}
    is_flat = e.rank_of(x) == 3
    if e.rank_of(positions) == 1:
        sequence = e.dim(x, 1 if is_flat else 2)
        shape = e.op("Concat", e.dim(x, 0), sequence, axis=0)
        positions = e.op("Expand", e.iota(sequence, positions), shape)
    if not is_flat or attrs["num_heads"]:
        return rotated(e, x, positions, **attrs)
    apart = e.transpose(e.reshape(x, (0, 0, -1, rotated_elements(e))), (0, 2, 1, 3))
    return joined_heads(e, rotated(e, apart, positions, **attrs))

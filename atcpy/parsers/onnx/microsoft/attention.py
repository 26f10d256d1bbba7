"""Attention and multi-head attention, written as products and a Softmax.

B batch, S queries, L new keys, P keys of the past, T = P + L, N heads, H size of a head.
"""

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.ir.shape import Dim
from atcpy.parsers.onnx.microsoft.expansion import FLOAT16_MOST, Expansion
from atcpy.parsers.onnx.microsoft.table import microsoft

_FILTER = -10000.0
_SHARED = "past_present_share_buffer"
_NO_SHARING = "export the model without a shared key-value buffer"
# What causal masking adds: far below any score, and finite in each floating-point type but float16's own sum.
_LOWEST = float.fromhex("-0x1.fffffep+127")


def heads(e: Expansion, x: Value, count: int) -> Value:
    """[B, S, N·H] → [B, N, S, H]"""
    return e.transpose(e.reshape(x, 0, 0, count, -1), 0, 2, 1, 3)


def joined_heads(e: Expansion, x: Value) -> Value:
    """[B, N, S, H] → [B, S, N·H]"""
    return e.reshape(e.transpose(x, 0, 2, 1, 3), 0, 0, -1)


def scale_of(e: Expansion, q: Value) -> Value:
    """The attribute `scale`, or 1 / √H."""
    given = e.node.float_attr("scale", 0.0)
    if given:
        return e.number(given, q)
    size = e.op("Cast", e.dim(q, -1), to=DType.FLOAT32.onnx)
    return e.cast_like(e.op("Reciprocal", e.op("Sqrt", size)), q)


def scores_of(e: Expansion, q: Value, k: Value, rank: int = 4) -> Value:
    """scale · q · kᵀ over the last two axes."""
    return e.op("MatMul", e.op("Mul", q, scale_of(e, q)), e.transpose(k, *range(rank - 2), rank - 1, rank - 2))


def attend(e: Expansion, q: Value, k: Value, v: Value, added: Sequence[Value | None]) -> Value:
    """Softmax(scale · q · kᵀ + added) · v, heads joined; all are [B, N, …, H]."""
    masks = [mask for mask in added if mask is not None]
    total = e.sum(*masks) if masks else None
    probabilities = e.op("Softmax", e.sum(scores_of(e, q, k), total), axis=-1)
    return joined_heads(e, e.op("MatMul", probabilities, v))


def filtered(e: Expansion, keep: Value, like: Value, low: float) -> Value:
    """0 where a key is kept, else a number that no Softmax lets through."""
    return e.op("Where", keep, e.number(0.0, like), e.number(max(low, lowest(e, like)), like))


def causal_mask(e: Expansion, q: Value, k: Value, past: Value | None) -> Value:
    """[S, T]: query s sees the keys up to P + s."""
    rows = e.positions(past, e.dim(q, 2))
    columns = e.positions(None, e.dim(k, 2))
    keep = e.op("LessOrEqual", e.unsqueeze(columns, 0), e.unsqueeze(rows, 1))
    return filtered(e, keep, q, lowest(e, q))


def lowest(e: Expansion, like: Value) -> float:
    """The smallest number of a value's type."""
    return -FLOAT16_MOST if e.dtype(like) is DType.FLOAT16 else _LOWEST


def padding_mask(e: Expansion, mask: Value, q: Value, k: Value, batch: Value) -> Value:
    """The mask of the model, which comes in four forms, as something to add to the scores."""
    low = e.node.float_attr("mask_filter_value", _FILTER)
    rank = e.rank(mask)
    if rank == 1:
        return filtered(e, _within_lengths(e, mask, k, batch), q, low)
    if rank == 4:
        raise e.unsupported("a mask of 4 dims", "export the model with a mask of 2 or 3 dims")
    keep = e.op("Greater", mask, e.number(0, mask))
    return filtered(e, e.unsqueeze(keep, *([1, 2] if rank == 2 else [1])), q, low)


def _within_lengths(e: Expansion, mask: Value, k: Value, batch: Value) -> Value:
    """[B, 1, 1, T]: the key is before the end, and not before the start if the mask has B ends, then B starts."""
    columns = e.cast_like(e.positions(None, e.dim(k, 2)), mask)
    size, items = _first_dim(mask), _first_dim(batch)
    if size is not None and size == items:
        return e.op("Less", columns, e.unsqueeze(mask, 1, 2, 3))
    if isinstance(size, int) and isinstance(items, int) and size != 2 * items:
        raise e.unsupported(f"a mask of {size} numbers for a batch of {items}", "export it with a mask of 2 dims")
    count = e.dim(batch, 0)
    ends = e.slice(mask, 0, count, 0)
    # Without starts the second half is empty, and zeros take its place.
    zeros = e.op("Expand", e.number(0, mask), count)
    starts = e.slice(e.op("Concat", e.slice(mask, count, 2**63 - 1, 0), zeros, axis=0), 0, count, 0)
    before_end = e.op("Less", columns, e.unsqueeze(ends, 1, 2, 3))
    return e.op("And", before_end, e.op("GreaterOrEqual", columns, e.unsqueeze(starts, 1, 2, 3)))


def _first_dim(value: Value) -> Dim | None:
    return value.desc.shape[0] if value.desc.shape else None


def parts_of(e: Expansion, x: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    """x cut into q, k and v: of these sizes, or alike."""
    if sizes:
        return e.ops("Split", 3, x, e.const("sizes", sizes), axis=axis)
    return e.ops("Split", 3, x, axis=axis, num_outputs=3)


def self_attention(e: Expansion, projected: Value, x: Value) -> None:
    """The rest of Attention and QAttention, when the projection [B, S, q·k·v] is made."""
    e.refuse_attrs(f"{_SHARED} do_rotary", _NO_SHARING)
    count = e.count("num_heads")
    q, k, v = (heads(e, part, count) for part in parts_of(e, projected, e.node.ints_attr("qkv_hidden_sizes"), 2))
    mask, past, length = e.input("mask_index"), e.input("past"), None
    if past is not None:
        old_k, old_v = (e.op("Gather", past, e.const("index", index), axis=0) for index in (0, 1))
        k, v = e.op("Concat", old_k, k, axis=2), e.op("Concat", old_v, v, axis=2)
        length = e.dim(old_k, 2)
    added = [padding_mask(e, mask, q, k, x) if mask is not None else None]
    if e.node.int_attr("unidirectional", 0):
        added.append(causal_mask(e, q, k, length))
    if e.node.op_type == "Attention":
        added.append(e.input("attention_bias"))
    y = attend(e, q, k, v, added)
    present = e.op("Concat", e.unsqueeze(k, 0), e.unsqueeze(v, 0), axis=0) if e.asks(1) else ""
    e.finish(y, present)


@microsoft(
    "Attention",
    "input weights bias? mask_index? past? attention_bias? past_sequence_length?",
    "num_heads:i! do_rotary:i mask_filter_value:f past_present_share_buffer:i qkv_hidden_sizes:I"
    " rotary_embedding_dim:i scale:f unidirectional:i",
    outputs=(1, 2),
)
def attention(e: Expansion) -> None:
    """Self-attention whose three projections are one product."""
    e.refuse_inputs("past_sequence_length", _NO_SHARING)
    x = e.operand("input")
    self_attention(e, e.sum(e.op("MatMul", x, e.operand("weights")), e.input("bias")), x)


@microsoft(
    "MultiHeadAttention",
    "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? past_sequence_length?"
    " cache_indirection?",
    "num_heads:i! mask_filter_value:f scale:f unidirectional:i",
    outputs=(1, 4),
)
def multi_head_attention(e: Expansion) -> None:
    """Attention on what was projected before, packed or not."""
    e.refuse_inputs("past_sequence_length cache_indirection", _NO_SHARING)
    q, k, v = _separate(e)
    length = None
    old_k, old_v = e.input("past_key"), e.input("past_value")
    if old_k is not None and old_v is not None:
        k, v = e.op("Concat", old_k, k, axis=2), e.op("Concat", old_v, v, axis=2)
        length = e.dim(old_k, 2)
    mask = e.input("key_padding_mask")
    added = [padding_mask(e, mask, q, k, e.operand("query")) if mask is not None else None]
    if e.node.int_attr("unidirectional", 0):
        added.append(causal_mask(e, q, k, length))
    added.append(e.input("attention_bias"))
    e.finish(attend(e, q, k, v, added), k, v, "scores are not kept: export the model without this output")


def _separate(e: Expansion) -> list[Value]:
    """q, k and v as [B, N, …, H], with their parts of the bias."""
    query, key, value, bias = e.operand("query"), e.input("key"), e.input("value"), e.input("bias")
    count = e.count("num_heads")
    if key is None:  # [B, S, N, 3, H]
        packed = [
            e.op("Squeeze", part, e.const("axes", [3])) for part in e.ops("Split", 3, query, axis=3, num_outputs=3)
        ]
    elif value is None:  # [B, L, N, 2, H]
        pair = [e.op("Squeeze", part, e.const("axes", [3])) for part in e.ops("Split", 2, key, axis=3, num_outputs=2)]
        packed = [e.reshape(query, 0, 0, count, -1), *pair]
    elif e.rank(key) == 4:  # the key and value of the past, [B, N, L, H]
        q = query if bias is None else e.sum(query, _parts_of_bias(e, bias, query)[0])
        return [heads(e, q, count), key, value]
    else:
        flat = [query, key, value]
        if bias is not None:
            flat = [e.sum(x, part) for x, part in zip(flat, _parts_of_bias(e, bias, query), strict=True)]
        return [heads(e, x, count) for x in flat]
    if bias is not None:
        rows = [e.reshape(part, count, -1) for part in parts_of(e, bias, (), 0)]
        packed = [e.sum(x, row) for x, row in zip(packed, rows, strict=True)]
    return [e.transpose(x, 0, 2, 1, 3) for x in packed]


def _parts_of_bias(e: Expansion, bias: Value, query: Value) -> list[Value]:
    """Those of query and key are as long as a query, that of the value takes the rest."""
    size = e.dim(query, 2)
    twice = e.op("Add", size, size)
    return [e.slice(bias, 0, size, 0), e.slice(bias, size, twice, 0), e.slice(bias, twice, 2**63 - 1, 0)]

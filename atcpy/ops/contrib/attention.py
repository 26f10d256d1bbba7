"""Attention and multi-head attention, as the standard's Attention; spelled out as products and a Softmax where that
cannot say it or has no kernel.

B batch, S queries, L new keys, P keys of the past, T = P + L, N heads, H size of a head.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ir.builder import INT64_MAX
from atcpy.ir.shape import Dim, is_static
from atcpy.ops.attention.attention import MAX_HEAD_SIZE
from atcpy.ops.contrib.expansion import FLOAT16_MAX, Expansion
from atcpy.ops.contrib.record import contrib

_FILTER = -10000.0
_SHARED = "past_present_share_buffer"
_NO_SHARING = "export the model without a shared key-value buffer"
# What causal masking adds: far below any score, and finite in each floating-point type but float16's own sum.
_LOWEST = float.fromhex("-0x1.fffffep+127")
_KERNEL_TYPES = ({DType.FLOAT32}, {DType.FLOAT16})


def heads(e: Expansion, x: Value, count: int) -> Value:
    """[B, S, N·H] → [B, N, S, H]"""
    return e.transpose(e.reshape(x, (0, 0, count, -1)), (0, 2, 1, 3))


def joined_heads(e: Expansion, x: Value) -> Value:
    """[B, N, S, H] → [B, S, N·H]"""
    return e.reshape(e.transpose(x, (0, 2, 1, 3)), (0, 0, -1))


def scale_of(e: Expansion, q: Value) -> Value:
    """The attribute `scale`, or 1 / √H."""
    scale = e.node.float_attr("scale", 0.0)
    if scale:
        return e.like(scale, q)
    size = e.cast(e.dim(q, -1), DType.FLOAT32)
    return e.cast_like(e.op("Reciprocal", e.op("Sqrt", size)), q)


def scores_of(e: Expansion, q: Value, k: Value, rank: int = 4) -> Value:
    """scale · q · kᵀ over the last two axes."""
    return e.op("MatMul", e.op("Mul", q, scale_of(e, q)), e.transpose(k, (*range(rank - 2), rank - 1, rank - 2)))


def filtered(e: Expansion, keep: Value, like: Value, low: float) -> Value:
    """0 where a key is kept, else a number that no Softmax lets through."""
    return e.op("Where", keep, e.like(0.0, like), e.like(max(low, lowest(e, like)), like))


def causal_mask(e: Expansion, like: Value, queries: Value, keys: Value, past: Value | None) -> Value:
    """[S, T]: query s sees the keys up to P + s."""
    rows, columns = e.iota(queries, past), e.iota(keys)
    keep = e.op("LessOrEqual", e.unsqueeze(columns, 0), e.unsqueeze(rows, 1))
    return filtered(e, keep, like, lowest(e, like))


def lowest(e: Expansion, like: Value) -> float:
    """The smallest number of a value's type."""
    return -FLOAT16_MAX if e.dtype_of(like) is DType.FLOAT16 else _LOWEST


def padding_mask(e: Expansion, mask: Value, q: Value, keys: Value, batch: Value) -> Value:
    """The mask of the model, which comes in four forms, as something to add to the scores."""
    low = e.node.float_attr("mask_filter_value", _FILTER)
    rank = e.rank_of(mask)
    if rank == 1:
        return filtered(e, _within_lengths(e, mask, keys, batch), q, low)
    if rank == 4:
        raise e.unsupported("a mask of 4 dims", "export the model with a mask of 2 or 3 dims")
    keep = e.op("Greater", mask, e.like(0, mask))
    columns = _size(mask, 1)
    if rank == 2 and (columns == 1 or not isinstance(columns, int)):
        # One column for many keys is no mask, whatever it holds.
        keep = e.op("Or", keep, e.op("Not", e.op("Equal", e.dim(mask, 1), keys)))
    return filtered(e, e.unsqueeze(keep, *([1, 2] if rank == 2 else [1])), q, low)


def _within_lengths(e: Expansion, mask: Value, keys: Value, batch: Value) -> Value:
    """[B, 1, 1, T]: the key is before the end, and not before the start if the mask has B ends, then B starts."""
    columns = e.cast_like(e.iota(keys), mask)
    size, items = _first_dim(mask), _first_dim(batch)
    if size is not None and size == items:
        return e.op("Less", columns, e.unsqueeze(mask, 1, 2, 3))
    if isinstance(size, int) and isinstance(items, int) and size != 2 * items:
        raise e.unsupported(f"a mask of {size} numbers for a batch of {items}", "export it with a mask of 2 dims")
    count = e.dim(batch, 0)
    ends = e.slice(mask, 0, count, 0)
    # Without starts the second half is empty, and zeros take its place.
    zeros = e.op("Expand", e.like(0, mask), count)
    starts = e.slice(e.op("Concat", e.slice(mask, count, INT64_MAX, 0), zeros, axis=0), 0, count, 0)
    before_end = e.op("Less", columns, e.unsqueeze(ends, 1, 2, 3))
    return e.op("And", before_end, e.op("GreaterOrEqual", columns, e.unsqueeze(starts, 1, 2, 3)))


def _first_dim(value: Value) -> Dim | None:
    return value.desc.shape[0] if value.desc.shape else None


def parts_of(e: Expansion, x: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    """x cut into q, k and v: of these sizes, or alike."""
    if sizes:
        return e.ops("Split", x, e.const(sizes), outputs=3, axis=axis)
    return e.ops("Split", x, outputs=3, axis=axis, num_outputs=3)


def attend(
    e: Expansion,
    q: Value,
    k: Value,
    v: Value,
    past: Sequence[Value],
    *,
    mask: Value | None,
    bias: Value | None,
    is_joined: bool,
) -> list[Value]:
    """Softmax(scale · q · kᵀ + masks) · v with its heads joined, and all keys and values as [B, N, T, H]. New queries,
    keys and values are [B, N, …, H], or [B, …, N·H] where `is_joined`.
    """
    axis = 1 if is_joined else 2
    queries, new = e.dim(q, axis), e.dim(k, axis)
    length = e.dim(past[0], 2) if past else None
    keys = new if length is None else e.op("Add", length, new)
    hidden = padding_mask(e, mask, q, keys, e.node.operand(0)) if mask is not None else None
    is_causal = bool(e.node.int_attr("unidirectional", 0))
    by_attribute = is_causal and not past and _size(q, axis) is not None and _size(q, axis) == _size(k, axis)
    if is_causal and not by_attribute:
        causal = causal_mask(e, q, queries, keys, length)
        is_lowest = e.node.float_attr("mask_filter_value", _FILTER) <= lowest(e, q) / 2
        if hidden is None:
            hidden = causal
        else:  # hidden by both, a key is as the others: a query that sees none takes as much of each
            hidden = e.op("Min", hidden, causal) if is_lowest else e.sum(hidden, causal)
    masks = [each for each in (hidden, bias) if each is not None]
    total = e.sum(*masks) if masks else None
    has_columns = is_causal and not by_attribute
    is_read = reads_masks(total, bias, _size(k, axis), past, has_columns=has_columns)
    if has_kernel(e, q, k, v, past, is_joined=is_joined) and is_read:
        count, scale = e.count("num_heads"), e.node.float_attr("scale", 0.0)
        attrs: dict[str, object] = {"is_causal": 1} if by_attribute else {}
        attrs |= {"scale": scale} if scale else {}
        attrs |= {"q_num_heads": count, "kv_num_heads": count} if is_joined else {}
        wants_all = len(e.node.outputs) > 1
        y, *all_keys = e.ops("Attention", q, k, v, total, *past, outputs=3 if wants_all else 1, **attrs)
        return [y if is_joined else joined_heads(e, y), *all_keys]
    if by_attribute:
        causal = causal_mask(e, q, queries, keys, length)
        total = causal if total is None else e.sum(total, causal)
    if is_joined:
        q, k, v = (heads(e, x, e.count("num_heads")) for x in (q, k, v))
    if past:
        k, v = (e.op("Concat", old, x, axis=2) for old, x in zip(past, (k, v), strict=True))
    probabilities = e.op("Softmax", e.sum(scores_of(e, q, k), total), axis=-1)
    return [joined_heads(e, e.op("MatMul", probabilities, v)), k, v]


def _size(value: Value, axis: int) -> Dim | None:
    return value.desc.shape[axis] if value.desc.shape is not None else None


def has_kernel(e: Expansion, q: Value, k: Value, v: Value, past: Sequence[Value], *, is_joined: bool) -> bool:
    """Whether the kernel of Attention takes these types, scale and sizes of heads."""
    count = e.count("num_heads") if is_joined else 1
    sizes = [_size(x, -1) for x in (q, k, v)]
    scale = e.node.float_attr("scale", 0.0)
    return (
        {value.desc.dtype for value in (q, k, v, *past)} in _KERNEL_TYPES
        and all(value.desc.shape is not None and len(value.desc.shape) == 4 for value in past)
        and all(isinstance(size, int) and size % count == 0 and 0 < size // count <= MAX_HEAD_SIZE for size in sizes)
        and 0 <= scale < np.inf
    )


def reads_masks(
    total: Value | None, bias: Value | None, new: Dim | None, past: Sequence[Value], *, has_columns: bool = False
) -> bool:
    """Whether Attention reads the sum of these masks as it is: it has a number for each key, and none hides all keys of
    a query, for which the standard gives zeros and ONNX Runtime's op NaN. Of open sizes only `has_columns` tells the
    first: one of the masks was made with a column for each key.
    """
    if total is None:
        return True
    old = _size(past[0], 2) if past else 0
    shape = total.desc.shape
    if new is None or old is None or not shape or len(shape) > 4:
        return False
    sizes = (old, new, shape[-1])
    if not (sizes[0] + sizes[1] == sizes[2] if is_static(sizes) else has_columns):
        return False
    return bias is None or not may_hide_rows(bias)


def may_hide_rows(bias: Value) -> bool:
    """Whether a bias may hide all keys of a query. One that is fed is taken not to."""
    if bias.producer.op_type == "Data":
        return False
    return bias.tensor is None or bool(np.isneginf(bias.array).all(-1).any())


def self_attention(e: Expansion, projected: Value) -> Sequence[Value | str]:
    """The rest of Attention and QAttention, when the projection [B, S, q·k·v] is made."""
    e.refuse_attrs(f"{_SHARED} do_rotary", _NO_SHARING)
    q, k, v = parts_of(e, projected, e.node.ints_attr("qkv_hidden_sizes"), 2)
    past = e.input("past")
    halves = [] if past is None else [e.op("Gather", past, e.const(index), axis=0) for index in (0, 1)]
    bias = e.input("attention_bias") if e.node.op_type == "Attention" else None
    y, *pair = attend(e, q, k, v, halves, mask=e.input("mask_index"), bias=bias, is_joined=True)
    return [y, e.op("Concat", *(e.unsqueeze(x, 0) for x in pair), axis=0) if e.has_output(1) else ""]


@contrib(
    "Attention",
    "input weights bias? mask_index? past? attention_bias? past_sequence_length?",
    "num_heads:i! do_rotary:i mask_filter_value:f past_present_share_buffer:i qkv_hidden_sizes:I"
    " rotary_embedding_dim:i scale:f unidirectional:i",
    outputs=(1, 2),
)
def attention(e: Expansion) -> Sequence[Value | str]:
    """Self-attention whose three projections are one product."""
    e.refuse_inputs("past_sequence_length", _NO_SHARING)
    x = e.operand("input")
    return self_attention(e, e.sum(e.op("MatMul", x, e.operand("weights")), e.input("bias")))


@contrib(
    "MultiHeadAttention",
    "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? past_sequence_length?"
    " cache_indirection?",
    "num_heads:i! mask_filter_value:f scale:f unidirectional:i",
    outputs=(1, 4),
)
def multi_head_attention(e: Expansion) -> Sequence[Value | str]:
    """Attention on what was projected before, packed or not."""
    e.refuse_inputs("past_sequence_length cache_indirection", _NO_SHARING)
    q, k, v, is_joined = _separate(e)
    pair = [value for name in ("past_key", "past_value") if (value := e.input(name)) is not None]
    past = pair if len(pair) == 2 else []
    mask, bias = e.input("key_padding_mask"), e.input("attention_bias")
    results = attend(e, q, k, v, past, mask=mask, bias=bias, is_joined=is_joined)
    return [*results[: len(e.node.outputs)], "scores are not kept: export the model without this output"]


def _separate(e: Expansion) -> tuple[Value, Value, Value, bool]:
    """q, k and v with their parts of the bias as [B, …, N·H] and True, or as [B, N, …, H] and False."""
    query, key, value, bias = e.operand("query"), e.input("key"), e.input("value"), e.input("bias")
    count = e.count("num_heads")
    if key is not None and value is not None and e.rank_of(key) == 4:  # the key and value of the past, [B, N, L, H]
        q = query if bias is None else e.sum(query, _parts_of_bias(e, bias, query)[0])
        return heads(e, q, count), key, value, False
    if key is None:  # [B, S, N, 3, H]
        flat = _unpacked(e, query, 3)
    elif value is None:  # [B, L, N, 2, H]
        flat = [query, *_unpacked(e, key, 2)]
    else:
        flat = [query, key, value]
    if bias is not None:
        parts = parts_of(e, bias, (), 0) if value is None else _parts_of_bias(e, bias, query)
        flat = [e.sum(x, part) for x, part in zip(flat, parts, strict=True)]
    q, k, v = flat
    return q, k, v, True


def _unpacked(e: Expansion, packed: Value, count: int) -> list[Value]:
    """[B, S, N, count, H] → `count` tensors [B, S, N·H]"""
    parts = e.ops("Split", packed, outputs=count, axis=3, num_outputs=count)
    return [e.reshape(part, (0, 0, -1)) for part in parts]


def _parts_of_bias(e: Expansion, bias: Value, query: Value) -> list[Value]:
    """Those of query and key are as long as a query, that of the value takes the rest."""
    size = e.dim(query, 2)
    twice = e.op("Add", size, size)
    return [e.slice(bias, 0, size, 0), e.slice(bias, size, twice, 0), e.slice(bias, twice, INT64_MAX, 0)]

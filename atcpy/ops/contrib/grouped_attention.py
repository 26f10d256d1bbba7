"""Attention whose queries share keys in groups, over a cache that may be longer than what it holds.

B batch, S new positions, P rows of the cache, T rows afterwards, M heads of keys, G queries a key, H size of a head.

How many rows of the cache are in use is a value, one for each sequence of the batch. Where FULL_CACHE is set, the
compiler assumes that it is all of them: then the new rows follow the old ones, T = P + S, and no length is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.ops.contrib.attention import (
    filtered,
    has_kernel,
    heads,
    joined_heads,
    lowest,
    may_hide_rows,
    reads_masks,
    scores_of,
)
from atcpy.ops.contrib.embedding import rotated, rotated_elements
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib

FULL_CACHE = "full_cache"  # an attribute that no model has: passes/full_caches.py sets it
PAST, LENGTHS, TOTAL_LENGTH = (3, 4), 5, 6  # inputs; results 1 and 2 are the caches afterwards
_EXPORT = "export the model for ONNX Runtime's CPU kernels"


@contrib(
    "GroupQueryAttention",
    "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache? position_ids?"
    " attention_bias? head_sink? k_scale? v_scale? q_norm_weight? k_norm_weight?",
    "kv_num_heads:i! num_heads:i! causal:i do_rotary:i k_quant_type:s kv_cache_bit_width:i local_window_size:i"
    " qk_norm_epsilon:f qk_output:i rotary_interleaved:i scale:f sliding_window_cache:i smooth_softmax:i softcap:f"
    " v_quant_type:s",
    outputs=(1, 4),
)
def group_query_attention(e: Expansion) -> Sequence[Value | str]:
    """Softmax(scale · q · kᵀ, masked) · v over the cache with the new keys and values put in."""
    e.refuse_inputs("k_scale v_scale q_norm_weight k_norm_weight", _EXPORT)
    e.refuse_attrs("sliding_window_cache qk_output", _EXPORT)
    q, k, v = _projections(e)
    sequence = e.dim(e.operand("query"), 1)
    past, ends = _lengths(e, sequence)
    rows = e.op("Add", e.unsqueeze(past, 1), e.iota(sequence))  # [B, S]: where the new ones stand
    if e.node.int_attr("do_rotary", 0):
        positions = e.input("position_ids") or _of_each_sequence(e, rows)
        attrs = {
            "interleaved": e.node.int_attr("rotary_interleaved", 0), "rotary_embedding_dim": rotated_elements(e),
        }  # fmt: skip
        q = rotated(e, q, positions, num_heads=e.count("num_heads"), **attrs)
        k = rotated(e, k, positions, num_heads=e.count("kv_num_heads"), **attrs)
    if _is_full(e):
        results = _extend(e, q, k, v, past)
        if results:
            return [*results, "scores are not kept"]
    keys, values = _cached(e, k, past, sequence, "key"), _cached(e, v, past, sequence, "value")
    return [_attend(e, q, keys, values, _mask(e, q, keys, rows, ends)), keys, values, "scores are not kept"]


def _is_full(e: Expansion) -> bool:
    return bool(e.node.int_attr(FULL_CACHE, 0))


def _lengths(e: Expansion, sequence: Value) -> tuple[Value, Value]:
    """[B], or [1] where all sequences are alike: the rows of the cache in use, and the last row afterwards."""
    if _is_full(e):
        past = e.dim(e.operand("past_key"), 2)
        return past, e.op("Sub", e.op("Add", past, sequence), e.const(1))
    # In a prompt there is no past, and padding may make a sequence shorter than S. Exporters write [B] or [B, 1].
    ends = e.cast(e.reshape(e.operand("seqlens_k"), (-1,)), DType.INT64)
    return e.op("Max", e.op("Sub", e.op("Add", ends, e.const(1)), sequence), e.const(0)), ends


def _of_each_sequence(e: Expansion, rows: Value) -> Value:
    """[B, S]"""
    if not _is_full(e):
        return rows
    query = e.operand("query")
    return e.op("Expand", rows, e.op("Concat", e.dim(query, 0), e.dim(query, 1), axis=0))


def _extend(e: Expansion, q: Value, k: Value, v: Value, past: Value) -> list[Value]:
    """The results by an Attention that puts the new rows behind those of a full cache; none where it cannot."""
    caches, bias = [e.operand("past_key"), e.operand("past_value")], e.input("attention_bias")
    if _has_sink(e) or (bias is not None and may_hide_rows(bias)):
        return []
    mask, window = bias, e.node.int_attr("local_window_size", -1)
    is_causal = e.node.int_attr("causal", 1)
    if is_causal and window >= 0:
        sequence = e.dim(q, 1)
        own, columns = e.unsqueeze(e.iota(sequence, past), 1), e.iota(e.op("Add", past, sequence))
        inside = e.op("Greater", columns, e.op("Sub", own, e.const(window)))
        mask = e.sum(filtered(e, inside, q, lowest(e, q)), bias)
    attrs: dict[str, object] = {"q_num_heads": e.count("num_heads"), "kv_num_heads": e.count("kv_num_heads")}
    if is_causal:
        attrs["is_causal"] = 1
    return e.ops("Attention", q, k, v, mask, *caches, outputs=3, **attrs, **_scaling(e))


def _scaling(e: Expansion) -> dict[str, float]:
    """What Attention does to scores, as attributes."""
    return {name: value for name in ("scale", "softcap") if (value := e.node.float_attr(name, 0.0))}


def _projections(e: Expansion) -> tuple[Value, Value, Value]:
    """q as [B, S, M·G·H], k and v as [B, S, M·H]."""
    count, groups = e.count("num_heads"), e.count("kv_num_heads")
    if count % groups:
        raise e.invalid(f"{count} heads in {groups} groups")
    q, k, v = e.operand("query"), e.input("key"), e.input("value")
    if k is None or v is None:
        packed = e.reshape(q, (0, 0, count + 2 * groups, -1))
        parts = e.ops("Split", packed, e.const([count, groups, groups]), outputs=3, axis=2)
        q, k, v = (e.reshape(part, (0, 0, -1)) for part in parts)
    return q, k, v


def _cached(e: Expansion, new: Value, past: Value, sequence: Value, name: str) -> Value:
    """[B, M, T, H]: the rows of the cache up to `past`, then the new ones, then zeros."""
    cache = e.input(f"past_{name}")
    new = e.reshape(new, (0, 0, e.count("kv_num_heads"), -1))
    if cache is None:
        return e.transpose(new, (0, 2, 1, 3))
    if _is_full(e):
        return e.op("Concat", cache, e.transpose(new, (0, 2, 1, 3)), axis=2)
    size = e.dim(cache, 2)
    total = e.cast(e.reshape(e.operand("total_sequence_length"), (1,)), DType.INT64)
    positions = e.iota(e.op("Max", size, total))
    first = e.unsqueeze(past, 1)
    offset = e.op("Sub", positions, first)
    zeros = e.op("Add", size, sequence)  # where a row of zeros stands behind cache and new ones
    from_new = e.op("Where", e.op("Less", offset, sequence), e.op("Add", offset, size), zeros)
    index = e.op("Where", e.op("Less", positions, first), positions, from_new)
    rows = e.op("Concat", e.transpose(cache, (0, 2, 1, 3)), new, axis=1)
    rows = e.op("Pad", rows, e.const([0, 0, 0, 0, 0, 1, 0, 0]))
    return e.transpose(e.op("GatherND", rows, e.unsqueeze(index, 2), batch_dims=1), (0, 2, 1, 3))


def _mask(e: Expansion, q: Value, keys: Value, rows: Value, ends: Value) -> Value:
    """[B, 1, S, T]: a query sees the keys up to its own, in a window if there is one."""
    columns = e.iota(e.dim(keys, 2))
    window = e.node.int_attr("local_window_size", -1)
    if not e.node.int_attr("causal", 1):
        keep = e.op("LessOrEqual", columns, e.unsqueeze(ends, 1, 2))
    else:
        own = e.unsqueeze(rows, 2)
        keep = e.op("LessOrEqual", columns, own)
        if window >= 0:
            start = e.op("Sub", own, e.const(window))
            keep = e.op("And", keep, e.op("Greater", columns, start))
    return e.unsqueeze(filtered(e, keep, q, lowest(e, q)), 1)


def _attend(e: Expansion, q: Value, keys: Value, values: Value, mask: Value) -> Value:
    """[B, S, M·G·H]: by Attention of the standard; spelled out where that cannot say it or has no kernel."""
    count, groups, cap = e.count("num_heads"), e.count("kv_num_heads"), e.node.float_attr("softcap", 0.0)
    is_static = all(value.desc.is_static for value in (q, keys, values, mask))
    if is_static and not _has_sink(e):
        bias, joined = e.input("attention_bias"), heads(e, q, count)
        total = e.sum(mask, bias)
        is_plain = reads_masks(total, bias, keys.desc.static_shape[2], ())
        if is_plain and has_kernel(e, joined, keys, values, (), is_joined=False):
            return joined_heads(e, e.op("Attention", joined, keys, values, total, **_scaling(e)))
    q = e.transpose(e.reshape(q, (0, 0, groups, count // groups, -1)), (0, 2, 3, 1, 4))
    scores = scores_of(e, q, e.unsqueeze(keys, 2), 5)
    if cap:
        scores = e.scale(e.op("Tanh", e.scale(scores, 1 / cap)), cap)
    scores = e.sum(scores, _bias(e), e.unsqueeze(mask, 1))
    if _has_sink(e):
        probabilities = e.op("Softmax", e.op("Concat", scores, _sink(e, scores), axis=-1), axis=-1)
        probabilities = e.slice(probabilities, 0, -1, -1)
    else:
        probabilities = e.op("Softmax", scores, axis=-1)
    y = e.op("MatMul", probabilities, e.unsqueeze(values, 2))
    return e.reshape(e.transpose(y, (0, 3, 1, 2, 4)), (0, 0, -1))


def _has_sink(e: Expansion) -> bool:
    return e.input("head_sink") is not None or e.node.int_attr("smooth_softmax", -1) == 1


def _bias(e: Expansion) -> Value | None:
    bias = e.input("attention_bias")
    if bias is None:
        return None
    shape = bias.desc.shape
    if shape is not None and len(shape) == 4 and shape[1] == 1:
        return e.unsqueeze(bias, 1)
    groups, count = e.count("kv_num_heads"), e.count("num_heads")
    if shape is None or len(shape) != 4 or shape[1] != count:
        raise e.unsupported("the heads of attention_bias are not known", "give attention_bias a known shape")
    sizes = [e.dim(bias, 0), e.const([groups, count // groups]), e.dim(bias, 2), e.dim(bias, 3)]
    return e.op("Reshape", bias, e.op("Concat", *sizes, axis=0))


def _sink(e: Expansion, scores: Value) -> Value:
    """What stands in each Softmax beside the scores and takes a share that goes nowhere."""
    sink, groups = e.input("head_sink"), e.count("kv_num_heads")
    column = e.like(0.0, scores) if sink is None else e.unsqueeze(e.reshape(sink, (groups, -1)), 0, 3, 4)
    return e.op("Expand", column, e.op("Shape", e.slice(scores, 0, 1, -1)))

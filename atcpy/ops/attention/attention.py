"""Attention: softmax(scale · Q·Kᵀ + mask) · V, head by head; one kernel where nothing rare is asked for, else it is
spelled out.

FusedAttention(x, mask?, past_key?, past_value?, tokens?) {head_size, v_head_size} = Attention(q, k, v, mask, past_key,
past_value) of the parts q, k and v that lie behind each other in the rows of x; its other attributes are Attention's,
and so are its results: y, present_key, present_value. Tokens are whole numbers t, one a key, as tokenizers mark
padding: what a key has added to its scores besides is 0 where t > 0, else {fill}; where {linear}, (1 − t) · fill.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, TensorDesc, Value
from atcpy.ir.shape import Dim, Shape, StaticShape, format_shape
from atcpy.ir.symbolic import agree
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.half import MULTIPLIES_BF16
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, register_operator
from atcpy.ops.core.reference import infer_by_onnx
from atcpy.ops.core.shape_values import UNNAMED, add, div, mul
from atcpy.ops.core.strided import item_bytes
from atcpy.ops.move.gather import INDEX_TYPES

D = TypeVar("D", bound=Dim)


def infer_attention(node: Node, known: Known) -> Sequence[TensorDesc]:
    """As the standard says; where its shape functions say nothing, what follows from heads, queries and keys."""
    q, k, v = (node.operand(index).desc for index in range(3))
    past = node.input(_PAST[0])
    cached = k.dtype if past is None else past.desc.dtype
    dtypes = (q.dtype, cached, cached, q.dtype)
    if cached is k.dtype:
        descs = list(infer_by_onnx(node, known))
    else:  # a pass left the caches in 16 bits
        descs = [TensorDesc.plain(dtype, None) for dtype in dtypes[: len(node.outputs)]]
    if (
        q.shape is None
        or k.shape is None
        or v.shape is None
        or not {len(q.shape), len(k.shape), len(v.shape)} <= {3, 4}
    ):
        return descs
    _check_heads(node)
    heads, kv_heads = _heads(node, q.shape, "q_num_heads"), _heads(node, k.shape, "kv_num_heads")
    keys, width = _keys(node, k.shape), _size_of_head(v.shape, kv_heads)
    _check_columns(node, keys)
    shapes: list[Shape] = [
        (*q.shape[:3], width) if len(q.shape) == 4 else (*q.shape[:2], mul(heads, width)),
        (k.shape[0], kv_heads, keys, _size_of_head(k.shape, kv_heads)),
        (v.shape[0], kv_heads, keys, width),
        (q.shape[0], heads, q.shape[-2], keys),
    ]
    for index, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=True)):
        if index < len(descs) and descs[index].shape is None:
            named = [unnamed_dim(node, 4 * index + axis) if dim == UNNAMED else dim for axis, dim in enumerate(shape)]
            descs[index] = TensorDesc.plain(dtype, tuple(named))
    return descs


def _check_heads(node: Node) -> None:
    """Raise ModelInvalid if the heads of queries and keys differ in size, or do not divide their rows."""
    sizes: list[int] = []
    for index, attr in ((0, "q_num_heads"), (1, "kv_num_heads")):
        shape = node.operand(index).desc.shape
        assert shape is not None
        width, heads = shape[-1], node.int_attr(attr, 1) if len(shape) == 3 else 1
        if heads < 1:
            raise ModelInvalid("E13014", where=node, what=f"{attr} = {heads} must be positive")
        if isinstance(width, int):
            if width % heads:
                raise ModelInvalid("EZ8888", where=node, what=f"{attr} = {heads} does not divide {width}")
            sizes.append(width // heads)
    k, v = (node.operand(index).desc.shape for index in (1, 2))
    assert k is not None and v is not None
    if len(k) != len(v) or (isinstance(k[-2], int) and isinstance(v[-2], int) and k[-2] != v[-2]):
        raise ModelInvalid("EZ8888", where=node, what=f"keys {format_shape(k)} and values {format_shape(v)}")
    if sizes and sizes[0] != sizes[-1]:
        what = f"heads of queries and keys have {sizes[0]} and {sizes[-1]} elements"
        raise ModelInvalid("EZ8888", where=node, what=what)


def _check_columns(node: Node, keys: Dim) -> None:
    """Raise ModelInvalid if the mask has more columns than there are keys, which a single key's would broadcast to."""
    mask = node.input(_MASK)
    columns = mask.desc.shape[-1] if mask is not None and mask.desc.shape else 0
    if isinstance(columns, int) and isinstance(keys, int) and columns > keys:
        raise ModelInvalid("EZ8888", where=node, what=f"a mask of {columns} columns for {keys} keys")


def _heads(node: Node, shape: tuple[D, ...], attr: str) -> D | int:
    return shape[1] if len(shape) == 4 else node.int_attr(attr, 1)


def _size_of_head(shape: Shape, heads: Dim) -> Dim:
    """The size is given, or the heads lie behind each other in the last dim."""
    if len(shape) == 4:
        return shape[3]
    return div(shape[2], heads)


def _keys(node: Node, k: Shape) -> Dim:
    """The keys of the cache and the new ones."""
    past, new = node.input(4), k[-2]
    if past is None:
        return new
    before = past.desc.shape[2] if past.desc.shape is not None and len(past.desc.shape) == 4 else UNNAMED
    return add(before, new)


# --- engines and lowering ----------------------------------------------------------------------

MAX_HEAD_SIZE = 1024  # csrc/attention/attention.h
_MASK = 3
# Attributes that the kernel knows one value of; and inputs that it does not know.
_PLAIN = {"left_window_size": -1, "right_window_size": -1, "softmax_precision": DType.FLOAT32.onnx}
_RARE = range(6, 7)
_PAST = (4, 5)
_RESULTS = 3  # that the kernel makes
# Of an Attention whose further results are caches: how many rows these have room for, and how many are there already.
CACHE, CACHED = "cache", "cached"


def supports_attention(node: Node) -> Iterable[Reject]:
    """The kernel takes float32 of known shapes, a mask that is as long as the keys, and nothing rare."""
    q, k, v = (node.operand(index).desc for index in range(3))
    if q.dtype is DType.FLOAT64:
        yield Reject("double", node.name)  # no reason to cast: its parts have kernels
    elif q.dtype is not DType.FLOAT32:
        yield Reject("dtype", node.name, q.dtype.long)
    if k.dtype is not q.dtype or v.dtype is not q.dtype:
        yield Reject("mixed-types", node.name)
    for name, plain in _PLAIN.items():
        if node.attrs.get(name, plain) != plain:
            yield Reject("attention-variant", node.name, name)
    if not 0 <= node.float_attr("softcap", 0.0) < math.inf:
        yield Reject("attention-variant", node.name, "softcap")
    if any(node.input(index) is not None for index in _RARE):
        yield Reject("attention-variant", node.name, "keys of another length each")
    caches = {value.desc.dtype for index in _PAST if (value := node.input(index)) is not None}
    caches |= {value.desc.dtype for value in node.outputs[1:_RESULTS]}
    if len(caches) > 1 or not caches <= {q.dtype, DType.FLOAT16}:
        yield Reject("mixed-types", node.name, "of caches")
    if any(value.use_count for value in node.outputs[_RESULTS:]) or len(node.outputs) == 2:
        yield Reject("attention-variant", node.name, "further results")
    if not all(value.desc.is_static for value in node.operands):
        yield Reject("shape-unknown", node.name)
        return
    if any(0 in desc.static_shape for desc in (q, k, v)):
        yield Reject("empty", node.name)
        return
    if not _fit(node) or not _past_fits(node, *_widths(node)):
        yield Reject("heads", node.name)
        return
    if max(_widths(node)) > MAX_HEAD_SIZE:
        yield Reject("size", node.name, f"heads of {max(_widths(node))}")
    yield from _supports_mask(node, q.dtype)


def _supports_mask(node: Node, dtype: DType) -> Iterable[Reject]:
    mask = node.input(_MASK)
    if mask is None:
        return
    if mask.desc.dtype not in (DType.BOOL, dtype):
        yield Reject("mixed-types", node.name, mask.desc.dtype.long)
    scores, shape = _scores(node), mask.desc.static_shape
    is_whole = bool(shape) and agree(shape[-1], scores[-1])  # one of open length mostly has a number for each key
    spreads = all(have in (1, want) for have, want in zip(reversed(shape[:-1]), reversed(scores[:-1]), strict=False))
    if not is_whole or len(shape) > len(scores) or not spreads:
        yield Reject("broadcast", node.name, mask.name)


def _scores(node: Node) -> StaticShape:
    """Batch, heads, queries and keys, those of the past among them."""
    q, k = (node.operand(index).desc.static_shape for index in range(2))
    return (q[0], _heads(node, q, "q_num_heads"), q[-2], k[-2] + past_keys(node, _PAST))


def past_keys(node: Node, input_indices: Sequence[int]) -> int:
    """How many keys come from earlier steps: they are operands, or in the cache that the results are put in."""
    if CACHE in node.attrs:
        return node.int_attr(CACHED, 0)
    past = node.input(input_indices[0])
    return 0 if past is None else past.desc.static_shape[2]


def _past_fits(node: Node, *widths: int) -> bool:
    """True if keys and values of earlier steps are there or not, and lie as the present ones will."""
    past = [value.desc for index in _PAST if (value := node.input(index)) is not None]
    k = node.operand(1).desc.static_shape
    heads, keys = _heads(node, k, "kv_num_heads"), past_keys(node, _PAST)
    expected = [(k[0], heads, keys, width) for width in widths]
    return not past or [desc.static_shape for desc in past] == expected


def _fit(node: Node) -> bool:
    """True if there is a key for each value, of the batch and the width of the queries, and heads can share them."""
    q, k, v = (node.operand(index).desc.static_shape for index in range(3))
    heads, kv_heads = (_heads(node, shape, f"{side}_num_heads") for side, shape in (("q", q), ("kv", k)))
    widths = [shape[-1] * (shape[1] if len(q) == 4 else 1) for shape in (q, k)]
    return (
        len(q) == len(k) == len(v)
        and q[0] == k[0] == v[0]
        and k[-2] == v[-2]
        and kv_heads == _heads(node, v, "kv_num_heads")
        and min(heads, kv_heads) > 0
        and heads % kv_heads == 0
        and widths[0] * kv_heads == widths[1] * heads
    )


def _widths(node: Node) -> tuple[int, int]:
    """Sizes of a head of queries and keys, and of values."""
    q, v = (node.operand(index).desc.static_shape for index in (0, 2))
    if len(q) == 4:
        return q[3], v[3]
    return q[2] // node.int_attr("q_num_heads", 1), v[2] // node.int_attr("kv_num_heads", 1)


def lower_attention(node: Node) -> Iterable[KernelCall]:
    """One launch of `attention`."""
    q, k, v = (node.operand(index) for index in range(3))
    batch, heads, queries, keys = _scores(node)
    head, v_head = _widths(node)
    params: dict[str, ParamValue] = {
        "batch": batch,
        "heads": heads,
        "kv_heads": _heads(node, k.desc.static_shape, "kv_num_heads"),
        "q_len": queries,
        "kv_len": keys,
        "head": head,
        "v_head": v_head,
        "joined": int(len(q.desc.static_shape) == 3),
        "row": [value.desc.static_shape[-1] for value in (q, k, v)],
    }
    yield _launch(node, (q, k, v), node.input(_MASK), _PAST, params)


def _launch(
    node: Node,
    operands: tuple[Value, ...],
    mask: Value | None,
    past: tuple[int, int],
    params: dict[str, ParamValue],
    tokens: Value | None = None,
) -> KernelCall:
    params["past"] = past_keys(node, past)
    if CACHE in node.attrs:
        params["cache"] = node.int_attr(CACHE, 0)
    before = [node.input(index) if params["past"] else None for index in past]
    wants_all = any(value.use_count for value in node.outputs[1:_RESULTS])
    kept = node.outputs[1] if wants_all else next((value for value in before if value is not None), None)
    params["half"] = int(kept is not None and kept.desc.dtype is DType.FLOAT16)
    params["causal"] = int(node.int_attr("is_causal", 0) != 0)
    params["scale"] = node.float_attr("scale", 1 / math.sqrt(int(str(params["head"]))))
    params["softcap"] = node.float_attr("softcap", 0.0)
    params["bf16"] = node.int_attr(MULTIPLIES_BF16, 0)
    params["mask"] = _mask_strides(mask)
    is_kept = mask is not None and mask.desc.dtype is DType.BOOL
    masks = (None, mask) if is_kept else (mask, None)
    results = tuple(node.outputs[: _RESULTS if wants_all else 1])
    return KernelCall("attention", (*operands, *masks, *before, tokens), results, params)


def _mask_strides(mask: Value | None) -> list[int]:
    """Steps over batch, heads and queries; 0 where one row serves all."""
    if mask is None:
        return [0, 0, 0]
    shape = (1,) * (4 - len(mask.desc.static_shape)) + mask.desc.static_shape
    return [0 if shape[axis] == 1 else math.prod(shape[axis + 1 :]) for axis in range(3)]


# --- of parts of one value ---------------------------------------------------------------------

_FUSED_PAST = (2, 3)
TOKENS = 4


def infer_fused(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Rows as wide as the heads of values, as many as there are of queries; keys and values of all steps."""
    x, width = node.operand(0).desc, node.int_attr("q_num_heads", 1) * node.int_attr("v_head_size", 1)
    past, heads = node.input(_FUSED_PAST[0]), node.int_attr("kv_num_heads", 1)
    shapes: list[Shape | None] = [None] * _RESULTS
    if x.shape is not None and len(x.shape) == 3 and (past is None or past.desc.shape is not None):
        keys = x.shape[1] if past is None or past.desc.shape is None else add(past.desc.shape[2], x.shape[1])
        sizes = (node.int_attr("head_size", 1), node.int_attr("v_head_size", 1))
        shapes = [(*x.shape[:-1], width), *((x.shape[0], heads, keys, size) for size in sizes)]
    dtypes = [x.dtype, *[x.dtype if past is None else past.desc.dtype] * 2]
    return [TensorDesc.plain(dtype, shape) for dtype, shape in zip(dtypes, shapes, strict=True)][: len(node.outputs)]


def parts_of_rows(node: Node) -> tuple[int, int, int]:
    """Where q, k and v end in the rows of a FusedAttention's operand."""
    head, v_head = node.int_attr("head_size", 1), node.int_attr("v_head_size", 1)
    q, kv = node.int_attr("q_num_heads", 1), node.int_attr("kv_num_heads", 1)
    return q * head, (q + kv) * head, (q + kv) * head + kv * v_head


def supports_fused(node: Node) -> Iterable[Reject]:
    """A pass makes it only of what the kernel takes; a model may not name it."""
    if node.operand(0).desc.dtype is not DType.FLOAT32:
        yield Reject("dtype", node.name, node.operand(0).desc.dtype.long)
    if not all(value.desc.is_static for value in node.operands):
        yield Reject("shape-unknown", node.name)
    elif parts_of_rows(node)[-1] != node.operand(0).desc.static_shape[-1]:
        yield Reject("heads", node.name)
    tokens = node.input(TOKENS)
    if tokens is not None and tokens.desc.dtype not in INDEX_TYPES:
        yield Reject("index-dtype", node.name, tokens.desc.dtype.long)


def lower_fused(node: Node) -> Iterable[KernelCall]:
    """One launch of `attention` on three views of one operand."""
    x = node.operand(0)
    batch, rows, width = x.desc.static_shape
    params: dict[str, ParamValue] = {
        "batch": batch,
        "heads": node.int_attr("q_num_heads", 1),
        "kv_heads": node.int_attr("kv_num_heads", 1),
        "q_len": rows,
        "kv_len": rows + past_keys(node, _FUSED_PAST),
        "head": node.int_attr("head_size", 1),
        "v_head": node.int_attr("v_head_size", 1),
        "joined": 1,
        "row": [width] * 3,
        "at": [0, *parts_of_rows(node)[:2]],
    }
    tokens = node.input(TOKENS)
    if tokens is not None:
        params["token_item"] = item_bytes(tokens.desc.dtype)
        params["tokens_step"] = 0 if tokens.desc.elements == params["kv_len"] else params["kv_len"]
        params["linear"], params["fill"] = node.int_attr("linear", 0), node.float_attr("fill", 0.0)
    yield _launch(node, (x, x, x), node.input(1), _FUSED_PAST, params, tokens)


register_operator(
    OpDef(
        name="Attention",
        infer=infer_attention,
        engines={Engine.AICORE: supports_attention},
        lower=lower_attention,
        factors=(0, 1, 2),
        half_states=tuple(zip(_PAST, (1, 2), strict=True)),
    )
)
register_operator(
    OpDef(
        name="FusedAttention",
        ge_type="Attention",
        infer=infer_fused,
        engines={Engine.AICORE: supports_fused},
        lower=lower_fused,
    )
)

"""Name the attention that exporters spell out.

MatMul(Softmax(s · MatMul(q, kᵀ) + mask), v)  →  Attention(q, k, v, mask) {scale=s}

The scale may be a quotient or a product, of the scores, of q, or of both operands; the mask is added, or Where puts a
number in its place, which must be so low that nothing of it is left behind the Softmax. A constant mask of what comes
later is `is_causal`. In Attention a query that sees no key gives zeros where Softmax gives NaN: masks that may hold a
row of −∞ are left alone. One that is computed or fed is taken to hold none unless −∞ is among what it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import DType, Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, op, var
from atcpy.ir.shape import Shape
from atcpy.ir.tensor import Array
from atcpy.ops.attention import MOST_OF_HEAD
from atcpy.options import Stage
from atcpy.passes.fusion import Fusion, only_read_within

NOTHING = -1e9  # a score so low that its exponential is 0 beside any other score's
ABSORBS = -1e30  # so low that adding a score to it changes nothing
_DEPTH = 6  # nodes that are looked through for −∞


def _times(x: Pattern, name: str) -> Op:
    return op(("Mul", "Div"), x, const(f"{name} factor"), commutative=True, name=name)


def _product(q: Pattern, k: Pattern) -> Op:
    return op("MatMul", q, k, name="scores")


_SCORES = (
    _times(_product(var("q"), var("k")), "scaled"),
    _product(_times(var("q"), "scaled q"), _times(var("k"), "scaled k")),
    _product(_times(var("q"), "scaled q"), var("k")),
    _product(var("q"), var("k")),
)
_MASKED: tuple[Op, ...] = tuple(
    masked
    for scores in _SCORES
    for masked in (
        op("Add", scores, var("added"), commutative=True, name="masked"),
        op("Where", var("kept"), scores, const("fill"), name="masked"),
        op("Where", var("hidden"), const("fill"), scores, name="masked"),
        scores,
    )
)


class Attention(Fusion, switch="AttentionFusionPass", stage=Stage.PREPARE, after=("PrunePass",), makes=("Attention",)):
    """Replace Softmax(s · q·kᵀ + mask) · v by Attention."""

    pattern = tuple(op("MatMul", op("Softmax", masked, name="softmax"), var("v"), name="y") for masked in _MASKED)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        y, softmax, scores = m.node("y"), m.node("softmax"), m.node("scores").output.desc.shape
        yield from only_read_within(m, y)
        if y.output.desc.dtype is not DType.FLOAT32:
            yield Reject("dtype", y.name, y.output.desc.dtype.long)
        if scores is None or not _are_heads(m):
            yield Reject("heads", y.name)
            return
        if softmax.int_attr("axis", -1) % len(scores) != len(scores) - 1:
            yield Reject("other-axes", softmax.name)
        scale = _scale(m)
        if scale is None or not 0 < scale < np.inf:
            yield Reject("other-constant", m.node("scores").name, "a scale is not one number above 0")
        yield from _meets_mask(m, scores)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        scores = m.node("scores").output.desc.shape
        assert scores is not None
        attrs: dict[str, object] = {"scale": _scale(m)}
        mask, is_causal = _mask(m, rw, scores)
        if is_causal:
            attrs["is_causal"] = 1
        if len(scores) == 3:  # the batch has the heads in it
            attrs |= {"q_num_heads": 1, "kv_num_heads": 1}
        return rw.insert("Attention", m["q"], _turned(m["k"], rw), m["v"], *([] if mask is None else [mask]), **attrs)


def _are_heads(m: Match) -> bool:
    """True if q, k and v are matrices of the same heads, no wider than the kernel takes."""
    q, k, v = (m[name].desc.shape for name in ("q", "k", "v"))
    if q is None or k is None or v is None or not len(q) == len(k) == len(v) or len(q) not in (3, 4):
        return False
    widths = [dim for dim in (q[-1], v[-1]) if isinstance(dim, int)]
    return q[:-2] == k[:-2] == v[:-2] and len(widths) == 2 and max(widths) <= MOST_OF_HEAD


def _scale(m: Match) -> float | None:
    """The product of all factors; None if one is no single number."""
    scale = 1.0
    for name in ("scaled", "scaled q", "scaled k"):
        if name not in m.nodes:
            continue
        node, factor = m.node(name), m[f"{name} factor"]
        if factor.desc.elements != 1 or (node.op_type == "Div" and node.operand(1) is not factor):
            return None
        number = float(factor.array.reshape(-1)[0])
        if node.op_type == "Div":
            number = 1 / number if number else np.inf
        scale *= number
    return scale


def _turned(k: Value, rw: Rewriter) -> Value:
    """k with its last two dims swapped; where a Transpose made it, from what that had."""
    rank = len(k.desc.shape or ())
    perm = list(range(rank))
    if k.producer.op_type == "Transpose":
        perm = list(k.producer.ints_attr("perm", tuple(reversed(perm))))
        k = k.producer.operand(0)
    perm[-2:] = reversed(perm[-2:])
    return k if perm == list(range(rank)) else rw.insert("Transpose", k, perm=tuple(perm))


# --- masks -------------------------------------------------------------------------------------


def _given(m: Match) -> Value | None:
    """What masks the scores."""
    return next((m[name] for name in ("added", "kept", "hidden") if name in m.values), None)


def _meets_mask(m: Match, scores: Shape) -> Iterator[Reject]:
    given = _given(m)
    if given is None:
        return
    masked, shape = m.node("masked"), given.desc.shape
    if shape is None or masked.output.desc.shape != scores or not shape or shape[-1] != scores[-1]:
        yield Reject("broadcast", masked.name, given.name)
        return
    if len(scores) == 3 and len(shape) == 3 and shape[0] != 1:
        yield Reject("broadcast", masked.name, given.name)
    if "fill" in m.values:
        fill = m["fill"]
        lowest = float(fill.array.reshape(-1)[0]) if fill.desc.elements == 1 else 0.0
        if not lowest <= NOTHING or (lowest > ABSORBS and not _keeps_all_rows(m)):
            yield Reject("other-constant", fill.name, "is not far below all scores")
        elif lowest == -np.inf and not _keeps_all_rows(m):
            yield Reject("masked-row", masked.name)
    elif _may_hide_rows(given):
        yield Reject("masked-row", masked.name)


def _kept(m: Match) -> Array | None:
    """Which keys take part, if that is constant."""
    if "kept" in m.values and m["kept"].tensor is not None:
        return m["kept"].array
    if "hidden" in m.values and m["hidden"].tensor is not None:
        return ~m["hidden"].array
    return None


def _keeps_all_rows(m: Match) -> bool:
    """True if each query sees a key, whatever is fed."""
    kept = _kept(m)
    return kept is not None and bool(kept.any(-1).all())


def _may_hide_rows(added: Value) -> bool:
    """True if what is added may have −∞ in a whole row."""
    if added.tensor is not None:
        return bool((np.isneginf(added.array)).all(-1).any())
    pending, seen = [added.producer], set[Node]()
    while pending and len(seen) < _DEPTH:
        node = pending.pop(0)
        seen.add(node)
        for value in node.operands:
            if value.tensor is None:
                pending.append(value.producer)
            elif value.desc.dtype.is_float and np.isinf(value.array).any():
                return True
    return False


def _mask(m: Match, rw: Rewriter, scores: Shape) -> tuple[Value | None, bool]:
    """The mask as Attention reads it, and whether it is causal instead."""
    given = _given(m)
    if given is None:
        return None, False
    if "fill" not in m.values:
        is_causal = given.tensor is not None and _is_causal(given.array == 0, scores)
        is_causal = is_causal and bool(((given.array == 0) | (given.array <= NOTHING)).all())
        return (None, True) if is_causal else (given, False)
    kept = _kept(m)
    if kept is not None and _is_causal(kept, scores):
        return None, True
    if kept is not None and _keeps_all_rows(m):
        return rw.const(kept, like=given), False
    zero = rw.const(0, like=m["fill"])
    pair = (zero, m["fill"]) if "kept" in m.values else (m["fill"], zero)
    return rw.insert("Where", given, *pair), False


def _is_causal(kept: Array, scores: Shape) -> bool:
    """True if query i sees keys 0 … i, and there are as many of both."""
    queries, keys = scores[-2:]
    if queries != keys or not isinstance(keys, int) or kept.shape[-2:] != (keys, keys) or kept.size != keys * keys:
        return False
    return bool((kept.reshape(keys, keys) == np.tri(keys, dtype=bool)).all())

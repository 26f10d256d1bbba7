"""Name the attention that exporters spell out.

MatMul(Softmax(s · MatMul(q, kᵀ) + bias + mask), v)  →  Attention(q, k, v, mask) {scale=s}

The scale may be a quotient or a product, of the scores, of q or k, or of both operands; the mask is added, or Where
puts a number in its place, which must be so low that nothing of it is left behind the Softmax. A mask of what comes
later, constant or computed, is `is_causal`. More on masks: passes/prepare/attention/score_masks.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod

from atcpy.ir import DType, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, either, op, var
from atcpy.ops.attention.attention import MAX_HEAD_SIZE
from atcpy.passes.formula import factor_of, scaled
from atcpy.passes.fusion import Fusion, only_read_within
from atcpy.passes.layout_chain import VIEWS, view_step
from atcpy.passes.prepare.attention.score_masks import mask_of, meets_mask


def _times(x: Pattern, name: str) -> Pattern:
    return either(*scaled(x, f"{name} factor", f"{name} divisor", name=name))


def _product(q: Pattern, k: Pattern) -> Op:
    return op("MatMul", q, k, name="scores")


_Q = either(_times(var("q"), "scaled q"), var("q"))
_K = either(_times(var("k"), "scaled k"), var("k"))
_SCORES = either(_times(_product(_Q, _K), "scaled"), _product(_Q, _K))
_BIASED = op("Add", _SCORES, var("bias"), commutative=True, name="biased")
_MASKED = either(
    op("Add", _BIASED, var("added"), commutative=True, name="masked"),
    op("Where", var("kept"), either(_BIASED, _SCORES), const("fill"), name="masked"),
    op("Where", var("hidden"), const("fill"), either(_BIASED, _SCORES), name="masked"),
    _BIASED,
    _SCORES,
)


class Attention(Fusion, switch="AttentionFusionPass", makes=("Attention",)):
    """Replace Softmax(s · q·kᵀ + mask) · v by Attention."""

    pattern = op("MatMul", op("Softmax", _MASKED, name="softmax"), var("v"), name="y")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        y, softmax, scores = m.node("y"), m.node("softmax"), m.node("scores").output.desc.shape
        yield from only_read_within(m, y)
        if y.output.desc.dtype not in (DType.FLOAT32, DType.FLOAT16):
            yield Reject("dtype", y.name, y.output.desc.dtype.long)
        if scores is None or not _are_heads(m):
            yield Reject("heads", y.name)
            return
        if softmax.int_attr("axis", -1) % len(scores) != len(scores) - 1:
            yield Reject("other-axes", softmax.name)
        if not 0 < _scale(m) < inf:
            yield Reject("other-constant", m.node("scores").name, "a scale is not one number above 0")
        yield from meets_mask(m, scores)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        scores = m.node("scores").output.desc.shape
        assert scores is not None
        attrs: dict[str, object] = {"scale": _scale(m)}
        mask, is_causal = mask_of(m, rw, scores)
        if is_causal:
            attrs["is_causal"] = 1
        if len(scores) == 3:  # the batch has the heads in it
            attrs |= {"q_num_heads": 1, "kv_num_heads": 1}
        return rw.op("Attention", m["q"], _transposed(m["k"], rw), m["v"], mask, **attrs)


def _are_heads(m: Match) -> bool:
    """True if q, k and v are matrices of the same heads, no wider than the kernel takes."""
    q, k, v = (m[name].desc.shape for name in ("q", "k", "v"))
    if q is None or k is None or v is None or not len(q) == len(k) == len(v) or len(q) not in (3, 4):
        return False
    widths = [dim for dim in (q[-1], v[-1]) if isinstance(dim, int)]
    return q[:-2] == k[:-2] == v[:-2] and len(widths) == 2 and max(widths) <= MAX_HEAD_SIZE


def _scale(m: Match) -> float:
    """Return the product of all factors; NaN if one is no single number."""
    return prod(factor_of(m, f"{name} factor", f"{name} divisor") for name in ("scaled", "scaled q", "scaled k"))


def _transposed(k: Value, rw: Rewriter) -> Value:
    """k with its last two dims swapped; where a Transpose or a view produced it, from its operand."""
    shape = k.desc.shape or ()
    rank = len(shape)
    if 1 in shape[-2:]:  # a Transpose of one row is a view by now
        source = k.producer.operand(0) if k.producer.op_type in VIEWS else k
        step = view_step(source.desc.shape or (), (*shape[:-2], shape[-1], shape[-2]))
        if step is not None:
            return step.insert(rw, source)
    perm = list(range(rank))
    if k.producer.op_type == "Transpose":
        perm = list(k.producer.ints_attr("perm", tuple(reversed(perm))))
        k = k.producer.operand(0)
    perm[-2:] = reversed(perm[-2:])
    return k if perm == list(range(rank)) else rw.op("Transpose", k, perm=tuple(perm))

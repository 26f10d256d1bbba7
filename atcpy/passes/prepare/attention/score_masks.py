"""Translation of masks that are added to scores, or select among them, into masks that Attention reads.

In Attention a query that sees no key gives zeros where Softmax gives NaN: masks that may hold a row of −∞ are left
alone. One that is computed or fed is taken to hold none unless −∞ is among what it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Node, Reject, Rewriter, Value
from atcpy.ir.shape import Shape
from atcpy.ir.tensor import Array
from atcpy.passes.prepare.attention.triangular_mask import Triangle, triangle_of

NOTHING = -1e9  # a score so low that its exponential is 0 beside any other score's
ABSORBS = -1e30  # so low that adding a score to it changes nothing
_MAX_NODES = 6  # that are searched for −∞
_TERMS, _CHOICES = ("bias", "added"), ("kept", "hidden")


def meets_mask(m: Match, scores: Shape) -> Iterator[Reject]:
    """Yield the reasons against the masks of a match."""
    for name in (*_TERMS, *_CHOICES):
        if name in m.values:
            masked, shape = m.node("biased" if name == "bias" else "masked"), m[name].desc.shape
            if shape is None or masked.output.desc.shape != scores or shape[-1:] != scores[-1:]:
                yield Reject("broadcast", masked.name, m[name].name)
                return
    terms = [m[name] for name in _TERMS if name in m.values]
    infinite = [term for term in terms if _may_hide(term)]
    if len(infinite) > 1 or any(map(_may_hide_rows, infinite)):
        yield Reject("masked-row", m.node("masked" if "added" in m.values else "biased").name)
    if "fill" in m.values:
        fill = m["fill"]
        lowest = float(fill.array.reshape(-1)[0]) if fill.desc.elements == 1 else 0.0
        if not lowest <= NOTHING or (lowest > ABSORBS and not _keeps_all_rows(m)):
            yield Reject("other-constant", fill.name, "is not far below all scores")
        elif lowest == -np.inf and (infinite or not _keeps_all_rows(m)):
            yield Reject("masked-row", m.node("masked").name)


def mask_of(m: Match, rw: Rewriter, scores: Shape) -> tuple[Value | None, bool]:
    """Return the mask that Attention reads, if it needs one, and whether it is causal besides."""
    causal = [name for name in (*_TERMS, *_CHOICES) if name in m.values and _is_causal(m, name, scores)]
    terms = [m[name] for name in _TERMS if name in m.values and name not in causal]
    choices = [name for name in _CHOICES if name in m.values and name not in causal]
    parts = [*terms, *(m[name] for name in choices)]
    mask = terms[0] if terms else None
    if len(terms) == 2:
        mask = rw.op("Add", *terms)
    for name in choices:
        mask = _chosen(m, rw, name, mask)
    if mask is not None and len(scores) == 3 and any(_is_a_head(part.desc.shape) for part in parts):
        mask = rw.op("Unsqueeze", mask, rw.const([1]))
    return mask, bool(causal)


def _is_a_head(mask: Shape | None) -> bool:
    """Return whether a mask of 3 dims differs from head to head, as scores do whose batch has the heads in it."""
    return mask is not None and len(mask) == 3 and mask[0] != 1


def _chosen(m: Match, rw: Rewriter, name: str, bias: Value | None) -> Value:
    """Return the mask that does what a Where does to the scores."""
    kept = _kept(m)
    if kept is not None and bias is None and _keeps_all_rows(m):
        return rw.const(kept, like=m[name])
    base = rw.const(0, like=m["fill"]) if bias is None else bias
    pair = (base, m["fill"]) if name == "kept" else (m["fill"], base)
    return rw.op("Where", m[name], *pair)


def _kept(m: Match) -> Array | None:
    """Return which keys take part, if that is constant."""
    if "kept" in m.values and m["kept"].tensor is not None:
        return m["kept"].array
    if "hidden" in m.values and m["hidden"].tensor is not None:
        return ~m["hidden"].array
    return None


def _keeps_all_rows(m: Match) -> bool:
    """Return whether each query sees a key, whatever the inputs are."""
    kept = _kept(m)
    if kept is not None:
        return bool(kept.any(-1).all())
    return any(name in m.values and _hides_what_follows(m[name], name) for name in _CHOICES)


def _hides_what_follows(value: Value, name: str) -> bool:
    """Return whether a mask hides all keys behind the query's own position, and no other."""
    known = triangle_of(value)
    if known is None or known.is_uniform:
        return False
    if name in _TERMS:
        return bool(known.low == 0 and known.high <= NOTHING)
    return bool(known.low != known.high and known.low == (name == "kept"))


def _is_causal(m: Match, name: str, scores: Shape) -> bool:
    """Return whether a mask is causal: it hides what follows, and there are as many queries as keys. Then the number
    that replaces a score is as good as −∞.
    """
    shape = m[name].desc.shape or ()
    return scores[-1] == scores[-2] and shape[-2:] == scores[-2:] and _hides_what_follows(m[name], name)


def _may_hide(term: Value) -> bool:
    """Return whether a term may contain −∞."""
    if term.tensor is not None:
        return bool(np.isneginf(term.array).any())
    pending, seen = [term.producer], set[Node]()
    while pending and len(seen) < _MAX_NODES:
        node = pending.pop(0)
        seen.add(node)
        for value in node.operands:
            if value.tensor is None:
                pending.append(value.producer)
            elif value.desc.dtype.is_float and np.isinf(value.array).any():
                return True
    return False


def _may_hide_rows(term: Value) -> bool:
    """Return whether a term that may contain −∞ may have it in a whole row."""
    if term.tensor is not None:
        return bool(np.isneginf(term.array).all(-1).any())
    known = triangle_of(term)
    return not (isinstance(known, Triangle) and bool(np.isfinite(known.low)))

"""Name the rotary embedding that exporters spell out.

x · cos + Concat(−x₂, x₁) · sin,  x₁ and x₂ the halves of x    →  RotaryEmbedding(x, cos, sin)
Concat(x₁ · cos − x₂ · sin, x₂ · cos + x₁ · sin)               →  RotaryEmbedding(x, cos, sin)
the same of the even and the odd positions, joined by a Reshape  →  RotaryEmbedding(x, cos, sin) {interleaved}
Concat(RotaryEmbedding(x₁, cos, sin), x₂)                      →  RotaryEmbedding(x, cos, sin) {rotary_embedding_dim}

Heads stand before the rows, or behind them; then they are joined first. Angles that serve all of a batch turn it as
if it was more heads of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto

from atcpy.ir import DType, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, either, op, var
from atcpy.ir.shape import Shape
from atcpy.ops.core.shape_values import UNNAMED
from atcpy.ops.move.slice import Extent
from atcpy.passes.fusion import Fusion, constant_is, only_read_within
from atcpy.passes.prepare.attention.cos_sin_cache import halved, is_doubled
from atcpy.passes.prepare.attention.last_axis import source_of, works_on_last

_PART = "rotary_embedding_dim"
_A, _B, _COS, _SIN = var("a"), var("b"), var("cos"), var("sin")


def _times(x: Pattern, angle: Pattern, name: str) -> Op:
    return op("Mul", x, angle, commutative=True, name=name)


def _pairs(first: Pattern, second: Pattern) -> Op:
    """Two values as the two elements of each pair."""
    parts = (op(("Unsqueeze", "Reshape"), part, var(f"{name} dims"), name=name) for part, name in
             ((first, "first"), (second, "second")))  # fmt: skip
    return op("Reshape", op("Concat", *parts, name="joined"), var("shape"), name="flat")


_NEGATED = either(op("Neg", _B, name="negated"), op("Mul", _B, const("minus"), commutative=True, name="negated"))
_ROTATED = either(op("Concat", _NEGATED, _A, name="joined"), _pairs(_NEGATED, _A))
_REAL = op("Sub", _times(_A, _COS, "a cos"), _times(_B, _SIN, "b sin"), name="real")
_IMAGINARY = op("Add", _times(_B, _COS, "b cos"), _times(_A, _SIN, "a sin"), commutative=True, name="imaginary")
_BY_ROTATED = op(
    "Add", _times(var("x"), _COS, "straight"), _times(_ROTATED, _SIN, "across"), commutative=True, name="y"
)


class Rotary(Fusion, switch="RotaryEmbeddingFusionPass", makes=("RotaryEmbedding",)):
    """Replace x · cos + (x rotated by 90°) · sin by RotaryEmbedding."""

    pattern = (_BY_ROTATED, op("Concat", _REAL, _IMAGINARY, name="joined"), _pairs(_REAL, _IMAGINARY))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        y, x = m.root, _source_of_halves(m)
        yield from only_read_within(m, y)
        if x is None or not _joins_last(m):
            yield Reject("other-formula", y.name)
            return
        if x.desc.dtype is not DType.FLOAT32:
            yield Reject("dtype", y.name, x.desc.dtype.long)
        if "minus" in m.values:
            yield from constant_is(m["minus"], -1.0)
        if "x" in m.values and not all(is_doubled(m[name], "flat" in m.nodes) for name in ("cos", "sin")):
            yield Reject("other-formula", y.name, "the two of a pair have angles of their own")
        if x.desc.shape is None or len(x.desc.shape) != 4:
            yield Reject("rank", y.name)
        elif y.output.desc.shape != x.desc.shape or _layout(m, x.desc.shape) is None:
            yield Reject("broadcast", y.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        x, interleaved = _source_of_halves(m), "flat" in m.nodes
        assert x is not None and x.desc.shape is not None
        layout = _layout(m, x.desc.shape)
        angles = [halved(m[name], interleaved, rw) if "x" in m.values else m[name] for name in ("cos", "sin")]
        rows = [_rows(angle, len(m["cos"].desc.shape or ()), layout is _Layout.JOINED, rw) for angle in angles]
        attrs: dict[str, object] = {"interleaved": int(interleaved)}
        if layout is _Layout.HEADS_FIRST:
            return rw.op("RotaryEmbedding", x, *rows, **attrs)
        if layout is _Layout.JOINED:
            heads, sizes, back = x.desc.shape[2], [0, 0, -1], [0, 0, x.desc.shape[2], x.desc.shape[3]]
            attrs["num_heads"] = heads
        else:
            sizes, back = [1, -1, 0, 0], [-1, x.desc.shape[1], 0, 0]
        viewed = rw.op("Reshape", x, rw.const(sizes, dtype=DType.INT64))
        y = rw.op("RotaryEmbedding", viewed, *rows, **attrs)
        return rw.op("Reshape", y, rw.const([int(str(dim)) for dim in back]))


class _Layout(Enum):
    """How heads and their angles lie."""

    HEADS_FIRST = auto()  # [batch, heads, rows, head], angles [batch, 1, rows, …]
    ONE_FOR_ALL = auto()  # angles [1, 1, rows, …]
    JOINED = auto()  # [batch, rows, heads, head], angles [batch, rows, 1, …]


def _layout(m: Match, shape: Shape) -> _Layout | None:
    """How the two sets of angles serve a value of this shape; None if in no way that RotaryEmbedding knows."""
    cos, sin = (m[name].desc.shape for name in ("cos", "sin"))
    if cos is None or cos != sin or not 2 <= len(cos) <= 4 or UNNAMED in (*cos, *shape):
        return None
    batch, second, third, width = [1] * (4 - len(cos)) + list(cos)
    head = shape[3]
    if not isinstance(head, int) or width != (head if "x" in m.values else head // 2):
        return None
    if second == 1 and third == shape[2]:
        if batch == shape[0]:
            return _Layout.HEADS_FIRST
        return _Layout.ONE_FOR_ALL if batch == 1 and isinstance(shape[1], int) else None
    is_joined = len(cos) > 2 and (batch, second, third) == (*shape[:2], 1) and isinstance(shape[2], int)
    return _Layout.JOINED if is_joined else None


def _rows(angle: Value, rank: int, is_joined: bool, rw: Rewriter) -> Value:
    """[batch, rows, angles] of what is combined with heads."""
    if rank == 4:
        return rw.op("Squeeze", angle, rw.const([2 if is_joined else 1]))
    if rank == 3 and not is_joined:
        return angle
    if rank == 3:
        angle = rw.op("Squeeze", angle, rw.const([1]))
    return rw.op("Unsqueeze", angle, rw.const([0]))


def _source_of_halves(m: Match) -> Value | None:
    """The value of which a and b are the halves, or the even and the odd positions; None if there is none."""
    a, b = source_of(m["a"]), source_of(m["b"])
    x = m["x"] if "x" in m.values else a[0]
    width = x.desc.shape[-1] if x.desc.shape else None
    if not isinstance(width, int) or width % 2:
        return None
    start = 0
    if a[0] is not x:
        base, taken = source_of(x)
        if base is not a[0] or taken.step != 1:
            return None
        start = taken.start
    half = width // 2
    apart, step = (1, 2) if "flat" in m.nodes else (half, 1)
    required = [Extent(at, step if half > 1 else 1, half) for at in (start, start + apart)]
    found = [taken if half > 1 else replace(taken, step=1) for _, taken in (a, b)]
    return x if b[0] is a[0] and found == required else None


def _joins_last(m: Match) -> bool:
    """Are the two parts put behind each other, or as pairs?"""
    joined, half = m.node("joined"), m["a"].desc.shape
    if not half or not isinstance(half[-1], int) or not works_on_last(joined, joined.output):
        return False
    if "flat" not in m.nodes:
        return True
    parts = [m.node(name).output.desc.shape for name in ("first", "second")]
    return parts == [(*half, 1)] * 2 and m.node("flat").output.desc.shape == (*half[:-1], 2 * half[-1])


class RotaryPart(
    Fusion, switch="RotaryPartFusionPass", after=("RotaryEmbeddingFusionPass",), makes=("RotaryEmbedding",)
):
    """Let RotaryEmbedding pass on the rest of each head itself."""

    pattern = op("Concat", op("RotaryEmbedding", var("x"), _COS, _SIN, name="rotary"), var("rest"), name="y")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        y, (whole, first), (other, rest) = m.node("y"), source_of(m["x"]), source_of(m["rest"])
        yield from only_read_within(m, y)
        width = whole.desc.shape[-1] if whole.desc.shape else None
        if not works_on_last(y, y.output) or len(m["x"].desc.shape or ()) != 4 or m.node("rotary").int_attr(_PART, 0):
            yield Reject("other-axes", y.name)
        elif (
            whole is not other
            or first != Extent(0, 1, rest.start)
            or rest.start + rest.count != width
            or rest.step != 1
        ):
            yield Reject("not-a-partition", y.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        whole, first = source_of(m["x"])
        attrs = {**m.node("rotary").attrs, _PART: first.count}
        return rw.op("RotaryEmbedding", whole, m["cos"], m["sin"], **attrs)

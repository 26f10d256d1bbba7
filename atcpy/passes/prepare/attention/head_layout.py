"""Let Attention read and write heads where they lie: behind each other in the rows.

Reshape(Transpose(Attention(h(q), h(k), h(v))))  →  Attention(q, k, v) {q_num_heads, kv_num_heads}

h(x) = Transpose(Reshape(x)) brings the heads of [batch, rows, heads · size] before the rows; or the three come from one
Transpose(Reshape(x)) that brings queries, keys and values to the front, one of which Split or Gather takes: then x is
split instead. Keys and values of earlier steps have the heads before the rows either way. Of one row, no Transpose is
left: its heads lie behind each other before and after.

Queries and keys may go through a RotaryEmbedding behind their h, which then rotates the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import op, var
from atcpy.ir.symbolic import same, same_shape
from atcpy.ops import Trait, has_trait
from atcpy.passes.fusion import Fusion, only_read_by

_HEADS_FIRST, _PARTS_FIRST = (0, 2, 1, 3), (2, 0, 3, 1, 4)
_PARTS = 3
_OTHERS = ("mask", "past k", "past v")
_ATTENTION = op(
    "Attention",
    *(var(name) for name in ("q", "k", "v")),
    *(var(name, optional=True) for name in _OTHERS),
    name="attention",
)


class AttentionHeads(
    Fusion, switch="AttentionHeadsFusionPass", after=("AttentionFusionPass",), makes=("Attention",), repeats=True
):
    """Let Attention read and write rows with the heads behind each other."""

    pattern = (
        op("Reshape", op("Transpose", _ATTENTION, name="transpose"), var("shape"), name="y"),
        op("Reshape", _ATTENTION, var("shape"), name="y"),
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        attention, y = m.node("attention"), m.node("y")
        transpose = m.nodes.get("transpose")
        yield from only_read_by(attention.outputs[0], transpose or y)
        if transpose is not None:
            yield from only_read_by(transpose.output, y)
        if any(len(value.desc.shape or ()) != 4 for value in _qkv(m)):
            yield Reject("rank", attention.name)
        elif not (_brings_heads_first(transpose) if transpose is not None else _is_row(m["q"])):
            yield Reject("heads", (transpose or attention).name)
        elif _packed_source(m) is None and not all(map(_has_heads_first, _qkv(m))):
            yield Reject("heads", attention.name)
        if not _keeps_rows(m) and (m["shape"].tensor is None or (m["shape"].array == 0).any()):
            yield Reject("other-shape", y.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        heads = {f"{side}_num_heads": (m[name].desc.shape or ())[1] for side, name in (("q", "q"), ("kv", "k"))}
        attention, whole = m.node("attention"), _packed_source(m)
        # Others may read keys and values of all steps, which it makes, before the rows are read.
        at = rw if len(attention.outputs) == 1 else Rewriter(rw.graph, attention, self.switch, m.nodes.values())
        if whole is None:
            operands = [_rows_of(value, at) for value in _qkv(m)]
        else:
            operands = at.ops("Split", _rows(whole, at), outputs=_PARTS, axis=-1, num_outputs=_PARTS)
        others = [m.get(name) for name in _OTHERS]
        attrs = {**attention.attrs, **heads}
        results = at.ops("Attention", *operands, *others, outputs=len(attention.outputs), **attrs)
        if at is not rw:
            rw.created |= at.created
        for old, new in zip(attention.outputs[1:], results[1:], strict=True):
            at.replace(old, new)
        return results[0] if _keeps_rows(m) else rw.op("Reshape", results[0], m["shape"])


def _keeps_rows(m: Match) -> bool:
    """True if the result has the heads behind each other and all else as it was."""
    shape, heads = m.node("y").output.desc.shape, m.node("attention").outputs[0].desc.shape
    return shape is not None and heads is not None and len(shape) == 3 and same_shape(shape[:2], (heads[0], heads[2]))


def _qkv(m: Match) -> list[Value]:
    return [m[name] for name in ("q", "k", "v")]


def _is_row(value: Value) -> bool:
    """True if there is one row of each head: [batch, heads, 1, size] lies as [batch, 1, heads, size] does."""
    shape = value.desc.shape or ()
    return len(shape) > 2 and same(shape[2], 1)


def _has_heads_first(value: Value) -> bool:
    """Return whether a Transpose brought the heads before the rows; a RotaryEmbedding may follow it."""
    return _is_row(value) or _brings_heads_first(_before_rotation(value).producer)


def _brings_heads_first(node: Node) -> bool:
    return node.op_type == "Transpose" and node.ints_attr("perm", ()) == _HEADS_FIRST


def _before_rotation(value: Value) -> Value:
    """Return the input of a RotaryEmbedding with one user; for other values, the value itself."""
    rotary, heads = value.producer, (value.desc.shape or (0, 0))[1]
    is_only = rotary.op_type == "RotaryEmbedding" and value.use_count == 1 and isinstance(heads, int)
    return rotary.operand(0) if is_only else value


def _rows_of(value: Value, rw: Rewriter) -> Value:
    """Return the rows with heads behind each other, and rotate them there."""
    apart = _before_rotation(value)
    producer = apart.producer
    rows = _rows(producer.operand(0), rw) if _brings_heads_first(producer) else _rows(apart, rw, count=1)
    if apart is value:
        return rows
    attrs = {**value.producer.attrs, "num_heads": (value.desc.shape or ())[1]}
    return rw.op("RotaryEmbedding", rows, *value.producer.inputs[1:], **attrs)


def _packed_source(m: Match) -> Value | None:
    """Return the value [batch, rows, 3, heads, size] of which q, k and v are the parts; None if there is none."""
    sources = [_part_of(value) for value in _qkv(m)]
    first = sources[0]
    if first is None or sources != [(first[0], part) for part in range(_PARTS)]:
        return None
    return first[0]


def _part_of(value: Value) -> tuple[Value, int] | None:
    """Return the input of a Transpose that brings parts to the front, and which part of its result a value is."""
    node = value.producer
    if node.op_type == "Gather" and node.int_attr("axis", 0) == 0 and node.operand(1).tensor is not None:
        index = node.operand(1).array
        parts, part = node.operand(0), int(index) if index.ndim == 0 else -1
    elif has_trait(node, Trait.RESHAPE) and node.operand(0).producer.op_type == "Split":
        taken = node.operand(0)
        if taken.desc.shape is None or value.desc.shape != taken.desc.shape[1:] or taken.producer.int_attr("axis", 0):
            return None
        parts, part = taken.producer.operand(0), taken.index
    else:
        return None
    transpose = parts.producer
    if transpose.op_type != "Transpose" or transpose.ints_attr("perm", ()) != _PARTS_FIRST:
        return None
    return (transpose.operand(0), part) if (parts.desc.shape or (0,))[0] == _PARTS else None


def _rows(value: Value, rw: Rewriter, count: int = 0) -> Value:
    """The same with all dims behind the rows as one; what was reshaped to it, if that is so already. The rows are the
    second dim, or `count` of them.
    """
    shape = value.desc.shape or ()
    if value.producer.op_type == "Reshape":
        before = value.producer.operand(0)
        required = (shape[0], count or shape[1])
        if before.desc.shape is not None and len(before.desc.shape) == 3 and before.desc.shape[:2] == required:
            return before
    return rw.op("Reshape", value, rw.const([0, count, -1]))

"""Let attention read the numbers by which tokenizers mark padding, instead of a mask that is made of them.

FusedAttention(x, (1 − Cast(t)) · fill)            →  FusedAttention(x, tokens=t) {fill, linear}
FusedAttention(x, Where(t > 0, 0, fill) + mask)    →  FusedAttention(x, mask, tokens=t) {fill}

t has a number for each key, of each batch or of all; the mask beside it is a constant, such as that of what comes
later. Only where nobody but attention reads what is made of t: else it is computed all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Graph, Match, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ir.pattern import const, either, matches, op, var
from atcpy.ops import Trait, has_trait
from atcpy.ops.attention.attention import TOKENS
from atcpy.ops.move.gather import INDEX_TYPES
from atcpy.options import OoLevel, OptimizeOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase

NAME = "AttentionMaskFusionPass"
_MASK = 1
_RANK = 4

_LINEAR = op(
    "Mul", op("Sub", const("one"), op("Cast", var("t"), name="cast"), name="sub"), const("fill"), commutative=True,
    name="computed",
)  # fmt: skip
_ABOVE = op("Greater", var("t"), const("zero"), name="above")
_VIEW = op(("Reshape", "Unsqueeze"), _ABOVE, const("dims"), name="view")
_SELECTED = op("Where", either(_VIEW, _ABOVE), const("none"), const("fill"), name="computed")
_COMPUTED = (_LINEAR, _SELECTED)
_MASKS = (*_COMPUTED, *(op("Add", part, const("mask"), commutative=True, name="sum") for part in _COMPUTED))
_NUMBERS = {"one": 1.0, "zero": 0.0, "none": 0.0}


@graph_pass(NAME, Phase.FUSE, before=("GraphKernelFusionPass",), level=OoLevel.O2, is_neutral=False)
def read_tokens(graph: Graph, record: PassRecord, options: OptimizeOptions) -> None:
    """Let attention read the numbers by which tokenizers mark padding."""
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of("FusedAttention"):
        mask = node.input(_MASK)
        m = None if mask is None else next((m for each in _MASKS for m in matches(each, mask.producer)), None)
        if m is None or mask is None or node.input(TOKENS) is not None:
            continue
        rejects = (*_other_readers(m, mask), *_rejects(m, node, mask.desc.static_shape[-1]))
        rw = finisher.match(node, *m.nodes.values(), rejects=rejects)
        if rw is not None:
            _replace(rw, finisher, m)


def _other_readers(m: Match, mask: Value) -> Iterator[Reject]:
    inside = [value for node in m.nodes.values() for value in node.outputs if value is not mask]
    others = [user for value in inside for user in value.users if user not in m.nodes.values()]
    others += [user for user in mask.users if user.op_type != "FusedAttention" or user.operands.count(mask) > 1]
    yield from (Reject("second-consumer", m.root.name, other.name) for other in others)


def _rejects(m: Match, node: Node, keys: int) -> Iterator[Reject]:
    computed = m.node("computed")
    for name in {"fill", *_NUMBERS} & m.values.keys():
        value = m[name]
        if value.desc.elements != 1 or value.array.reshape(()) != _NUMBERS.get(name, value.array.reshape(())):
            yield Reject("other-constant", computed.name, value.name)
    tokens, shape = _tokens(m), computed.output.desc.static_shape
    if tokens.desc.dtype not in INDEX_TYPES:
        yield Reject("index-dtype", computed.name, tokens.desc.dtype.long)
    batch = node.operand(0).desc.static_shape[0]
    of_each = len(shape) == _RANK and shape == (batch, 1, 1, keys)
    if shape[-1:] != (keys,) or tokens.desc.elements != (batch * keys if of_each else keys):
        yield Reject("broadcast", computed.name, tokens.name)
    mask = m.get("mask")
    if mask is not None and mask.desc.static_shape[-1:] != (keys,):
        yield Reject("broadcast", m.root.name, mask.name)


def _tokens(m: Match) -> Value:
    """The numbers, before views gave them other dims."""
    value = m["t"]
    while has_trait(value.producer, Trait.RESHAPE):
        value = value.producer.operand(0)
    return value


def _replace(rw: Rewriter, finisher: Finisher, m: Match) -> None:
    node = rw.anchor
    x, _, *past = (*node.inputs, *[None] * TOKENS)[:TOKENS]
    attrs = {**node.attrs, "fill": float(m["fill"].array.reshape(())), "linear": int("sub" in m.nodes)}
    results = rw.ops(node.op_type, x, m.get("mask"), *past, _tokens(m), outputs=len(node.outputs), **attrs)
    results[0].producer.engine = node.engine
    finisher.finish(rw, list(zip(node.outputs, results, strict=True)), [node, *m.nodes.values()])

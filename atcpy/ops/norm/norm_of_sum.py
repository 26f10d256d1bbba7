"""A normalization of a sum, in one launch: residuals, biases, and rows of tables by number, as embeddings are.

FusedLayerNormalization(x, scale, bias?, i0?, i1?, i2?, x1?, x2?) {axis, epsilon, stash_type}
    = LayerNormalization(t0 + t1 + t2, scale, bias),   t = Gather(x, i) {axis=0} where there is an i, else x

and FusedRMSNormalization likewise. The second result, if there is one, is the sum. A term has the dims of the sum, but
for leading ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from atcpy.ir import Engine, Node, Reject, TensorDesc, Value
from atcpy.ir.shape import Shape, StaticShape
from atcpy.ir.symbolic import same_shape
from atcpy.ops.core.broadcast import broadcast_shapes
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, register_operator
from atcpy.ops.core.strided import item_bytes
from atcpy.ops.move.gather import INDEX_TYPES
from atcpy.ops.norm.norm import FLOATS

FUSED = {"LayerNormalization": "FusedLayerNormalization", "RMSNormalization": "FusedRMSNormalization"}
MAX_TERMS = 3  # csrc/norm/normalize.h
_SCALE, _BIAS = 1, 2
_TERMS, _INDICES = (0, 6, 7), (3, 4, 5)
_OPERANDS = 8


def terms_of(node: Node) -> Iterator[tuple[Value, Value | None]]:
    """What is added, and the indices of those that are tables."""
    for term_index, indices in zip(_TERMS, _INDICES, strict=True):
        value = node.input(term_index)
        if value is not None:
            yield value, node.input(indices)


def _shape_of(term: Value, indices: Value | None) -> Shape | None:
    if indices is None or term.desc.shape is None:
        return term.desc.shape
    return None if indices.desc.shape is None else (*indices.desc.shape, *term.desc.shape[1:])


def infer_sum(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Both results are as the sum."""
    shape = broadcast_shapes(node, [_shape_of(*term) for term in terms_of(node)])
    return [TensorDesc.plain(node.operand(0).desc.dtype, shape)] * len(node.outputs)


def spreads(term: StaticShape, whole: StaticShape) -> bool:
    """True if a term repeats as a whole: it has the dims of the sum, but for leading ones."""
    if same_shape(term, whole):
        return True  # for all sizes, without a guard that a dim is not 1
    start = next((index for index, dim in enumerate(term) if dim != 1), len(term))
    kept = term[start:]
    return len(term) <= len(whole) and whole[len(whole) - len(kept) :] == kept


def supports_sum(node: Node) -> Iterable[Reject]:
    """A pass makes it only of what the kernel takes; a model may not name it."""
    floats = [node.operand(0), *(term for term, _ in terms_of(node))]
    floats += [value for index in (_SCALE, _BIAS) if (value := node.input(index)) is not None]
    if any(value.desc.dtype not in FLOATS or value.desc.dtype is not floats[0].desc.dtype for value in floats):
        yield Reject("dtype", node.name)
    if any(indices is not None and indices.desc.dtype not in INDEX_TYPES for _, indices in terms_of(node)):
        yield Reject("index-dtype", node.name)
    if not all(value.desc.is_static for value in (*node.operands, *node.outputs)):
        yield Reject("shape-unknown", node.name)
        return
    whole = node.output.desc.static_shape
    axis = node.int_attr("axis", -1)
    rows = whole[axis:] if -len(whole) <= axis < 0 else ()
    terms = [_shape_of(*term) or () for term in terms_of(node)]
    if not rows or not all(spreads(term, whole) and math.prod(term) >= math.prod(rows) for term in terms):  # type: ignore[arg-type]
        yield Reject("broadcast", node.name)


def lower_sum(node: Node) -> Iterable[KernelCall]:
    """One launch of `normalize`."""
    whole = node.output.desc.static_shape
    axis = node.int_attr("axis", -1)
    n = math.prod(whole[axis:])
    lines, numbers, items = [0] * MAX_TERMS, [0] * MAX_TERMS, [0] * MAX_TERMS
    for t, (term_index, indices) in enumerate(zip(_TERMS, _INDICES, strict=True)):
        term, named = node.input(term_index), node.input(indices)
        lines[t] = 0 if term is None else term.desc.elements // n
        if named is not None:
            numbers[t], items[t] = named.desc.elements, item_bytes(named.desc.dtype)
    params: dict[str, ParamValue] = {
        "kind": "layer" if node.op_type == FUSED["LayerNormalization"] else "rms",
        "rows": math.prod(whole[:axis]), "n": n, "run": 1, "period": 1, "epsilon": node.float_attr("epsilon", 1e-5),
        "lines": lines, "numbers": numbers, "index_item": items,
    }  # fmt: skip
    operands = (*node.inputs, *[None] * _OPERANDS)[:_OPERANDS]
    yield KernelCall("normalize", operands, tuple(node.outputs), params)


for _name, _ge_type in (("LayerNormalization", "LayerNorm"), ("RMSNormalization", "RMSNormalization")):
    register_operator(
        OpDef(
            name=FUSED[_name],
            ge_type=_ge_type,
            infer=infer_sum,
            engines={Engine.VECTOR: supports_sum},
            lower=lower_sum,
            inplace=(0,),
        )
    )

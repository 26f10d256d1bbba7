"""FlexAttention: attention whose scores and probabilities bodies of the model may change.

Y = probs'(softmax(scores'(√s·Q · (√s·K)ᵀ))) · V,   s = 1/√(head size) unless it is given
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ir.closure import captured_value
from atcpy.ops.core.opdef import Known, OpDef, register_operator

_HALVES = (DType.FLOAT16, DType.BFLOAT16)


def infer_flex_attention(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The queries' shape, with heads as wide as the values'."""
    q, k, v = (node.operand(index).desc for index in range(3))
    if not node.float_attr("scale", 1.0) >= 0:
        raise ModelInvalid("E13014", f"scale = {node.float_attr('scale', 1.0)}", where=node)
    heads, own = (None if desc.shape is None else desc.shape[1] for desc in (q, k))
    if isinstance(heads, int) and isinstance(own, int) and heads != own and (own == 0 or heads % own):
        raise ModelInvalid("EZ8888", f"{heads} heads of queries for {own} of keys", where=node)
    if q.shape is None or v.shape is None:
        return [TensorDesc.plain(q.dtype, None)]
    return [TensorDesc.plain(v.dtype, (*q.shape[:-1], v.shape[-1]))]


def expand_flex_attention(node: Node, rw: Rewriter) -> Sequence[Value] | Reject:
    """Products, a Softmax, and between them the nodes of the bodies."""
    q, k, v = (node.operand(index) for index in range(3))
    for inner in (inner for body in node.subgraphs for inner in body.nodes):
        if inner.has_subgraphs:
            return Reject("control-flow", inner.name)
        if inner.domain:
            return Reject("not-standard", inner.name)
    if not all(value.desc.is_static for value in (q, k, v)):
        return Reject("shape-unknown", node.name)
    code, width = node.attrs.get("softmax_precision"), q.desc.static_shape[-1]
    own = DType.FLOAT32 if q.desc.dtype in _HALVES else q.desc.dtype
    precision = DType.from_onnx(code) if isinstance(code, int) else own
    scale = rw.const(math.sqrt(node.float_attr("scale", 1 / math.sqrt(max(width, 1)))), dtype=q.desc.dtype)
    k, v = (_repeated(value, q.desc.static_shape[1], rw) for value in (k, v))
    turned = rw.op("Transpose", rw.op("Mul", k, scale), perm=(0, 1, 3, 2))
    scores = rw.op("Cast", rw.op("MatMul", rw.op("Mul", q, scale), turned), to=precision.onnx)
    probs = rw.op("Softmax", _through(node, "score_mod", scores, rw), axis=-1)
    probs = _through(node, "prob_mod", probs, rw)
    result = rw.op("MatMul", probs, rw.op("Cast", v, to=precision.onnx))
    return [rw.op("Cast", result, to=node.operand(2).desc.dtype.onnx)]


def _repeated(value: Value, heads: int, rw: Rewriter) -> Value:
    """Each head of keys or values as often as there are heads of queries for it."""
    batch, own, length, width = value.desc.static_shape
    if own == heads:
        return value
    apart = rw.op("Unsqueeze", value, rw.const([2], dtype=DType.INT64))
    expanded = rw.op("Expand", apart, rw.const([batch, own, heads // own, length, width], dtype=DType.INT64))
    return rw.op("Reshape", expanded, rw.const([batch, heads, length, width], dtype=DType.INT64))


def _through(node: Node, name: str, value: Value, rw: Rewriter) -> Value:
    """What the body of that name makes of a value, if there is one."""
    body = node.attrs.get(name)
    if not isinstance(body, Graph):
        return value
    values: dict[Value, Value | None] = {}
    for inner in body.nodes:
        if inner.op_type == "Data":
            values[inner.output] = captured_value(node, inner) if "captured" in inner.attrs else value
        elif inner.op_type == "Const":
            values[inner.output] = rw.const(inner.output.array, dtype=inner.output.desc.dtype)
        elif inner.op_type != "NetOutput":
            inputs = [None if read is None else values[read] for read in inner.inputs]
            count = len(inner.outputs)
            results = rw.ops(inner.op_type, *inputs, outputs=count, **inner.attrs)
            values.update(zip(inner.outputs, results, strict=True))
    (result,) = body.outputs
    found = values[result]
    assert found is not None
    return found


register_operator(
    OpDef(
        name="FlexAttention",
        domain="ai.onnx.preview",
        ge_type="FlexAttention",
        operand_shapes=lambda node: {
            0: "batch heads rows width",
            1: "batch own keys width",
            2: "batch own keys values",
        },
        infer=infer_flex_attention,
        expand=expand_flex_attention,
    )
)

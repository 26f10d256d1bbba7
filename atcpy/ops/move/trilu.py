"""Trilu: one triangle of each matrix, such as a causal mask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, TensorDesc
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, register_operator
from atcpy.ops.core.strided import item_bytes, supports_movement


def infer_trilu(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The input's type; it is a batch of matrices, and k one int64."""
    x, k = node.operand(0).desc, node.input(1)
    if x.shape is not None and len(x.shape) < 2:
        raise ModelInvalid("EZ8888", where=node, what=f"the input is {x}, not a matrix")
    if k is not None and (k.desc.dtype is not DType.INT64 or (k.desc.is_static and k.desc.elements != 1)):
        raise ModelInvalid("EZ8888", where=node, what=f"k is {k.desc}, must be one int64")
    return [x.as_plain()]


def lower_trilu(node: Node) -> Iterable[KernelCall]:
    """One launch over all matrices."""
    *batch, rows, cols = node.output.desc.static_shape
    item = item_bytes(node.output.desc.dtype)
    upper = node.int_attr("upper", 1)
    params = {"matrices": prod(batch), "rows": rows, "cols": cols, "upper": int(upper != 0), "item": item}
    yield KernelCall("trilu", tuple(node.operands), (node.output,), params)


register_operator(
    OpDef(name="Trilu", infer=infer_trilu, engines={Engine.VECTOR: supports_movement}, lower=lower_trilu, inplace=(0,))
)

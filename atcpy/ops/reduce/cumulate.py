"""CumSum and CumProd: one launch of `cumulate`."""

from __future__ import annotations

from collections.abc import Iterable

from atcpy.ir import DType, Engine, Node, Reject
from atcpy.ops.core.axes import around_axis, constant_integers, normal_axis, rejects_operand
from atcpy.ops.core.opdef import KernelCall, OpDef, ParamValue, register_operator
from atcpy.ops.core.strided import rejects_value
from atcpy.ops.core.structural import same_as_input
from atcpy.ops.elementwise.cast import KERNEL_DTYPES

KINDS = {"CumSum": "sum", "CumProd": "prod"}


def supports_cumulate(node: Node) -> Iterable[Reject]:
    """Numbers of a known shape along a constant axis."""
    x = node.operand(0).desc
    yield from rejects_value(node, x)
    if x.dtype not in KERNEL_DTYPES - {DType.BOOL}:
        yield Reject("dtype", node.name, x.dtype.long)
    yield from rejects_operand(node, 1, "axis")


def lower_cumulate(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    x = node.operand(0)
    shape = x.desc.static_shape
    axis = normal_axis(node, constant_integers(node, 1)[0], len(shape))
    params: dict[str, ParamValue] = {
        "kind": KINDS[node.op_type],
        **around_axis(shape, axis),
        "exclusive": int(node.int_attr("exclusive", 0) != 0),
        "reverse": int(node.int_attr("reverse", 0) != 0),
        "dtype": x.desc.dtype.onnx,
    }
    yield KernelCall("cumulate", (x,), (node.output,), params)


for _name, _ge_type in (("CumSum", "Cumsum"), ("CumProd", "Cumprod")):
    register_operator(
        OpDef(
            name=_name,
            ge_type=_ge_type,
            infer=same_as_input,
            engines={Engine.AICPU: supports_cumulate},
            lower=lower_cumulate,
        )
    )

"""NonZero: the indices of the elements that are not zero; their number depends on the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.ir import DType, Engine, Node, Reject, TensorDesc, Value
from atcpy.ir.shape import StaticShape
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.opdef import Bound, KernelCall, Known, OpDef, ParamValue, register_operator
from atcpy.ops.core.strided import MAX_RANK, item_bytes
from atcpy.ops.elementwise.cast import KERNEL_DTYPES


def infer_nonzero(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A row for each dim of the input: none for a scalar, as ONNX says."""
    shape = node.operand(0).desc.shape
    rank = unnamed_dim(node, 0) if shape is None else len(shape)
    return [TensorDesc.plain(DType.INT64, (rank, unnamed_dim(node, 1)))]


def supports_nonzero(node: Node) -> Iterable[Reject]:
    """Numbers and truth values of a known shape."""
    x = node.operand(0).desc
    if x.dtype not in KERNEL_DTYPES:
        yield Reject("dtype", node.name, x.dtype.long)
    if not x.is_static:
        yield Reject("shape-unknown", node.name)
    elif len(x.static_shape) > MAX_RANK:
        yield Reject("rank", node.name, f"{len(x.static_shape)} dims")


def bound_nonzero(node: Node) -> Sequence[StaticShape]:
    """Every element may be other than zero."""
    x = node.operand(0).desc
    return [(len(x.static_shape), x.elements)]


def lower_nonzero(node: Node, count: Value) -> Iterable[KernelCall]:
    """One launch."""
    x = node.operand(0)
    shape = x.desc.static_shape
    params: dict[str, ParamValue] = {
        "rank": len(shape), "dims": shape, "item": item_bytes(x.desc.dtype), "is_float": int(x.desc.dtype.is_float),
    }  # fmt: skip
    yield KernelCall("nonzero", (x,), (node.output, count), params)


register_operator(
    OpDef(
        name="NonZero",
        infer=infer_nonzero,
        engines={Engine.AICPU: supports_nonzero},
        bound=Bound(bound_nonzero, lower_nonzero),
    )
)

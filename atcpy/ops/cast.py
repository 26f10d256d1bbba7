"""Cast and CastLike: one launch of `cast`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Format, Node, Reject, TensorDesc
from atcpy.ir.shape import Dim, element_count
from atcpy.ir.tensor import Array
from atcpy.ops.broadcast import layout_like_input, supports_broadcast
from atcpy.ops.half import HALF_DTYPES
from atcpy.ops.opdef import KernelCall, Known, Layout, OpDef, ParamValue, register_operator
from atcpy.ops.shape_values import UNNAMED

KERNEL_DTYPES = frozenset(
    {
        DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.INT16, DType.INT32,
        DType.INT64, DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64, DType.BOOL,
    }
)  # fmt: skip


def target_dtype(node: Node) -> DType:
    """The type that a Cast asks for, or that of CastLike's second input."""
    if node.op_type == "CastLike":
        return node.operand(1).desc.dtype
    number = node.int_attr("to", 0)
    try:
        return DType.from_onnx(number)
    except KeyError as error:
        raise ModelInvalid("E13014", where=node, what=f"to = {number} is no element type") from error


def infer_cast(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The input's shape in another type."""
    return [TensorDesc.plain(target_dtype(node), node.operand(0).desc.shape)]


def propagate_cast(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """Integers stay what they are where the type has room; a size is not negative and fits."""
    elements, dtype = known(node.operand(0)), target_dtype(node)
    if elements is None or not (dtype.is_int or dtype is DType.BOOL):
        return None
    if dtype is DType.BOOL:
        return tuple(int(item != 0) if isinstance(item, int) else UNNAMED for item in elements)
    signed = dtype.name.startswith("INT")
    low, high = (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1)) if signed else (0, 2**dtype.bits)
    if all(low <= item < high for item in elements if isinstance(item, int)):
        return elements
    return None


def evaluate_cast(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """By numpy, for the types of which ONNX asks no more than numpy's conversion."""
    from atcpy.ops.reference import evaluate_by_onnx  # strings, fp8 and the like have rules of their own

    x = np.asarray(arrays[0])
    simple = {DType.from_numpy(x.dtype), target_dtype(node)} <= KERNEL_DTYPES
    if not simple:
        return evaluate_by_onnx(node, arrays)
    with np.errstate(all="ignore"):
        return [np.asarray(x.astype(target_dtype(node).numpy))]


def supports_cast(node: Node) -> Iterable[Reject]:
    """The kernels know all types of whole bytes but fp8 and complex ones."""
    for dtype in (node.operand(0).desc.dtype, target_dtype(node)):
        if dtype not in KERNEL_DTYPES:
            yield Reject("dtype", node.name, dtype.long)
    yield from supports_broadcast(node, [node.operand(0)])


def layout_cast(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """As the input lies; but a result of 16 bits that leaves the region of float32 is plain, because its TransData is
    fast in float32 only.
    """
    leaves = not any(user.op_type == "Cast" for user in node.output.users)
    if node.output.desc.dtype in HALF_DTYPES and node.operand(0).desc.dtype is DType.FLOAT32 and leaves:
        return Layout((None,) * node.input_count, (None,))
    return layout_like_input(node, at_hand)


def lower_cast(node: Node) -> Iterable[KernelCall]:
    """One launch over the elements as they lie in memory, padding included."""
    x, y = node.operand(0), node.output
    params: dict[str, ParamValue] = {
        "n": element_count(x.desc.memory_shape),
        "from": x.desc.dtype.short,
        "to": y.desc.dtype.short,
    }
    yield KernelCall("cast", (x,), (y,), params)


for _name in ("Cast", "CastLike"):
    register_operator(
        OpDef(
            name=_name,
            ge_type="Cast",
            infer=infer_cast,
            propagate=propagate_cast,
            evaluate=evaluate_cast,
            engines={Engine.VECTOR: supports_cast},
            layout=layout_cast,
            lower=lower_cast,
            is_elementwise=True,
        )
    )

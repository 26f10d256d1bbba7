"""Cast and CastLike: one launch of `cast`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Format, Node, Reject, TensorDesc
from atcpy.ir.shape import Dim, element_count
from atcpy.ir.tensor import Array
from atcpy.ops.core.broadcast import layout_like_input, supports_broadcast
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.ops.core.opdef import KernelCall, Known, Layout, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.core.shape_values import UNNAMED

KERNEL_DTYPES = frozenset(
    {
        DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.INT16, DType.INT32,
        DType.INT64, DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64, DType.BOOL,
    }
)  # fmt: skip
_SMALL_FLOATS = frozenset(
    {DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ, DType.FLOAT8E8M0}
)
_PACKED = frozenset({DType.FLOAT4E2M1, DType.INT4, DType.UINT4, DType.INT2, DType.UINT2})
_ROUNDINGS = ("up", "down", "nearest")  # to float8e8m0
CAST_DTYPES = KERNEL_DTYPES | _SMALL_FLOATS | _PACKED


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
    dtype, rounding = target_dtype(node), node.str_attr("round_mode", "up")
    if rounding not in _ROUNDINGS:
        raise ModelInvalid("E13014", where=node, what=f"round_mode = {rounding!r} is none of {', '.join(_ROUNDINGS)}")
    if dtype is DType.UNDEFINED and node.op_type == "Cast":
        raise ModelInvalid("E13014", "to = 0 is no element type", where=node)
    return [TensorDesc.plain(dtype, node.operand(0).desc.shape)]


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
    from atcpy.ops.core.reference import evaluate_by_onnx  # strings, fp8 and the like have rules of their own

    x = widened(np.asarray(arrays[0]))
    if target_dtype(node) is DType.FLOAT8E8M0 and x.dtype.kind not in "SUO":
        return [powers_of_two(x, saturate=node.int_attr("saturate", 1) != 0, mode=round_mode(node))]
    simple = {DType.from_numpy(x.dtype), target_dtype(node)} <= KERNEL_DTYPES
    if not simple:
        return evaluate_by_onnx(node, [x, *arrays[1:]])
    with np.errstate(all="ignore"):
        return [np.asarray(x.astype(target_dtype(node).numpy))]


def widened(x: Array) -> Array:
    """The same numbers in a type of at least a byte: numpy cannot convert between all small ones."""
    dtype = DType.from_numpy(x.dtype)
    if dtype not in CAST_DTYPES - KERNEL_DTYPES:
        return x
    return np.asarray(x.astype(np.float32 if dtype.is_float else np.int8))


def powers_of_two(x: Array, *, saturate: bool, mode: str) -> Array:
    """Numbers as float8e8m0, by the table of the standard, which the reference misses for 0 and infinity."""
    size = np.abs(x.astype(np.float64))
    with np.errstate(invalid="ignore"):
        digits, exponent = np.frexp(size)
        raised = {"up": digits > 0.5, "down": digits < 0.5, "nearest": digits >= 0.75}[mode]
        code = np.where(np.isfinite(size), exponent - 1 + 127 + raised, 0)
    code = np.where(size < 2.0**-127, 0 if saturate else 255, code)
    code = np.where(size > 2.0**127, 254 if saturate else 255, code)
    return np.where(np.isnan(size), 255, code).astype(np.uint8).view(DType.FLOAT8E8M0.numpy)


def supports_cast(node: Node) -> Iterable[Reject]:
    """The kernels know all types but text, complex ones and those of 6 bits."""
    for dtype in (node.operand(0).desc.dtype, target_dtype(node)):
        if dtype not in CAST_DTYPES:
            yield Reject("dtype", node.name, dtype.long)
    yield from supports_broadcast(node, [node.operand(0)])


def layout_cast(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """As the input lies; but a result of 16 bits that leaves the region of float32 is plain, because its TransData is
    fast in float32 only, and elements that share bytes are, because nothing else takes them in blocks.
    """
    for dtype in (node.operand(0).desc.dtype, target_dtype(node)):
        if dtype in _PACKED:
            return Reject("dtype", node.name, dtype.long)
    leaves = not any(user.op_type == "Cast" for user in node.output.users)
    if node.output.desc.dtype in HALF_DTYPES and node.operand(0).desc.dtype is DType.FLOAT32 and leaves:
        return Layout((None,) * node.input_count, (None,))
    return layout_like_input(node, at_hand)


def round_mode(node: Node) -> str:
    """How numbers become powers of two."""
    mode = node.str_attr("round_mode", "up")
    if mode not in {"up", "down", "nearest"}:
        raise ModelInvalid("E13014", where=node, what=f"round_mode = {mode!r}, must be up, down or nearest")
    return mode


def lower_cast(node: Node) -> Iterable[KernelCall]:
    """One launch over the elements as they lie in memory, padding included."""
    x, y = node.operand(0), node.output
    params: dict[str, ParamValue] = {
        "n": element_count(x.desc.memory_shape),
        "from": x.desc.dtype.short,
        "to": y.desc.dtype.short,
    }
    if y.desc.dtype in _SMALL_FLOATS:
        params |= {"saturate": int(node.int_attr("saturate", 1) != 0), "round": round_mode(node)}
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
            # The second operand of CastLike may have any shape.
            traits=Trait.CONVERSION | (Trait.ELEMENTWISE if _name == "Cast" else Trait.NONE),
            data=(0,),
        )
    )

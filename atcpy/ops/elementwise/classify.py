"""IsNaN and IsInf: one launch of `classify`, which compares the bits of each element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from atcpy.ir import DType, Engine, Node, TensorDesc
from atcpy.ir.shape import element_count
from atcpy.ops.core.broadcast import layout_like_input
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, Trait, register_operator
from atcpy.ops.elementwise.elementwise import supports_unary

# The bits of infinity; NaN lies above it. Types without infinity: the bits of NaN, beside the sign or with it.
_INFINITY = {
    DType.FLOAT32: 0x7F80_0000,
    DType.FLOAT64: 0x7FF0_0000_0000_0000,
    DType.FLOAT16: 0x7C00,
    DType.BFLOAT16: 0x7F80,
    DType.FLOAT8E5M2: 0x7C,
}
_ONLY_NAN = {DType.FLOAT8E4M3FN: (0x7F, 0x7F), DType.FLOAT8E4M3FNUZ: (0xFF, 0x80), DType.FLOAT8E5M2FNUZ: (0xFF, 0x80)}
_NOTHING = (0, 1, 1)  # no bits are masked in, and none of them is 1

Bits = tuple[int, int, int]
BitRange = Callable[[Node, DType], Bits]


def nan_bits(dtype: DType) -> Bits:
    """Mask, least and largest of the patterns that are NaN."""
    if dtype in _ONLY_NAN:
        mask, bits = _ONLY_NAN[dtype]
        return mask, bits, bits
    magnitude = (1 << dtype.bits - 1) - 1
    return magnitude, _INFINITY[dtype] + 1, magnitude


def inf_bits(dtype: DType, negative: bool, positive: bool) -> Bits:
    """Mask, least and largest of the patterns that are the infinities asked for."""
    if dtype in _ONLY_NAN or not (negative or positive):
        return _NOTHING
    infinity, sign = _INFINITY[dtype], 1 << dtype.bits - 1
    if negative and positive:
        return sign - 1, infinity, infinity
    pattern = infinity if positive else infinity | sign
    return sign | sign - 1, pattern, pattern


def classify_pattern(bits: Bits) -> Bits:
    """As the kernel's arguments, which have a sign, say it."""
    mask, low, high = ((value + 2**63) % 2**64 - 2**63 for value in bits)
    return mask, low, high


def _infinities(node: Node, dtype: DType) -> Bits:
    negative, positive = (node.int_attr(f"detect_{sign}", 1) != 0 for sign in ("negative", "positive"))
    return inf_bits(dtype, negative, positive)


def infer_classify(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A bool for each element."""
    return [TensorDesc.plain(DType.BOOL, node.operand(0).desc.shape)]


def lower_classify(node: Node, bits: BitRange) -> Iterable[KernelCall]:
    """One launch over the elements as they lie in memory, padding included."""
    x = node.operand(0)
    mask, low, high = classify_pattern(bits(node, x.desc.dtype))
    params = {"mask": mask, "low": low, "high": high, "item": x.desc.dtype.bits // 8}
    params["n"] = element_count(x.desc.memory_shape)
    yield KernelCall("classify", (x,), (node.output,), params)


def _register(name: str, bits: BitRange) -> None:
    register_operator(
        OpDef(
            name=name,
            infer=infer_classify,
            engines={Engine.VECTOR: lambda node: supports_unary(node, frozenset(_INFINITY.keys() | _ONLY_NAN.keys()))},
            layout=layout_like_input,
            lower=lambda node: lower_classify(node, bits),
            traits=Trait.ELEMENTWISE,
        )
    )


_register("IsNaN", lambda node, dtype: nan_bits(dtype))
_register("IsInf", _infinities)

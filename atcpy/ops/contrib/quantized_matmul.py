"""Products of quantized matrices: by MatMulInteger where the activations' scale is known at run time only."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.ops.contrib.attention import self_attention
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.quantized import dequantized, requantized
from atcpy.ops.contrib.record import contrib
from atcpy.ops.quant.qgemm import QGEMM, SCALED_SUMS


def integer_product(e: Expansion, a: Value, b: Value, zeros: tuple[Value | None, Value | None], scale: Value) -> Value:
    """scale · (a − zero) · (b − zero), exact up to the scale."""
    product = e.op("MatMulInteger", a, b, *zeros)
    return e.op("Mul", e.cast_like(product, scale), scale)


@contrib("MatMulIntegerToFloat", "A B a_scale b_scale a_zero_point? b_zero_point? bias?", kernel=SCALED_SUMS)
def matmul_integer_to_float(e: Expansion) -> Value:
    """MatMulInteger, its result scaled, plus bias."""
    a_scale, b_scale = e.operand("a_scale"), e.operand("b_scale")
    zeros = e.input("a_zero_point"), e.input("b_zero_point")
    y = integer_product(e, e.operand("A"), e.operand("B"), zeros, e.op("Mul", a_scale, b_scale))
    return e.sum(y, e.input("bias"))


@contrib("DynamicQuantizeMatMul", "A B b_scale b_zero_point? bias?")
def dynamic_quantize_matmul(e: Expansion) -> Value:
    """A quantized by its own range, then MatMulIntegerToFloat."""
    a, a_scale, a_zero = e.ops("DynamicQuantizeLinear", e.operand("A"), outputs=3)
    scale = e.op("Mul", a_scale, e.operand("b_scale"))
    y = integer_product(e, a, e.operand("B"), (a_zero, e.input("b_zero_point")), scale)
    return e.sum(y, e.input("bias"))


@contrib(
    "QGemm",
    "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?",
    "alpha:f transA:i transB:i",
    kernel=QGEMM,
)
def qgemm(e: Expansion) -> Value:
    """Gemm of dequantized matrices; C counts in steps of alpha · a_scale · b_scale. Quantized if y_scale is given."""
    alpha, a_scale, b_scale = e.node.float_attr("alpha", 1.0), e.operand("a_scale"), e.operand("b_scale")
    a = dequantized(e, e.operand("A"), a_scale, e.input("a_zero_point"))
    axis = 0 if e.node.int_attr("transB", 0) else 1
    b = dequantized(e, e.operand("B"), b_scale, e.input("b_zero_point"), axis)
    c = e.input("C")
    if c is not None:
        step = e.scale(e.op("Mul", a_scale, b_scale), alpha)
        c = e.op("Mul", e.cast_like(c, step), step)
    y = e.op("Gemm", a, b, c, **e.node.attrs)
    scale, zero = e.input("y_scale"), e.input("y_zero_point")
    return y if scale is None else requantized(e, y, scale, zero, e.operand("A"))


@contrib(
    "QAttention",
    "input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past?",
    "num_heads:i! do_rotary:i mask_filter_value:f past_present_share_buffer:i scale:f unidirectional:i",
    outputs=(1, 2),
)
def q_attention(e: Expansion) -> Sequence[Value | str]:
    """Attention whose projection is a product of integers."""
    x = e.operand("input")
    scale = e.op("Mul", e.operand("input_scale"), e.operand("weight_scale"))
    zeros = e.input("input_zero_point"), e.input("weight_zero_point")
    projected = integer_product(e, x, e.operand("weight"), zeros, scale)
    return self_attention(e, e.sum(projected, e.operand("bias")))


@contrib("MatMulInteger16", "A B")
def matmul_integer_16(e: Expansion) -> Value:
    """Product of integers of 16 bits in 32 bits."""
    a, b = e.operand("A"), e.operand("B")
    both_unsigned = e.dtype_of(a) is DType.UINT16 and e.dtype_of(b) is DType.UINT16
    wide = DType.UINT32 if both_unsigned else DType.INT32
    return e.op("MatMul", e.cast(a, wide), e.cast(b, wide))


@contrib("MulInteger", "A A_zero_point? B B_zero_point?")
def mul_integer(e: Expansion) -> Value:
    """(A − zero) · (B − zero) in 32 bits."""
    return e.op("Mul", *(_without_zero(e, name) for name in "AB"))


def _without_zero(e: Expansion, name: str) -> Value:
    wide = e.cast(e.operand(name), DType.INT32)
    zero = e.input(f"{name}_zero_point")
    return wide if zero is None else e.op("Sub", wide, e.cast(zero, DType.INT32))


@contrib("ReduceSumInteger", "data", "axes:I! keepdims:i!")
def reduce_sum_integer(e: Expansion) -> Value:
    """ReduceSum in 32 bits."""
    x = e.operand("data")
    wide = e.cast(x, DType.UINT32 if e.dtype_of(x) is DType.UINT8 else DType.INT32)
    axes = e.const(e.node.ints_attr("axes"))
    return e.op("ReduceSum", wide, axes, keepdims=e.node.int_attr("keepdims", 1))

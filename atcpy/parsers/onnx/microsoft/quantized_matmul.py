"""Products of quantized matrices: by MatMulInteger where the activations' scale is known at run time only."""

import numpy as np

from atcpy.ir import DType, Tensor, Value
from atcpy.ir.tensor import Array
from atcpy.parsers.onnx.microsoft.attention import self_attention
from atcpy.parsers.onnx.microsoft.expansion import Expansion
from atcpy.parsers.onnx.microsoft.quantized import dequantized, requantized
from atcpy.parsers.onnx.microsoft.table import microsoft


def integer_product(e: Expansion, a: Value, b: Value, zeros: tuple[Value | None, Value | None], scale: Value) -> Value:
    """scale · (a − zero) · (b − zero), exact up to the scale."""
    product = e.op("MatMulInteger", a, b, *zeros)
    return e.op("Mul", e.op("CastLike", product, scale), scale)


@microsoft("MatMulIntegerToFloat", "A B a_scale b_scale a_zero_point? b_zero_point? bias?")
def matmul_integer_to_float(e: Expansion) -> None:
    """MatMulInteger, its result scaled, plus bias."""
    a_scale, b_scale = e.operand("a_scale"), e.operand("b_scale")
    zeros = e.input("a_zero_point"), e.input("b_zero_point")
    y = integer_product(e, e.operand("A"), e.operand("B"), zeros, e.op("Mul", a_scale, b_scale))
    e.finish(e.sum(y, e.input("bias")))


@microsoft("DynamicQuantizeMatMul", "A B b_scale b_zero_point? bias?")
def dynamic_quantize_matmul(e: Expansion) -> None:
    """A quantized by its own range, then MatMulIntegerToFloat."""
    a, a_scale, a_zero = e.ops("DynamicQuantizeLinear", 3, e.operand("A"))
    scale = e.op("Mul", a_scale, e.operand("b_scale"))
    y = integer_product(e, a, e.operand("B"), (a_zero, e.input("b_zero_point")), scale)
    e.finish(e.sum(y, e.input("bias")))


@microsoft(
    "QGemm",
    "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?",
    "alpha:f transA:i transB:i",
)
def qgemm(e: Expansion) -> None:
    """Gemm of dequantized matrices; C counts in steps of alpha · a_scale · b_scale. Quantized if y_scale is given."""
    alpha, a_scale, b_scale = e.node.float_attr("alpha", 1.0), e.operand("a_scale"), e.operand("b_scale")
    a = dequantized(e, e.operand("A"), a_scale, e.input("a_zero_point"))
    axis = 0 if e.node.int_attr("transB", 0) else 1
    b = dequantized(e, e.operand("B"), b_scale, e.input("b_zero_point"), axis)
    c = e.input("C")
    if c is not None:
        step = e.scaled(e.op("Mul", a_scale, b_scale), alpha)
        c = e.op("Mul", e.op("CastLike", c, step), step)
    y = e.op("Gemm", a, b, c, **e.node.attrs)
    scale, zero = e.input("y_scale"), e.input("y_zero_point")
    e.finish(y if scale is None else requantized(e, y, scale, zero, e.operand("A")))


@microsoft(
    "QAttention",
    "input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past?",
    "num_heads:i! do_rotary:i mask_filter_value:f past_present_share_buffer:i scale:f unidirectional:i",
    outputs=(1, 2),
)
def q_attention(e: Expansion) -> None:
    """Attention whose projection is a product of integers."""
    x = e.operand("input")
    scale = e.op("Mul", e.operand("input_scale"), e.operand("weight_scale"))
    zeros = e.input("input_zero_point"), e.input("weight_zero_point")
    projected = integer_product(e, x, e.operand("weight"), zeros, scale)
    self_attention(e, e.sum(projected, e.operand("bias")), x)


# --- weights in blocks -------------------------------------------------------------------------

_UNSIGNED = {2: DType.UINT2, 4: DType.UINT4, 8: DType.UINT8}


def unpacked(bytes_: Array, bits: int) -> Array:
    """The numbers of `bits` bits in each byte, lowest first, along the last axis."""
    if bits == 8:
        return bytes_
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (bytes_[..., None] >> shifts) & np.uint8(2**bits - 1)
    return numbers.reshape(*bytes_.shape[:-1], -1)


def _constant(e: Expansion, name: str) -> Tensor:
    tensor = e.operand(name).tensor
    if tensor is None:
        raise e.unsupported(f"{name} is not constant", "export the model with its weights")
    return tensor


@microsoft(
    "MatMulNBits",
    "A B scales zero_points? g_idx? bias?",
    "K:i! N:i! block_size:i! accuracy_level:i bits:i weight_prepacked:i",
)
def matmul_nbits(e: Expansion) -> None:
    """A · Wᵀ, W[n, k] = (B[n, k] − zero point) · scale of the block of k.

    B stays packed: it becomes a constant of 2, 4 or 8 bits that DequantizeLinear reads in blocks.
    """
    e.refuse_inputs("g_idx", "quantize the model without reordered groups")
    e.refuse_attrs("weight_prepacked", "export the model before weights are packed for a device")
    bits, block = e.node.int_attr("bits", 4), e.node.int_attr("block_size", 0)
    rows, columns = e.node.int_attr("N", 0), e.node.int_attr("K", 0)
    if bits not in _UNSIGNED:
        raise e.unsupported(f"weights of {bits} bits", "quantize the model to 4 or 8 bits")
    if block < 1 or rows < 1 or columns < 1:
        raise e.invalid(f"N = {rows}, K = {columns}, block_size = {block}")
    blocks = -(-columns // block)
    packed = _constant(e, "B")
    if packed.nbytes != rows * blocks * (block * bits // 8):
        raise e.invalid(f"B has {packed.nbytes} bytes for {rows} rows of {blocks} blocks")
    weights = unpacked(packed.array.reshape(rows, -1), bits)[:, :columns]
    b = e.const("weights", weights, _UNSIGNED[bits])
    scales = e.reshape(e.operand("scales"), rows, blocks)
    wide = _dequantized_blocks(e, b, scales, (rows, blocks), bits, block)
    y = e.op("MatMul", e.operand("A"), e.transpose(wide, 1, 0))
    e.finish(e.sum(y, e.input("bias")))


def _dequantized_blocks(e: Expansion, b: Value, scales: Value, shape: tuple[int, int], bits: int, block: int) -> Value:
    rows, blocks = shape
    given = e.input("zero_points")
    if given is not None and given.desc.dtype is not DType.UINT8:
        # Zero points that are no integers: q · scale − zero · scale, each for its block.
        ones = e.const("ones", np.ones((rows, b.desc.static_shape[1])), _UNSIGNED[bits])
        shifts = e.op("Mul", e.reshape(given, rows, blocks), scales)
        product = e.op("DequantizeLinear", b, scales, axis=1, block_size=block)
        return e.op("Sub", product, e.op("DequantizeLinear", ones, shifts, axis=1, block_size=block))
    if given is None:
        zeros: Array = np.full(shape, 2 ** (bits - 1), np.uint8)
    else:
        zeros = unpacked(_constant(e, "zero_points").array.reshape(rows, -1), bits)[:, :blocks]
    zero = e.const("zero_points", zeros, _UNSIGNED[bits])
    return e.op("DequantizeLinear", b, scales, zero, axis=1, block_size=block)

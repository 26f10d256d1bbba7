"""Weights quantized in blocks: of 4 bits by a kernel, else constants that DequantizeLinear reads block by block."""

from __future__ import annotations

import numpy as np

from atcpy.ir import DType, Tensor, Value
from atcpy.ir.tensor import Array
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib
from atcpy.ops.quant.int4_matmul import MAX_BLOCK, pack_steps, pack_weights

_UNSIGNED = {2: DType.UINT2, 4: DType.UINT4, 8: DType.UINT8}
_LEVEL_INT8 = 4  # of `accuracy_level`: the left operand may be rounded to 8 bits


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


def _bytes_of(e: Expansion, name: str, rows: int, columns: int) -> Array:
    """A constant of bytes as a matrix."""
    tensor = _constant(e, name)
    if tensor.dtype is not DType.UINT8 or tensor.nbytes != rows * columns:
        raise e.invalid(f"{name} is {tensor.dtype.long} of {tensor.nbytes} bytes, {rows} times {columns} are wanted")
    return tensor.array.reshape(rows, columns)


@contrib(
    "MatMulNBits",
    "A B scales zero_points? g_idx? bias?",
    "K:i! N:i! block_size:i! accuracy_level:i bits:i weight_prepacked:i",
)
def matmul_nbits(e: Expansion) -> Value:
    """A · Wᵀ, W[n, k] = (B[n, k] − zero point) · scale of the block of k.

    B stays packed: Int4MatMul reads 4 bits; else it becomes a constant that DequantizeLinear reads in blocks.
    """
    e.refuse_inputs("g_idx", "quantize the model without reordered groups")
    e.refuse_attrs("weight_prepacked", "export the model before weights are packed for a device")
    bits, block = e.node.int_attr("bits", 4), e.node.int_attr("block_size", 0)
    rows, columns = e.count("N"), e.count("K")
    if bits not in _UNSIGNED:
        raise e.unsupported(f"weights of {bits} bits", "quantize the model to 4 or 8 bits")
    if block < 16 or block & (block - 1):
        raise e.invalid(f"block_size = {block} is no power of 2 from 16 on")
    blocks = -(-columns // block)
    if bits == 4 and block <= MAX_BLOCK and _is_float32(e):
        return e.sum(_int4_matmul(e, rows, columns, block), e.input("bias"))
    weights = unpacked(_bytes_of(e, "B", rows, blocks * block * bits // 8), bits)[:, :columns]
    b = e.const(weights, _UNSIGNED[bits])
    scales = e.reshape(e.operand("scales"), (rows, blocks))
    wide = _dequantized_blocks(e, b, scales, (rows, blocks), bits, block)
    y = e.op("MatMul", e.operand("A"), e.transpose(wide, (1, 0)))
    return e.sum(y, e.input("bias"))


def _is_float32(e: Expansion) -> bool:
    """True if the kernel's types are those of the node: float32, and zero points of 4 bits or none."""
    zero_points, scales = e.input("zero_points"), e.operand("scales")
    is_integer = zero_points is None or zero_points.desc.dtype is DType.UINT8
    return is_integer and e.dtype_of(e.operand("A")) is DType.FLOAT32 and scales.tensor is not None


def _int4_matmul(e: Expansion, rows: int, columns: int, block: int) -> Value:
    blocks = -(-columns // block)
    b = _bytes_of(e, "B", rows, blocks * block // 2).reshape(rows, blocks, block // 2)
    scales = _constant(e, "scales").array
    if scales.dtype != np.float32 or scales.size != rows * blocks:
        raise e.invalid(f"scales are {scales.size} of {scales.dtype}, {rows} times {blocks} of float32 are required")
    operands = [e.operand("A"), e.const(pack_weights(b)), e.const(pack_steps(scales.reshape(rows, blocks)))]
    if e.input("zero_points") is not None:
        zeros = unpacked(_bytes_of(e, "zero_points", rows, -(-blocks // 2)), 4)[:, :blocks]
        operands.append(e.const(pack_steps(zeros)))
    digits = 1 if e.node.int_attr("accuracy_level", 0) == _LEVEL_INT8 else 3
    return e.op("Int4MatMul", *operands, N=rows, K=columns, block_size=block, digits=digits)


def _dequantized_blocks(e: Expansion, b: Value, scales: Value, shape: tuple[int, int], bits: int, block: int) -> Value:
    rows, blocks = shape
    zero_points = e.input("zero_points")
    if zero_points is not None and zero_points.desc.dtype is not DType.UINT8:
        # Zero points that are no integers: q · scale − zero · scale, each for its block.
        ones = e.const(np.ones((rows, b.desc.static_shape[1])), _UNSIGNED[bits])
        shifts = e.op("Mul", e.reshape(zero_points, (rows, blocks)), scales)
        product = e.op("DequantizeLinear", b, scales, axis=1, block_size=block)
        return e.op("Sub", product, e.op("DequantizeLinear", ones, shifts, axis=1, block_size=block))
    if zero_points is None:
        zeros: Array = np.full(shape, 2 ** (bits - 1), np.uint8)
    else:
        zeros = unpacked(_bytes_of(e, "zero_points", rows, -(-blocks * bits // 8)), bits)[:, :blocks]
    zero = e.const(zeros, _UNSIGNED[bits])
    return e.op("DequantizeLinear", b, scales, zero, axis=1, block_size=block)


@contrib(
    "GatherBlockQuantized",
    "data indices scales zero_points?",
    "bits:i block_size:i gather_axis:i quantize_axis:i",
)
def gather_block_quantized(e: Expansion) -> Value:
    """Gather of quantized rows, their scales and zero points; then DequantizeLinear."""
    data, scales, zeros = e.operand("data"), e.operand("scales"), e.input("zero_points")
    rank, block, bits = e.rank_of(data), e.node.int_attr("block_size", 128), e.node.int_attr("bits", 4)
    gathered, axis = e.axis("gather_axis", 0, rank), e.axis("quantize_axis", 1, rank)
    if gathered == axis:
        raise e.unsupported("blocks along the gathered axis", "quantize the model along another axis")
    if e.dtype_of(data) not in (DType.UINT8, DType.INT4, DType.UINT4) or block < 1 or bits not in _UNSIGNED:
        raise e.unsupported("data of another type than 4 or 8 bits", "quantize the model to 4 or 8 bits")
    is_packed = e.dtype_of(data) is DType.UINT8
    indices = e.operand("indices")
    rows = e.op("Gather", _bytes(e, data, "data"), indices, axis=gathered)
    if is_packed and bits < 8:
        rows = _unpacked_at_run_time(e, rows, bits)
    steps = e.op("Gather", scales, indices, axis=gathered)
    if zeros is not None:
        points = _bytes(e, zeros, "zero_points")
        if is_packed:
            points = e.const(_points(e, bits), DType.UINT8)
        zeros = e.op("Gather", points, indices, axis=gathered)
    elif is_packed:
        zeros = e.op("Expand", e.const(2 ** (bits - 1), DType.UINT8), e.op("Shape", steps))
    # Seen from the end, axes behind the gathered one stay where they are.
    at = axis - rank if axis > gathered else axis
    return e.op("DequantizeLinear", rows, steps, zeros, axis=at, block_size=block)


def _bytes(e: Expansion, value: Value, name: str) -> Value:
    """Numbers of 4 bits as bytes, which Gather takes."""
    if e.dtype_of(value) is DType.UINT8:
        return value
    wide = DType.INT8 if e.dtype_of(value) is DType.INT4 else DType.UINT8
    return e.const(_constant(e, name).array.astype(wide.numpy), wide)


def _points(e: Expansion, bits: int) -> Array:
    numbers = unpacked(_constant(e, "zero_points").array, bits)
    return numbers[..., : _constant(e, "scales").shape[-1]]


def _unpacked_at_run_time(e: Expansion, rows: Value, bits: int) -> Value:
    shifts = e.const(range(0, 8, bits), DType.UINT8)
    numbers = e.op("BitShift", e.unsqueeze(rows, -1), shifts, direction="RIGHT")
    low = e.op("BitwiseAnd", numbers, e.const(2**bits - 1, DType.UINT8))
    shape = e.op("Shape", rows)
    return e.op("Reshape", low, e.op("Concat", e.slice(shape, 0, -1, 0), e.const([-1]), axis=0))

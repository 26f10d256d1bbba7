"""Matrix products, and what follows them in classifiers."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.elementwise import activated

_NARROW = frozenset({DType.INT8, DType.INT16, DType.UINT8, DType.UINT16})  # the standard multiplies no such matrices


@maps("MatMul", "SparseMatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def matmul(b: OpBuilder) -> Value:
    """MatMul, its operands transposed where that is asked for"""
    return _product(b)


@maps("_FusedMatMul")
def fused_matmul(b: OpBuilder) -> Value:
    """MatMul and what follows: BiasAdd, then an activation"""
    y, steps = _product(b), b.attr("fused_ops")
    for step in steps if isinstance(steps, tuple) else ():
        y = b.op("Add", y, b.input(2)) if step == b"BiasAdd" else activated(b, y, step)
    return y


def _product(b: OpBuilder) -> Value:
    names = ("adj_x", "adj_y") if b.node.op.startswith("Batch") else ("transpose_a", "transpose_b")
    left, right = (_swapped(b, place) if b.bool_attr(name) else b.input(place) for place, name in enumerate(names))
    dtype = b.dtype_attr("Tout") if b.node.op == "BatchMatMulV3" else left.desc.dtype
    wide = DType.INT32 if dtype in _NARROW else dtype
    return b.cast(b.op("MatMul", b.cast(left, wide), b.cast(right, wide)), dtype)


def _swapped(b: OpBuilder, place: int) -> Value:
    rank = b.rank(place)
    return b.transpose(b.input(place), (*range(rank - 2), rank - 1, rank - 2))


@maps("SparseTensorDenseMatMul")
def sparse_matmul(b: OpBuilder) -> Value:
    """MatMul; ScatterND fills the sparse operand up with zeros"""
    zeros = b.op("Expand", b.like(0, b.input(1)), b.int64_input(2))
    left, right = b.op("ScatterND", zeros, b.int64_input(0), b.input(1), reduction="add"), b.input(3)
    left, right = (
        b.transpose(x, (1, 0)) if b.bool_attr(name) else x for x, name in ((left, "adjoint_a"), (right, "adjoint_b"))
    )
    return b.op("MatMul", left, right)


@maps("Einsum")
def einsum(b: OpBuilder) -> Value:
    """Einsum"""
    return b.op("Einsum", *b.inputs, equation=b.text_attr("equation"))


@maps("Cross")
def cross(b: OpBuilder) -> Value:
    """The vector product along the last dim"""
    left, right = b.input(0), b.input(1)

    def turned(x: Value, order: tuple[int, ...]) -> Value:
        return b.op("Gather", x, b.const(order), axis=-1)

    plus = b.op("Mul", turned(left, (1, 2, 0)), turned(right, (2, 0, 1)))
    minus = b.op("Mul", turned(left, (2, 0, 1)), turned(right, (1, 2, 0)))
    return b.op("Sub", plus, minus)


@maps("MatrixDeterminant")
def determinant(b: OpBuilder) -> Value:
    """Det"""
    return b.op("Det", b.input(0))


@maps("Softmax", "LogSoftmax")
def softmax(b: OpBuilder) -> Value:
    """Softmax, LogSoftmax over the last dim"""
    return b.op(b.node.op, b.input(0), axis=-1)

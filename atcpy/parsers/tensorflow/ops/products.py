"""Matrix products, and what follows them in classifiers."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps
from atcpy.parsers.tensorflow.ops.elementwise import activated

_NARROW = frozenset({DType.INT8, DType.INT16, DType.UINT8, DType.UINT16})  # the standard multiplies no such matrices


@maps("MatMul", "SparseMatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def matmul(op: Op) -> Value:
    """MatMul, its operands transposed where that is asked for"""
    return _product(op)


@maps("_FusedMatMul")
def fused_matmul(op: Op) -> Value:
    """MatMul and what follows: BiasAdd, then an activation"""
    y, steps = _product(op), op.attr("fused_ops")
    for step in steps if isinstance(steps, tuple) else ():
        y = op.add("Add", y, op.input(2)) if step == b"BiasAdd" else activated(op, y, step)
    return y


def _product(op: Op) -> Value:
    names = ("adj_x", "adj_y") if op.node.op.startswith("Batch") else ("transpose_a", "transpose_b")
    a, b = (_swapped(op, place) if op.bool_attr(name) else op.input(place) for place, name in enumerate(names))
    dtype = op.dtype_attr("Tout") if op.node.op == "BatchMatMulV3" else a.desc.dtype
    wide = DType.INT32 if dtype in _NARROW else dtype
    return op.cast(op.add("MatMul", op.cast(a, wide), op.cast(b, wide)), dtype)


def _swapped(op: Op, place: int) -> Value:
    rank = op.rank(place)
    return op.transpose(op.input(place), (*range(rank - 2), rank - 1, rank - 2))


@maps("SparseTensorDenseMatMul")
def sparse_matmul(op: Op) -> Value:
    """MatMul; ScatterND fills the sparse operand up with zeros"""
    zeros = op.add("Expand", op.like(0, op.input(1)), op.shape_input(2))
    a, b = op.add("ScatterND", zeros, op.shape_input(0), op.input(1), reduction="add"), op.input(3)
    a, b = (op.transpose(x, (1, 0)) if op.bool_attr(name) else x for x, name in ((a, "adjoint_a"), (b, "adjoint_b")))
    return op.add("MatMul", a, b)


@maps("Einsum")
def einsum(op: Op) -> Value:
    """Einsum"""
    return op.add("Einsum", *op.inputs, equation=op.text_attr("equation"))


@maps("Cross")
def cross(op: Op) -> Value:
    """The vector product along the last dim"""
    a, b = op.input(0), op.input(1)

    def turned(x: Value, order: tuple[int, ...]) -> Value:
        return op.add("Gather", x, op.const(order), axis=-1)

    plus = op.add("Mul", turned(a, (1, 2, 0)), turned(b, (2, 0, 1)))
    minus = op.add("Mul", turned(a, (2, 0, 1)), turned(b, (1, 2, 0)))
    return op.add("Sub", plus, minus)


@maps("MatrixDeterminant")
def determinant(op: Op) -> Value:
    """Det"""
    return op.add("Det", op.input(0))


@maps("Softmax", "LogSoftmax")
def softmax(op: Op) -> Value:
    """Softmax, LogSoftmax over the last dim"""
    return op.add(op.node.op, op.input(0), axis=-1)

"""Matrix products, and what follows them in classifiers."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.ir.arithmetic import Expr
from atcpy.parsers.tensorflow.op import OpBuilder, maps, maps_all
from atcpy.parsers.tensorflow.ops.elementwise import activated

maps_all(
    {
        "Einsum": ("Einsum", lambda b: b.op("Einsum", *b.inputs, equation=b.text_attr("equation"))),
        "MatrixDeterminant": ("Det", lambda b: b.op("Det", b.input(0))),
        "Softmax LogSoftmax": (
            "Softmax, LogSoftmax over the last dim",
            lambda b: b.op(b.node.op, b.input(0), axis=-1),
        ),
    }
)


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
    left, right = (_swapped(b, index) if b.bool_attr(name) else b.input(index) for index, name in enumerate(names))
    dtype = b.dtype_attr("Tout") if b.node.op == "BatchMatMulV3" else left.desc.dtype
    left, right = (b.widen(b.cast(factor, dtype)) for factor in (left, right))
    return b.cast(b.op("MatMul", left, right), dtype)


def _swapped(b: OpBuilder, index: int) -> Value:
    rank = b.rank(index)
    return b.transpose(b.input(index), (*range(rank - 2), rank - 1, rank - 2))


@maps("SparseTensorDenseMatMul")
def sparse_matmul(b: OpBuilder) -> Value:
    """MatMul; ScatterND fills the sparse operand up with zeros"""
    zeros = b.op("Expand", b.like(0, b.input(1)), b.int64_input(2))
    left, right = b.op("ScatterND", zeros, b.int64_input(0), b.input(1), reduction="add"), b.input(3)
    left, right = (
        b.transpose(x, (1, 0)) if b.bool_attr(name) else x for x, name in ((left, "adjoint_a"), (right, "adjoint_b"))
    )
    return b.op("MatMul", left, right)


@maps("Cross")
def cross(b: OpBuilder) -> Value:
    """The vector product along the last dim"""
    left, right = b.input(0), b.input(1)

    def rotate(x: Value, order: tuple[int, ...]) -> Expr:
        return Expr(b, b.op("Gather", x, b.const(order), axis=-1))

    plus = rotate(left, (1, 2, 0)) * rotate(right, (2, 0, 1))
    return (plus - rotate(left, (2, 0, 1)) * rotate(right, (1, 2, 0))).value

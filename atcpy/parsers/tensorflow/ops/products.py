"""Matrix products, and what follows them in classifiers."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.parsers.tensorflow.op import Op, maps


@maps("MatMul", "SparseMatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def matmul(op: Op) -> Value:
    """MatMul, its operands transposed where that is asked for"""
    names = ("adj_x", "adj_y") if op.node.op.startswith("Batch") else ("transpose_a", "transpose_b")
    a, b = (_swapped(op, place) if op.bool_attr(name) else op.input(place) for place, name in enumerate(names))
    return op.add("MatMul", a, b)


def _swapped(op: Op, place: int) -> Value:
    rank = op.rank(place)
    return op.transpose(op.input(place), (*range(rank - 2), rank - 1, rank - 2))


@maps("Softmax", "LogSoftmax")
def softmax(op: Op) -> Value:
    """Softmax, LogSoftmax over the last dim"""
    return op.add(op.node.op, op.input(0), axis=-1)

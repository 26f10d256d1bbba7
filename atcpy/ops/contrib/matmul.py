"""Products of floating-point matrices."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.ops.contrib.activations import activated
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib

_TRANSPOSED = "alpha:f transA:i transB:i"
_BATCHES = "transBatchA:i transBatchB:i"


def _factor(e: Expansion, name: str) -> Value:
    """An input as MatMul wants it.

    transX swaps the last two axes; transBatchX says that the rows are the first axis, in front of the batch.
    """
    x = e.operand(name)
    swaps, rows_first = e.node.int_attr(f"trans{name}", 0), e.node.int_attr(f"transBatch{name}", 0)
    if not swaps and not rows_first:
        return x
    rank = e.rank_of(x)
    if rank < 2:
        return x
    perm = [*range(1, rank - 1), 0, rank - 1] if rows_first else [*range(rank)]
    if swaps:
        perm[-2:] = perm[-1], perm[-2]
    return e.transpose(x, perm)


def _product(e: Expansion) -> Value:
    return e.scale(e.op("MatMul", _factor(e, "A"), _factor(e, "B")), e.node.float_attr("alpha", 1.0))


@contrib("FusedMatMul", "A B", f"{_TRANSPOSED} {_BATCHES}")
def fused_matmul(e: Expansion) -> Value:
    """alpha · A · B, each transposed first where it says so."""
    return _product(e)


@contrib("TransposeMatMul", "A B", _TRANSPOSED)
def transpose_matmul(e: Expansion) -> Value:
    """FusedMatMul by its older name."""
    return _product(e)


@contrib(
    "FusedMatMulActivation",
    "A B",
    f"{_TRANSPOSED} {_BATCHES} activation:s! activation_alpha:f activation_axis:i activation_beta:f activation_gamma:f",
)
def fused_matmul_activation(e: Expansion) -> Value:
    """activation(alpha · A · B)"""
    name = e.node.str_attr("activation", "")
    if name == "Softmax":
        return e.op("Softmax", _product(e), axis=e.node.int_attr("activation_axis", -1))
    else:
        return activated(e, _product(e), name, _activation_params(e))


@contrib(
    "FusedGemm",
    "A B C?",
    f"{_TRANSPOSED} beta:f activation:s activation_alpha:f activation_beta:f activation_gamma:f",
)
def fused_gemm(e: Expansion) -> Value:
    """activation(Gemm(A, B, C))"""
    attrs = {name: value for name, value in e.node.attrs.items() if not name.startswith("activation")}
    y = e.op("Gemm", e.operand("A"), e.operand("B"), e.input("C"), **attrs)
    return activated(e, y, e.node.str_attr("activation", ""), _activation_params(e))


def _activation_params(e: Expansion) -> list[float]:
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return [e.node.float_attr(name, 0.0) for name in names if name in e.node.attrs]


@contrib("CDist", "A B", "metric:s")
def cdist(e: Expansion) -> Value:
    """Distances of the rows of A and B: |a|² + |b|² − 2·a·b, which rounding must not make negative."""
    metric = e.node.str_attr("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise e.unsupported(f'metric = "{metric}"', "export the model without ONNX Runtime's optimization")
    a, b = e.operand("A"), e.operand("B")
    columns = e.transpose(b, (1, 0))
    squares_a = e.op("ReduceSumSquare", a, e.const([1]), keepdims=1)
    squares_b = e.op("ReduceSumSquare", columns, e.const([0]), keepdims=1)
    cross = e.scale(e.op("MatMul", a, columns), -2.0)
    total = e.op("Max", e.sum(cross, squares_a, squares_b), e.like(0.0, a))
    return total if metric == "sqeuclidean" else e.op("Sqrt", total)

"""Decompositions and solutions of linear systems, in a domain of our own: LAPACK computes them, by numpy on the host.

Matrices are the last two dims of [..., M, N]; float32 and float64. What has no solution is refused as it runs (D0001).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Sym, TensorDesc
from atcpy.ir.shape import Dim, Shape, format_shape
from atcpy.ir.symbolic import agree, minimum
from atcpy.ir.tensor import Array
from atcpy.ops.core.broadcast import broadcast_shapes
from atcpy.ops.core.opdef import Evaluate, Infer, Known, OpDef, always, register_operator

DOMAIN = "atcpy.linalg"
_FLOATS = frozenset({DType.FLOAT32, DType.FLOAT64})


def _matrices(node: Node, index: int = 0) -> Shape | None:
    """The shape of an input of matrices, None if its rank is not known. Raises ModelInvalid if it holds none."""
    desc = node.operand(index).desc
    if desc.dtype not in _FLOATS and desc.dtype is not DType.UNDEFINED:
        raise ModelInvalid("E13014", f"input {index} is {desc.dtype.long}, it takes float32 and float64", where=node)
    if desc.shape is not None and len(desc.shape) < 2:
        what = f"input {index} of shape {format_shape(desc.shape)} holds no matrices"
        raise ModelInvalid("E13014", what, where=node)
    return desc.shape


def _may_be_equal(a: Dim, b: Dim) -> bool:
    return not isinstance(a, int) or not isinstance(b, int) or agree(a, b)


def _square(node: Node) -> Shape | None:
    shape = _matrices(node)
    if shape is not None and not _may_be_equal(shape[-2], shape[-1]):
        raise ModelInvalid("E13014", f"input 0 of shape {format_shape(shape)}: its matrices are not square", where=node)
    return shape


def _descs(node: Node, *shapes: Shape | None) -> list[TensorDesc]:
    return [TensorDesc.plain(node.operand(0).desc.dtype, shape) for shape in shapes[: len(node.outputs)]]


def infer_square(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The type of the input, whose matrices are square."""
    return _descs(node, _square(node))


def infer_solution(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[..., M, K] of matrices [..., M, M] and right-hand sides [..., M, K]; the dims before broadcast."""
    matrix, rhs = _square(node), _matrices(node, 1)
    if node.operand(0).desc.dtype is not node.operand(1).desc.dtype:
        raise ModelInvalid("E13014", "its inputs have different element types", where=node)
    if matrix is None or rhs is None:
        return _descs(node, None)
    if not _may_be_equal(matrix[-1], rhs[-2]):
        what = f"matrices {format_shape(matrix)} and right-hand sides {format_shape(rhs)} do not fit"
        raise ModelInvalid("E13014", what, where=node)
    batch = broadcast_shapes(node, [matrix[:-2], rhs[:-2]])
    return _descs(node, None if batch is None else (*batch, *rhs[-2:]))


def infer_eigen(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Eigenvalues [..., M] and eigenvectors [..., M, M]."""
    shape = _square(node)
    return _descs(node, None if shape is None else shape[:-1], shape)


def infer_determinant(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The sign and the logarithm of the absolute value, [...] each."""
    shape = _square(node)
    batch = None if shape is None else shape[:-2]
    return _descs(node, batch, batch)


def infer_qr(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Q [..., M, K] and R [..., K, N]; K is M if `full_matrices`, else the smaller of M and N."""
    shape = _matrices(node)
    if shape is None:
        return _descs(node, None, None)
    *batch, rows, columns = shape
    inner = rows if node.int_attr("full_matrices", 0) else _smaller(node, rows, columns)
    return _descs(node, (*batch, rows, inner), (*batch, inner, columns))


def infer_svd(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The singular values [..., K], K being the smaller of M and N, U [..., M, K] and V [..., N, K]; U [..., M, M] and
    V [..., N, N] if `full_matrices`.
    """
    shape = _matrices(node)
    if shape is None:
        return _descs(node, None, None, None)
    *batch, rows, columns = shape
    inner = _smaller(node, rows, columns)
    full = bool(node.int_attr("full_matrices", 0))
    of_u, of_v = (rows, columns) if full else (inner, inner)
    return _descs(node, (*batch, inner), (*batch, rows, of_u), (*batch, columns, of_v))


def _smaller(node: Node, a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return minimum(a, b)
    return a if a == b else Sym(f"{node.name}.K")


def _adjoint(node: Node, matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2) if node.int_attr("adjoint", 0) else matrix


def evaluate_cholesky(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The lower factor, of which only the lower triangle of the matrix is read."""
    return [np.linalg.cholesky(np.asarray(arrays[0]))]


def evaluate_inverse(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The inverse, transposed if `adjoint`."""
    return [np.linalg.inv(_adjoint(node, np.asarray(arrays[0])))]


def evaluate_solve(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """X of A X = B, or of Aᵀ X = B if `adjoint`."""
    return [np.linalg.solve(_adjoint(node, np.asarray(arrays[0])), np.asarray(arrays[1]))]


def evaluate_triangular_solve(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The same of one triangle of A, the other being zero."""
    triangle = np.tril if node.int_attr("lower", 1) else np.triu
    matrix: Array = triangle(np.asarray(arrays[0]))
    return [np.linalg.solve(_adjoint(node, matrix), np.asarray(arrays[1]))]


def evaluate_eigen(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The increasing eigenvalues of symmetric matrices, and the eigenvectors as columns; reads the lower triangle."""
    return [*np.linalg.eigh(np.asarray(arrays[0]))][: len(node.outputs)]


def evaluate_qr(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Q and R."""
    return [*np.linalg.qr(np.asarray(arrays[0]), "complete" if node.int_attr("full_matrices", 0) else "reduced")]


def evaluate_svd(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The singular values, decreasing, U and V of A = U S Vᵀ."""
    x = np.asarray(arrays[0])
    if len(node.outputs) == 1:
        return [np.linalg.svd(x, compute_uv=False)]
    u, s, vt = np.linalg.svd(x, full_matrices=bool(node.int_attr("full_matrices", 0)))
    return [s, u, np.swapaxes(vt, -1, -2)]


def evaluate_determinant(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The sign and the logarithm of the absolute value of the determinant."""
    return [*np.linalg.slogdet(np.asarray(arrays[0]))]


def _register(name: str, infer: Infer, evaluate: Evaluate) -> None:
    host = {Engine.HOST_CPU: always}
    register_operator(OpDef(name=name, domain=DOMAIN, infer=infer, evaluate=evaluate, engines=host))


_register("Cholesky", infer_square, evaluate_cholesky)
_register("MatrixInverse", infer_square, evaluate_inverse)
_register("MatrixSolve", infer_solution, evaluate_solve)
_register("MatrixTriangularSolve", infer_solution, evaluate_triangular_solve)
_register("SelfAdjointEig", infer_eigen, evaluate_eigen)
_register("Qr", infer_qr, evaluate_qr)
_register("Svd", infer_svd, evaluate_svd)
_register("LogMatrixDeterminant", infer_determinant, evaluate_determinant)

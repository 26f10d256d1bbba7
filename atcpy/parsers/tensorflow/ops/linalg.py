"""Linear algebra, which LAPACK computes on the host."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.ops.linalg import DOMAIN
from atcpy.parsers.tensorflow.op import OpBuilder, maps


def _checked(b: OpBuilder) -> list[Value]:
    if not all(value.desc.dtype.is_float and value.desc.dtype.bits >= 32 for value in b.inputs):
        raise b.unsupported(f"matrices of {b.dtype(0).long}", "cast them to float32 before, and back after")
    return b.inputs


@maps("Cholesky", "BatchCholesky", note="The lower factor, by LAPACK on the host")
def cholesky(b: OpBuilder) -> Value:
    """The lower factor"""
    return b.op(f"{DOMAIN}::Cholesky", *_checked(b))


@maps("MatrixInverse", "MatrixSolve", "BatchMatrixInverse", "BatchMatrixSolve")
def solve(b: OpBuilder) -> Value:
    """The inverse, or the solution of a linear system, by LAPACK on the host"""
    op_type = b.node.op.removeprefix("Batch")
    return b.op(f"{DOMAIN}::{op_type}", *_checked(b), adjoint=int(b.bool_attr("adjoint")))


@maps("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def triangular_solve(b: OpBuilder) -> Value:
    """The solution of a triangular system, by LAPACK on the host"""
    lower = b.attr("lower") is not False
    return b.op(f"{DOMAIN}::MatrixTriangularSolve", *_checked(b), lower=int(lower), adjoint=int(b.bool_attr("adjoint")))


@maps("SelfAdjointEigV2", "BatchSelfAdjointEigV2")
def self_adjoint_eig(b: OpBuilder) -> list[Value]:
    """Eigenvalues and eigenvectors, by LAPACK on the host; eigenvectors may have the other sign"""
    count = 2 if b.attr("compute_v") is not False else 1
    return b.ops(f"{DOMAIN}::SelfAdjointEig", *_checked(b), outputs=count)


@maps("Qr")
def qr(b: OpBuilder) -> list[Value]:
    """Q and R, by LAPACK on the host; columns of Q may have the other sign"""
    return b.ops(f"{DOMAIN}::Qr", *_checked(b), outputs=2, full_matrices=int(b.bool_attr("full_matrices")))


@maps("Svd", "BatchSvd")
def svd(b: OpBuilder) -> list[Value]:
    """Singular values, U and V, by LAPACK on the host; pairs of columns may have the other sign"""
    count = 3 if b.attr("compute_uv") is not False else 1
    full = int(b.bool_attr("full_matrices"))
    return b.ops(f"{DOMAIN}::Svd", *_checked(b), outputs=count, full_matrices=full)


@maps("LogMatrixDeterminant")
def log_determinant(b: OpBuilder) -> list[Value]:
    """The sign and the logarithm of the absolute value, by LAPACK on the host"""
    return b.ops(f"{DOMAIN}::LogMatrixDeterminant", *_checked(b), outputs=2)

"""Products and determinants of matrices."""

from atcpy.ops.matmul import det, einsum, matmul

"""Products of matrices."""

from atcpy.ops.matmul import einsum, matmul

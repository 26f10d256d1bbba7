"""Operations on sets, which lie along the last dim of dense and sparse tensors."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.ops.sets import DOMAIN, OPERATIONS
from atcpy.parsers.tensorflow.op import OpBuilder, maps


@maps("DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation")
def set_operation(b: OpBuilder) -> list[Value]:
    """What is in one of the sets, in both or in either, for each row, on the host; elements in increasing order"""
    operation = b.text_attr("set_operation").lower()
    if operation not in OPERATIONS:
        raise b.invalid(f"set_operation: {operation}")
    kinds = b.node.op.removesuffix("SetOperation")
    first = _sparse(b, 0) if kinds.startswith("Sparse") else _dense(b, 0)
    second = _sparse(b, -3) if kinds.endswith("Sparse") else _dense(b, 1)
    return b.ops(f"{DOMAIN}::SetOperation", *first, *second, outputs=3, set_operation=operation, **_validation(b))


@maps("SetSize")
def set_size(b: OpBuilder) -> Value:
    """The number of different elements of each row, on the host"""
    return b.op(f"{DOMAIN}::SetSize", *_sparse(b, 0), **_validation(b))


def _validation(b: OpBuilder) -> dict[str, int]:
    return {"validate_indices": int(b.attr("validate_indices") is not False)}


def _dense(b: OpBuilder, index: int) -> list[Value | None]:
    return [b.input(index), None, None]


def _sparse(b: OpBuilder, index: int) -> list[Value | None]:
    """The values, indices and shape of a sparse tensor whose three inputs begin here."""
    return [b.input(index + 1), b.int64_input(index), b.int64_input(index + 2)]

"""Gather and GatherND: rows of the input by number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import known_integers, normal_axis
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.core.shape_values import is_vector
from atcpy.ops.core.strided import copy_calls, item_bytes, rejects_value, row_major, supports_movement

INDEX_TYPES = frozenset({DType.INT32, DType.INT64})


def infer_gather(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The dim `axis` becomes the dims of the indices."""
    x, indices = node.operand(0).desc, node.operand(1).desc
    if x.shape is None or indices.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    axis = normal_axis(node, node.int_attr("axis", 0), len(x.shape))
    size = x.shape[axis]
    for index in known_integers(node, 1, known) or ():
        if isinstance(size, int) and not -size <= index < size:
            raise ModelInvalid("EZ8888", where=node, what=f"index {index} is outside an axis of size {size}")
    return [TensorDesc.plain(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))]


def propagate_gather(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """The elements with these numbers."""
    elements, indices = known(node.operand(0)), known_integers(node, 1, known)
    if elements is None or indices is None or not is_vector(node.operand(0)) or not is_vector(node.operand(1)):
        return None
    if any(not -len(elements) <= index < len(elements) for index in indices):
        return None  # running the node says so
    return tuple(elements[index] for index in indices)


def supports_gather(node: Node) -> Iterable[Reject]:
    """Known shapes, indices of 32 or 64 bits."""
    yield from supports_movement(node)
    yield from rejects_value(node, node.operand(1).desc)
    if node.operand(1).desc.dtype not in INDEX_TYPES:
        yield Reject("index-dtype", node.name, node.operand(1).desc.dtype.long)


def lower_gather(node: Node) -> Iterable[KernelCall]:
    """One launch; every outer index reads the same indices. Constant ones at equal distances are a copy."""
    x, indices, y = node.operand(0), node.operand(1), node.output
    shape = x.desc.static_shape
    axis = normal_axis(node, node.int_attr("axis", 0), len(shape))
    outer, count, inner = math.prod(shape[:axis]), indices.desc.elements, math.prod(shape[axis + 1 :])
    run = _run(node, shape[axis])
    if run is not None:
        first, step = run
        if not outer * inner:
            return
        dims, source = (outer, count, inner), (shape[axis] * inner, step * inner, 1)
        yield from copy_calls(x, y, dims, source, row_major(dims), src_offset=first * inner)
        return
    params: dict[str, ParamValue] = {
        "outer": outer, "count": count, "depth": 1, "dims": [shape[axis]],
        "inner": inner, "item": item_bytes(x.desc.dtype), "index_item": index_bytes(node),
    }  # fmt: skip
    yield KernelCall("gather", (x, indices), (y,), params)


def _run(node: Node, size: int) -> tuple[int, int] | None:
    """The first index and the step to the next, if the indices are constant and each step is the same."""
    indices = node.operand(1)
    if indices.tensor is None or indices.desc.elements == 0:
        return None
    positions = indices.array.reshape(-1).astype(np.int64)
    positions = np.where(positions < 0, positions + size, positions)
    steps = np.diff(positions)
    if positions.min() < 0 or positions.max() >= size or (steps != steps[:1]).any():
        return None
    return int(positions[0]), int(steps[0]) if steps.size else 1


def index_bytes(node: Node) -> int:
    """Bytes of an index of operand 1."""
    return item_bytes(node.operand(1).desc.dtype)


def evaluate_gather(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Gather on numpy; IndexError for an index outside."""
    x, indices = arrays
    assert x is not None and indices is not None
    return [np.take(x, indices, node.int_attr("axis", 0))]


def shapes_of_gather_nd(node: Node) -> Mapping[int, str]:
    """The batches of the indices are those of the data."""
    shapes, batches = [node.operand(index).desc.shape for index in (0, 1)], node.int_attr("batch_dims", 0)
    if any(shape is None or not 0 <= batches <= len(shape) for shape in shapes):
        return {}
    names = [f"d{axis}" for axis in range(batches)]
    return {
        index: " ".join([*names, *(f"{'xi'[index]}{axis}" for axis in range(batches, len(shape or ())))])
        for index, shape in enumerate(shapes)
    }


def supports_gather_nd(node: Node) -> Iterable[Reject]:
    """Known shapes; an index of at most 8 numbers."""
    yield from supports_gather(node)
    if node.operand(1).desc.is_static and not 1 <= node.operand(1).desc.static_shape[-1] <= 8:
        yield Reject("rank", node.name, "the index has no or more than 8 numbers")


def lower_gather_nd(node: Node) -> Iterable[KernelCall]:
    """One launch; every batch has indices of its own."""
    x, indices, y = node.operand(0), node.operand(1), node.output
    shape, batch_dims = x.desc.static_shape, node.int_attr("batch_dims", 0)
    *batch_shape, depth = indices.desc.static_shape
    count = math.prod(batch_shape[batch_dims:])
    params: dict[str, ParamValue] = {
        "outer": math.prod(shape[:batch_dims]), "index_stride": count * depth, "count": count, "depth": depth,
        "dims": shape[batch_dims : batch_dims + depth], "inner": math.prod(shape[batch_dims + depth :]),
        "item": item_bytes(x.desc.dtype), "index_item": index_bytes(node),
    }  # fmt: skip
    yield KernelCall("gather", (x, indices), (y,), params)


register_operator(
    OpDef(
        name="Gather",
        ge_type="GatherV2D",
        infer=infer_gather,
        propagate=propagate_gather,
        evaluate=evaluate_gather,
        engines={Engine.AICPU: supports_gather},
        lower=lower_gather,
        traits=Trait.EXTRACTS | Trait.SELECTION,
    )
)
register_operator(
    OpDef(
        name="GatherND",
        operand_shapes=shapes_of_gather_nd,
        ge_type="GatherNd",
        engines={Engine.AICPU: supports_gather_nd},
        lower=lower_gather_nd,
        traits=Trait.SELECTION,
    )
)

"""GatherElements and ScatterElements: single elements, each named by an index along one axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import Engine, Node, Reject, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import normal_axis
from atcpy.ops.core.broadcast import collapse
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.core.strided import MAX_RANK, copy_whole, item_bytes, rejects_value, row_major
from atcpy.ops.core.structural import same_as_input
from atcpy.ops.move.gather import INDEX_TYPES
from atcpy.ops.move.scatter import rejects_reduction

INDICES, UPDATES = 1, 2


def infer_gather_elements(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The shape of the indices; they have the rank of the data."""
    x, indices = node.operand(0).desc, node.operand(INDICES).desc
    if x.shape is not None and indices.shape is not None and len(x.shape) != len(indices.shape):
        raise ModelInvalid("EZ8888", where=node, what=f"indices are {indices}, the data {x}: not of one rank")
    if x.shape is not None:
        normal_axis(node, node.int_attr("axis", 0), len(x.shape))
    return [TensorDesc.plain(x.dtype, indices.shape)]


def evaluate_gather_elements(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """GatherElements on numpy; IndexError for an index outside."""
    x, indices = arrays[0], arrays[INDICES]
    assert x is not None and indices is not None
    axis = normal_axis(node, node.int_attr("axis", 0), x.ndim)
    coordinates: list[Array] = list(np.indices(indices.shape, sparse=True))
    coordinates[axis] = indices
    return [x[tuple(coordinates)]]


def supports_elements(node: Node) -> Iterable[Reject]:
    """Known shapes, elements of whole bytes, indices of 32 or 64 bits; updates within the data."""
    for value in node.operands:
        yield from rejects_value(node, value.desc)
    if node.operand(INDICES).desc.dtype not in INDEX_TYPES:
        yield Reject("index-dtype", node.name, node.operand(INDICES).desc.dtype.long)
    if not all(value.desc.is_static for value in node.operands):
        return
    shape, index_shape = node.operand(0).desc.static_shape, node.operand(INDICES).desc.static_shape
    axis = normal_axis(node, node.int_attr("axis", 0), len(shape))
    if any(count > size for at, (count, size) in enumerate(zip(index_shape, shape, strict=True)) if at != axis):
        yield Reject("indices-beyond-data", node.name, f"indices {list(index_shape)} of data {list(shape)}")
    elif len(_lanes(node)[0]) > MAX_RANK:
        yield Reject("rank", node.name, f"{len(shape)} dims that do not merge")


def _lanes(node: Node) -> tuple[list[int], list[int], list[int]]:
    """Dims without the axis, and their strides in the indices and in the data."""
    shape, index_shape = node.operand(0).desc.static_shape, node.operand(INDICES).desc.static_shape
    axis = normal_axis(node, node.int_attr("axis", 0), len(shape))
    strides = [[*all_[:axis], *all_[axis + 1 :]] for all_ in (row_major(index_shape), row_major(shape))]
    dims, (index_strides, data_strides) = collapse([*index_shape[:axis], *index_shape[axis + 1 :]], strides)
    return dims, index_strides, data_strides


def _params(node: Node, kind: str) -> dict[str, ParamValue]:
    x, indices = node.operand(0).desc, node.operand(INDICES).desc
    axis = normal_axis(node, node.int_attr("axis", 0), len(x.static_shape))
    dims, index_strides, data_strides = _lanes(node)
    return {
        "kind": kind, "rank": len(dims), "dims": dims, "index_strides": index_strides, "data_strides": data_strides,
        "count": indices.static_shape[axis], "index_step": row_major(indices.static_shape)[axis],
        "size": x.static_shape[axis], "data_step": row_major(x.static_shape)[axis],
        "item": item_bytes(x.dtype), "index_item": item_bytes(indices.dtype), "dtype": x.dtype.onnx,
    }  # fmt: skip


def lower_gather_elements(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    if node.output.desc.elements:
        yield KernelCall("elements", tuple(node.operands), (node.output,), _params(node, "gather"))


def supports_scatter_elements(node: Node) -> Iterable[Reject]:
    """Indices and updates of one shape; a reduction of numbers or truth values."""
    yield from supports_elements(node)
    yield from rejects_reduction(node)
    indices, updates = node.operand(INDICES).desc, node.operand(UPDATES).desc
    if indices.is_static and updates.is_static and indices.shape != updates.shape:
        yield Reject("updates-shape", node.name)


def shapes_of_scatter_elements(node: Node) -> Mapping[int, str]:
    """Indices of the rank of the data, and an update for each."""
    shape = node.operand(0).desc.shape
    if shape is None:
        return {}
    indices = " ".join(f"i{axis}" for axis in range(len(shape)))
    return {INDICES: indices, UPDATES: indices}


def lower_scatter_elements(node: Node) -> Iterable[KernelCall]:
    """The data are copied, unless they lie there already; the updates go in."""
    x, indices, updates = node.operands
    yield from copy_whole(x, node.output)
    if updates.desc.elements:
        kind = node.str_attr("reduction", "none")
        yield KernelCall("elements", (updates, indices), (node.output,), _params(node, kind))


register_operator(
    OpDef(
        name="GatherElements",
        infer=infer_gather_elements,
        evaluate=evaluate_gather_elements,
        engines={Engine.AICPU: supports_elements},
        lower=lower_gather_elements,
        traits=Trait.SELECTION,
    )
)
register_operator(
    OpDef(
        name="ScatterElements",
        operand_shapes=shapes_of_scatter_elements,
        infer=same_as_input,
        engines={Engine.AICPU: supports_scatter_elements},
        lower=lower_scatter_elements,
        inplace=(0,),
        traits=Trait.INSERTS,
    )
)

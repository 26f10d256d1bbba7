"""ScatterND and TensorScatter: rows written into a copy of the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from atcpy.errors import ModelInvalid
from atcpy.ir import Engine, Node, Reject
from atcpy.ops.core.axes import normal_axis
from atcpy.ops.core.opdef import KernelCall, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.core.strided import MAX_RANK, copy_whole, item_bytes, rejects_value
from atcpy.ops.core.structural import same_as_input
from atcpy.ops.elementwise.cast import KERNEL_DTYPES
from atcpy.ops.move.gather import INDEX_TYPES

INDICES, UPDATES = 1, 2
REDUCTIONS = frozenset({"none", "add", "mul", "max", "min"})


def rejects_reduction(node: Node) -> Iterable[Reject]:
    """Elements that a reduction does not know. Raises ModelInvalid for one that ONNX does not know."""
    reduction, dtype = node.str_attr("reduction", "none"), node.operand(0).desc.dtype
    if reduction not in REDUCTIONS:
        what = f"reduction = {reduction} is none of {', '.join(sorted(REDUCTIONS))}"
        raise ModelInvalid("E13014", where=node, what=what)
    if reduction != "none" and dtype not in KERNEL_DTYPES:
        yield Reject("dtype", node.name, dtype.long)


# --- ScatterND ---------------------------------------------------------------------------------


def supports_scatter_nd(node: Node) -> Iterable[Reject]:
    """Known shapes that fit; an index of at most 8 numbers, of 32 or 64 bits."""
    for value in node.operands:
        yield from rejects_value(node, value.desc)
    yield from rejects_reduction(node)
    if node.operand(INDICES).desc.dtype not in INDEX_TYPES:
        yield Reject("index-dtype", node.name, node.operand(INDICES).desc.dtype.long)
    if not all(value.desc.is_static for value in node.operands):
        return
    shape, indices, updates = (value.desc.static_shape for value in node.operands)
    if not indices or indices[-1] > min(MAX_RANK, len(shape)):
        yield Reject("rank", node.name, f"indices {list(indices)} of data {list(shape)}")
    elif updates != indices[:-1] + shape[indices[-1] :]:
        yield Reject("updates-shape", node.name, f"updates {list(updates)} for indices {list(indices)}")


def shapes_of_scatter_nd(node: Node) -> Mapping[int, str]:
    """Each index names a part of the data, of which there is an update."""
    shape, indices = node.operand(0).desc.shape, node.operand(INDICES).desc.shape
    if shape is None or not indices or not isinstance(indices[-1], int):
        return {}
    if indices[-1] > len(shape):
        what = f"indices of {indices[-1]} numbers into data of rank {len(shape)}"
        raise ModelInvalid("EZ8888", where=node, what=what)
    dims = [f"d{axis}" for axis in range(len(shape))]
    counts = [f"i{axis}" for axis in range(len(indices) - 1)]
    return {0: " ".join(dims), INDICES: " ".join([*counts, "depth"]), UPDATES: " ".join(counts + dims[indices[-1] :])}


def lower_scatter_nd(node: Node) -> Iterable[KernelCall]:
    """The data are copied, unless they lie there already; the updates go in."""
    x, indices, updates = node.operands
    shape = x.desc.static_shape
    *batch_shape, depth = indices.desc.static_shape
    yield from copy_whole(x, node.output)
    params: dict[str, ParamValue] = {
        "kind": node.str_attr("reduction", "none"), "count": math.prod(batch_shape), "depth": depth,
        "dims": shape[:depth], "inner": math.prod(shape[depth:]), "item": item_bytes(x.desc.dtype),
        "index_item": item_bytes(indices.desc.dtype), "dtype": x.desc.dtype.onnx,
    }  # fmt: skip
    if updates.desc.elements:
        yield KernelCall("scatter_nd", (updates, indices), (node.output,), params)


# --- TensorScatter -----------------------------------------------------------------------------


def supports_tensor_scatter(node: Node) -> Iterable[Reject]:
    """Known shapes, a cache that the update fits into."""
    for value in node.operands:
        yield from rejects_value(node, value.desc)
    if not all(value.desc.is_static for value in node.operands):
        return
    shape, update = node.operand(0).desc.static_shape, node.operand(1).desc.static_shape
    axis = normal_axis(node, node.int_attr("axis", -2), len(shape))
    if node.str_attr("mode", "linear") not in {"linear", "circular"}:
        raise ModelInvalid("E13014", where=node, what=f"mode = {node.str_attr('mode', 'linear')} is unknown")
    if axis == 0:
        raise ModelInvalid("E13014", where=node, what="axis = 0 is that of the batches")
    others = (*shape[:axis], *shape[axis + 1 :]) == (*update[:axis], *update[axis + 1 :])
    if len(update) != len(shape) or not others or update[axis] > shape[axis]:
        yield Reject("updates-shape", node.name, f"an update {list(update)} of a cache {list(shape)}")


def shapes_of_tensor_scatter(node: Node) -> Mapping[int, str]:
    """An update like the cache but for one axis, and where it begins in each batch."""
    shape = node.operand(0).desc.shape
    if shape is None:
        return {}
    axis = normal_axis(node, node.int_attr("axis", -2), len(shape))
    dims = [f"d{index}" for index in range(len(shape))]
    return {0: " ".join(dims), 1: " ".join([*dims[:axis], "rows", *dims[axis + 1 :]]), 2: "d0"}


def lower_tensor_scatter(node: Node) -> Iterable[KernelCall]:
    """The cache is copied, unless it lies there already; the update goes in."""
    cache, update, begin = node.operand(0), node.operand(1), node.input(2)
    shape = cache.desc.static_shape
    axis = normal_axis(node, node.int_attr("axis", -2), len(shape))
    yield from copy_whole(cache, node.output)
    params: dict[str, ParamValue] = {
        "batch": shape[0], "groups": math.prod(shape[1:axis]), "count": update.desc.static_shape[axis],
        "size": shape[axis], "inner": math.prod(shape[axis + 1 :]), "item": item_bytes(cache.desc.dtype),
        "circular": int(node.str_attr("mode", "linear") == "circular"),
    }  # fmt: skip
    if update.desc.elements:
        yield KernelCall("tensor_scatter", (update, begin) if begin is not None else (update,), (node.output,), params)


for _name, _ge_type, _shapes, _supports, _lower in (
    ("ScatterND", "ScatterNd", shapes_of_scatter_nd, supports_scatter_nd, lower_scatter_nd),
    ("TensorScatter", "TensorScatter", shapes_of_tensor_scatter, supports_tensor_scatter, lower_tensor_scatter),
):
    register_operator(
        OpDef(
            name=_name,
            ge_type=_ge_type,
            operand_shapes=_shapes,
            infer=same_as_input,
            engines={Engine.AICPU: _supports},
            lower=_lower,
            inplace=(0,),
            traits=Trait.INSERTS,
        )
    )

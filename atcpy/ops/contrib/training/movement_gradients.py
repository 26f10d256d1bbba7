"""Gradients of ops that move data, and the forms of these ops that ONNX Runtime's training has."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.ir.builder import INT64_MAX
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import STANDARD, contrib
from atcpy.ops.core.signature import UNBOUNDED


def _scatter_rows(e: Expansion, shape: Value, indices: Value, dy: Value) -> Value:
    """Return zeros of the shape, with each row of dy added where its index says."""
    return e.op("ScatterND", e.zeros(shape, dy), e.cast(indices, DType.INT64), dy, reduction="add")


def scatter_elements(e: Expansion, shape: Value, indices: Value, dy: Value, reduction: str) -> Value:
    """Return zeros of the shape, with the elements of dy at indices that count the elements of the whole tensor."""
    zeros = e.zeros(e.op("ReduceProd", shape, keepdims=1), dy)
    flat = e.op("ScatterElements", zeros, e.reshape(indices, (-1,)), e.reshape(dy, (-1,)), axis=0, reduction=reduction)
    return e.op("Reshape", flat, shape)


@contrib("GatherGrad", "shape indices dY", "axis:i")
def gather_grad(e: Expansion) -> Value:
    """Zeros of the shape, with dY added at the indices along the axis."""
    shape, indices, dy = e.operand("shape"), e.operand("indices"), e.operand("dY")
    rank = e.node.int_attr("axis", 0) and e.rank_of(dy) - e.rank_of(indices) + 1
    axis = e.axis("axis", 0, rank) if rank else 0
    rows = e.unsqueeze(indices, -1)
    if axis == 0:
        return _scatter_rows(e, shape, rows, dy)
    width = e.rank_of(indices)
    first = e.transpose(dy, (*range(axis, axis + width), *range(axis), *range(axis + width, rank + width - 1)))
    order = [axis, *(other for other in range(rank) if other != axis)]
    total = _scatter_rows(e, e.op("Gather", shape, e.const(order), axis=0), rows, first)
    return e.transpose(total, [order.index(axis) for axis in range(rank)])


@contrib("GatherElementsGrad", "dY shape indices", "axis:i")
def gather_elements_grad(e: Expansion) -> Value:
    """Zeros of the shape, with dY added at the indices."""
    dy = e.operand("dY")
    zeros, axis = e.zeros(e.operand("shape"), dy), e.node.int_attr("axis", 0)
    return e.op("ScatterElements", zeros, e.operand("indices"), dy, axis=axis, reduction="add")


@contrib("GatherNDGrad", "shape indices update", "batch_dims:i")
def gather_nd_grad(e: Expansion) -> Value:
    """Zeros of the shape, with the update's rows added at the indices; a row of a batch stays in it."""
    shape, indices, update = e.operand("shape"), e.operand("indices"), e.operand("update")
    batch_dims = e.node.int_attr("batch_dims", 0)
    if batch_dims == 0:
        return _scatter_rows(e, shape, indices, update)
    rank = e.rank_of(indices)
    if not 0 < batch_dims < rank:
        raise e.invalid(f"batch_dims = {batch_dims}, the indices have {rank} dims")
    # All batches in one dim, whose numbers stand in front of each index.
    sizes, all_of = e.op("Shape", indices), e.const([-1])
    rest = e.slice(sizes, batch_dims, INT64_MAX, 0)
    flat = e.op("Reshape", indices, e.op("Concat", all_of, rest, axis=0))
    batches = e.op("ReduceProd", e.slice(sizes, 0, batch_dims, 0), keepdims=1)
    numbers = e.reshape(e.iota(batches), (-1, *[1] * (rank - batch_dims)))
    own = e.op("Concat", batches, e.slice(rest, 0, -1, 0), e.const([1]), axis=0)
    full = e.op("Concat", e.op("Expand", numbers, own), e.cast(flat, DType.INT64), axis=-1)
    merged = e.op("Concat", batches, e.slice(shape, batch_dims, INT64_MAX, 0), axis=0)
    rows = e.op("Shape", update)
    rows = e.op("Concat", all_of, e.slice(rows, batch_dims, INT64_MAX, 0), axis=0)
    return e.op("Reshape", _scatter_rows(e, merged, full, e.op("Reshape", update, rows)), shape)


@contrib("SliceGrad", "dY shape starts ends axes? steps?")
def slice_grad(e: Expansion) -> Value:
    """Zeros of the shape, with dY where the slice was: the same slice of the indices of all elements says where."""
    shape = e.operand("shape")
    indices = e.op("Reshape", e.iota(e.op("ReduceProd", shape, keepdims=1)), shape)
    bounds = [e.operand("starts"), e.operand("ends"), e.input("axes"), e.input("steps")]
    return scatter_elements(e, shape, e.op("Slice", indices, *bounds), e.operand("dY"), "none")


@contrib("ReshapeGrad", "X dY", domain=STANDARD)
def reshape_grad(e: Expansion) -> Value:
    """dY in the shape of X."""
    return e.op("Reshape", e.operand("dY"), e.op("Shape", e.operand("X")))


@contrib("ConcatTraining", "inputs+", "axis:i!", outputs=(1, 2))
def concat_training(e: Expansion) -> Sequence[Value]:
    """Concat, and the length of each input along the axis."""
    parts, axis = e.every("inputs"), e.node.int_attr("axis", 0)
    whole = e.op("Concat", *parts, axis=axis)
    return [whole, *([e.op("Concat", *(e.dim(part, axis) for part in parts), axis=0)] if e.has_output(1) else [])]


@contrib("SplitTraining", "input split", "axis:i", outputs=(1, UNBOUNDED))
def split_training(e: Expansion) -> Sequence[Value]:
    """Split; no lengths mean equal ones."""
    x, lengths, count = e.operand("input"), e.operand("split"), len(e.node.outputs)
    axis = e.node.int_attr("axis", 0)
    if lengths.desc.shape == (0,):
        return e.ops("Split", x, outputs=count, axis=axis, num_outputs=count)
    return e.ops("Split", x, lengths, outputs=count, axis=axis)


@contrib("View", "input shapes+", outputs=(1, UNBOUNDED))
def view(e: Expansion) -> Sequence[Value]:
    """The elements of the input, cut into tensors of these shapes."""
    shapes = e.every("shapes")
    if len(shapes) != len(e.node.outputs):
        raise e.invalid(f"has {len(shapes)} shapes and {len(e.node.outputs)} outputs")
    flat = e.reshape(e.operand("input"), (-1,))
    counts = e.op("Concat", *(e.op("ReduceProd", shape, keepdims=1) for shape in shapes), axis=0)
    parts = e.ops("Split", flat, counts, outputs=len(shapes), axis=0)
    return [e.op("Reshape", part, shape) for part, shape in zip(parts, shapes, strict=True)]

"""Lists of tensors: TensorList and TensorArray. A list is one tensor, its elements along the first dim.

A list whose elements have no shape yet is the value of its size, noted in `lists`; the first element that is written
gives it one.
"""

from __future__ import annotations

from typing import Final

from atcpy.ir import DType, Sym, TensorDesc, Value
from atcpy.ir.shape import Dim, Shape, StaticShape
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TensorShapeProto
from atcpy.parsers.tensorflow.tensors import read_shape

# Which input is the list; the first unless it stands here. A TensorArray is read by its flow, its handle is input 0.
_LIST_INPUT: Final = {
    "TensorArrayReadV3": 2,
    "TensorArrayWriteV3": 3,
    "TensorArrayGatherV3": 2,
    "TensorArrayScatterV3": 3,
    "TensorArraySizeV3": 1,
    "TensorArrayConcatV3": 1,
}
# Which input is the shape of the elements; those of a TensorArray have an attribute.
_SHAPE_INPUT: Final = {
    "TensorListReserve": 0,
    "EmptyTensorList": 0,
    "TensorListFromTensor": 1,
    "TensorListStack": 1,
    "TensorListGetItem": 2,
    "TensorListPopBack": 1,
    "TensorListGather": 2,
}

# --- lists whose elements have no shape --------------------------------------------------------


def is_shapeless(b: OpBuilder, value: Value) -> bool:
    """Whether a value is a list whose elements have no shape yet."""
    return value in b.bodies.lists


def list_size(b: OpBuilder, value: Value) -> Value | None:
    """Return the number of elements that a list was created with; None if no value of the graph has it."""
    if is_shapeless(b, value):
        return value
    expand = value.producer
    if expand.op_type != "Expand":
        return None
    shape = expand.operand(1)
    return shape.producer.operand(0) if shape.producer.op_type == "Concat" else shape


def give_shape(b: OpBuilder, value: Value, shape: Shape) -> Value | None:
    """Return a list that had no shape as zeros of this one, whose symbols are sizes of values in the graph; None if
    one of them is not.
    """
    sizes = [_find_size(b, dim) for dim in shape]
    found = [size for size in sizes if size is not None]
    if len(found) < len(sizes):
        return None
    return _with_shape(_zeros(b, b.bodies.lists[value], value, *found), shape)


def give_shape_of(b: OpBuilder, value: Value, other: Value) -> Value:
    """Return a list that had no shape as zeros like the elements of another list."""
    return _with_shape(_zeros(b, b.bodies.lists[value], value, b.op("Shape", other, start=1)), b.shape_of(other)[1:])


def _with_shape(created: Value, shape: Shape) -> Value:
    """A list whose elements are known to have this shape, which inference may not have followed."""
    count = created.desc.shape[0] if created.desc.shape else Sym(f"{created.name}.0")
    created.desc = TensorDesc.plain(created.desc.dtype, (count, *shape))
    return created


def _find_size(b: OpBuilder, dim: Dim) -> Value | None:
    """The size of a dim as one element; None if no value of the graph has it."""
    if not isinstance(dim, Sym):
        return b.const([dim])
    nodes = reversed(list(b.graph.nodes))
    values = [*b.inputs, *[value for node in nodes for value in (*node.outputs, *node.inputs) if value is not None]]
    for value in values:
        shape = value.desc.shape or ()
        if dim in shape and not is_shapeless(b, value):
            axis = shape.index(dim)
            return b.op("Shape", value, start=axis, end=axis + 1)
    return None


def _is_array(b: OpBuilder) -> bool:
    return b.node.op.startswith("TensorArray")


def _elements(b: OpBuilder, item: Value | None = None) -> Value:
    """The list that a node reads; one whose elements have no shape gets that of an item, or that the node names."""
    value = b.input(_LIST_INPUT.get(b.node.op, 0))
    if not is_shapeless(b, value):
        return value
    dtype = b.bodies.lists[value]
    if item is not None:
        shape = b.shape_of(item)
        return _with_shape(_zeros(b, dtype, value, *([b.op("Shape", item)] if shape else [])), shape)
    named = _element_shape(b)
    if named is None:
        raise b.unsupported("a list that is read before it is written to, whose elements have no shape")
    return _zeros(b, dtype, value, *([b.const(named)] if named else []))


def _element_shape(b: OpBuilder) -> StaticShape | None:
    """The shape that a node says the elements have; None if it is not known."""
    index = _SHAPE_INPUT.get(b.node.op)
    shape: StaticShape | None = None
    if index is None:
        proto = b.attr("element_shape")
        shape = read_shape(proto) if isinstance(proto, TensorShapeProto) else None
    elif b.shape(index) != () and b.is_constant(index):  # a scalar −1 is any shape
        shape = b.ints(index)
    return None if shape is None or min(shape, default=0) < 0 else shape


# --- operations on the tensor that a list is -----------------------------------------------------


def _new_list(b: OpBuilder, size: Value, dtype: DType) -> Value:
    """A list of zeros; that of its size where the shape of its elements is not known."""
    size, shape = b.reshape(b.cast(size, DType.INT64), [1]), _element_shape(b)
    if shape is None:
        b.bodies.lists[size] = dtype
        return size
    return _zeros(b, dtype, size, *([b.const(shape)] if shape else []))


def _zeros(b: OpBuilder, dtype: DType, *sizes: Value) -> Value:
    """Zeros of a shape that is given in parts."""
    shape = b.op("Concat", *sizes, axis=0) if len(sizes) > 1 else sizes[0]
    return b.op("Expand", b.const(0, dtype), shape)


def _zeros_like_elements(b: OpBuilder, elements: Value, count: Value) -> Value:
    return _zeros(b, elements.desc.dtype, count, b.op("Shape", elements, start=1))


def _count(b: OpBuilder, value: Value) -> Value:
    """The number of elements, as one element."""
    return value if is_shapeless(b, value) else b.op("Shape", value, start=0, end=1)


def _resized(b: OpBuilder, elements: Value, size: Value) -> Value:
    """The first `size` elements, zeros behind those that there are."""
    cut = b.slice(elements, 0, size, 0)
    missing = b.op("Max", b.op("Sub", size, _count(b, elements)), b.const([0]))
    return b.op("Concat", cut, _zeros_like_elements(b, elements, missing), axis=0)


def _scattered(b: OpBuilder, elements: Value, indices: Value, items: Value) -> Value:
    """The list with items at some indices; at all of them in their order they are the list."""
    if _are_all(b, indices, b.dim_of(elements, 0)):
        return items
    return b.op("ScatterND", elements, b.unsqueeze(b.cast(indices, DType.INT64), 1), items)


def _size_for(b: OpBuilder, indices: Value) -> Value:
    """The highest index and one."""
    return b.op("Add", b.op("ReduceMax", b.cast(indices, DType.INT64), b.const([0]), keepdims=1), b.const([1]))


def _are_all(b: OpBuilder, indices: Value, count: Dim) -> bool:
    """Whether indices are 0, 1, … count − 1."""
    while indices.producer.op_type == "Cast":
        indices = indices.producer.operand(0)
    known = b.known(indices)
    if known is not None and all(isinstance(item, int) for item in known):
        return known == tuple(range(len(known))) and len(known) == count
    if indices.producer.op_type != "Range":
        return False
    start, limit, step = (b.known(value) for value in indices.producer.inputs)
    return (start, limit, step) == ((0,), (count,), (1,))


# --- TensorList and TensorArray ----------------------------------------------------------------


@maps("TensorListReserve")
def reserve(b: OpBuilder) -> Value:
    """A tensor of zeros; elements of unknown shape get that of the first that is written"""
    return _new_list(b, b.input(1), b.dtype_attr("element_dtype"))


@maps("EmptyTensorList")
def empty(b: OpBuilder) -> Value:
    """A tensor whose first dim is 0"""
    return _new_list(b, b.const(0), b.dtype_attr("element_dtype"))


@maps("TensorArrayV3")
def array(b: OpBuilder) -> list[Value | None]:
    """As TensorListReserve; the flow is the list"""
    created = _new_list(b, b.input(0), b.dtype_attr("dtype"))
    if b.bool_attr("dynamic_size"):
        b.bodies.growing.add(created)
    return [created, created]


@maps("TensorListFromTensor", "TensorListStack")
def from_tensor(b: OpBuilder) -> Value:
    """The tensor itself"""
    return _elements(b)


@maps("TensorListGetItem", "TensorArrayReadV3")
def get_item(b: OpBuilder) -> Value:
    """Gather"""
    return b.op("Gather", _elements(b), b.input(1), axis=0)


@maps("TensorListSetItem", "TensorArrayWriteV3")
def set_item(b: OpBuilder) -> Value:
    """ScatterND"""
    item = b.input(2)
    elements, index = _elements(b, item), b.size_input(1)
    if b.bool_attr("resize_if_index_out_of_bounds") or b.input(0) in b.bodies.growing:
        size = b.op("Max", b.op("Add", index, b.const([1])), _count(b, elements))
        elements = _resized(b, elements, size)
    return b.op("ScatterND", elements, index, item)


@maps("TensorListLength", "TensorArraySizeV3")
def length(b: OpBuilder) -> Value:
    """The first dim"""
    return b.cast(b.reshape(_count(b, b.input(_LIST_INPUT.get(b.node.op, 0))), []), DType.INT32)


@maps("TensorListElementShape")
def element_shape(b: OpBuilder) -> Value:
    """Shape without the first dim"""
    return b.cast(b.op("Shape", _elements(b), start=1), b.dtype_attr("shape_type"))


@maps("TensorListResize")
def resize(b: OpBuilder) -> Value:
    """Slice, and Concat with zeros"""
    size, value = b.size_input(1), b.input(0)
    if is_shapeless(b, value):
        b.bodies.lists[size] = b.bodies.lists[value]
        return size
    return _resized(b, value, size)


@maps("TensorListPushBack")
def push_back(b: OpBuilder) -> Value:
    """Concat"""
    item = b.input(1)
    return b.op("Concat", _elements(b, item), b.unsqueeze(item, 0), axis=0)


@maps("TensorListPopBack")
def pop_back(b: OpBuilder) -> list[Value | None]:
    """Slice, Gather"""
    elements = _elements(b)
    rest = b.slice(elements, 0, -1, 0)
    return [rest, b.op("Gather", elements, b.const(-1), axis=0)]


@maps("TensorListGather", "TensorArrayGatherV3")
def gather(b: OpBuilder) -> Value:
    """Gather; nothing if it is all"""
    elements, indices = _elements(b), b.input(1)
    return elements if _are_all(b, indices, b.dim_of(elements, 0)) else b.op("Gather", elements, indices, axis=0)


@maps("TensorListScatter", "TensorListScatterV2")
def scatter(b: OpBuilder) -> Value:
    """ScatterND on zeros"""
    items, indices = b.input(0), b.input(1)
    if b.node.op == "TensorListScatterV2" and not (b.is_constant(3) and b.ints(3) == (-1,)):
        size = b.size_input(3)
    elif _are_all(b, indices, b.dim_of(items, 0)):
        return items
    else:
        size = _size_for(b, indices)
    return _scattered(b, _zeros_like_elements(b, items, size), indices, items)


@maps("TensorListScatterIntoExistingList", "TensorArrayScatterV3")
def scatter_into(b: OpBuilder) -> Value:
    """ScatterND; nothing if it is all"""
    value = b.input(_LIST_INPUT.get(b.node.op, 0))
    items, indices = (b.input(2), b.input(1)) if _is_array(b) else (b.input(1), b.input(2))
    elements, grows = value, b.input(0) in b.bodies.growing
    if grows and b.known(_count(b, value)) == (0,) and _are_all(b, indices, b.dim_of(items, 0)):
        return items
    if is_shapeless(b, value):
        elements = _zeros_like_elements(b, items, value)
    if grows:
        elements = _resized(b, elements, b.op("Max", _size_for(b, indices), _count(b, elements)))
    return _scattered(b, elements, indices, items)


@maps("TensorListConcat", "TensorListConcatV2", "TensorArrayConcatV3")
def join(b: OpBuilder) -> list[Value | None]:
    """Reshape: all elements have one shape here"""
    elements = _elements(b)
    if len(b.shape_of(elements)) < 2:
        raise b.invalid("it joins elements that are scalars")
    rest = b.op("Shape", elements, start=2)
    joined = b.op("Reshape", elements, b.op("Concat", b.const([-1]), rest, axis=0))
    lengths = b.op("Expand", b.op("Shape", elements, start=1, end=2), b.op("Shape", elements, start=0, end=1))
    return [joined, lengths]


@maps("TensorListSplit", "TensorArraySplitV3")
def split(b: OpBuilder) -> Value:
    """Reshape: all lengths must be equal"""
    tensor, lengths = b.input(1 if _is_array(b) else 0), b.ints(2)
    if len(set(lengths)) != 1:
        raise b.unsupported(f"a list of pieces of different lengths: {list(lengths)}")
    rest = b.op("Shape", tensor, start=1)
    return b.op("Reshape", tensor, b.op("Concat", b.const([len(lengths), lengths[0]]), rest, axis=0), allowzero=1)


@maps("TensorArrayCloseV3")
def array_close(_op: OpBuilder) -> list[Value | None]:
    """Nothing"""
    return []

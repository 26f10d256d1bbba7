"""Lists of tensors: TensorList and TensorArray. A list is one tensor, its elements along the first dim.

A list whose elements have no shape yet is the value of its size, noted in `lists`; the first element that is written
gives it one.
"""

from __future__ import annotations

from atcpy.ir import DType, Sym, TensorDesc, Value
from atcpy.ir.shape import Dim, Shape, StaticShape
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TensorShapeProto
from atcpy.parsers.tensorflow.tensors import read_shape

# --- the shape of elements ---------------------------------------------------------------------


def is_shapeless(b: OpBuilder, value: Value) -> bool:
    """Is it a list whose elements have no shape yet?"""
    return value in b.bodies.lists


def list_size(b: OpBuilder, value: Value) -> Value | None:
    """The number of elements that a list was made with, if one can be named."""
    if is_shapeless(b, value):
        return value
    made = value.producer
    if made.op_type != "Expand":
        return None
    shape = made.operand(1)
    return shape.producer.operand(0) if shape.producer.op_type == "Concat" else shape


def give_shape(b: OpBuilder, value: Value, shape: Shape) -> Value | None:
    """A list that had no shape, of zeros of this one, whose symbols are sizes of what is in the graph; None if one of
    them is not.
    """
    sizes = [_size(b, dim) for dim in shape]
    found = [size for size in sizes if size is not None]
    if len(found) < len(sizes):
        return None
    return _shaped(_zeros(b, b.bodies.lists[value], b.op("Concat", value, *found, axis=0)), shape)


def give_shape_of(b: OpBuilder, value: Value, other: Value) -> Value:
    """A list that had no shape, of zeros like the elements of another list."""
    full = b.op("Concat", value, b.op("Shape", other, start=1), axis=0)
    return _shaped(_zeros(b, b.bodies.lists[value], full), b.shape_of(other)[1:])


def _shaped(made: Value, shape: Shape) -> Value:
    """A list whose elements are known to have this shape: inference of shapes may have lost it on the way."""
    count = made.desc.shape[0] if made.desc.shape else Sym(f"{made.name}.0")
    made.desc = TensorDesc.plain(made.desc.dtype, (count, *shape))
    return made


def _size(b: OpBuilder, dim: Dim) -> Value | None:
    """The size of a dim when the model runs, as one element; None if nothing here has it."""
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


def _zeros(b: OpBuilder, dtype: DType, shape: Value) -> Value:
    return b.op("Expand", b.const(0, dtype), shape)


def _new(b: OpBuilder, size: Value, shape: StaticShape | None, dtype: DType) -> Value:
    """A list of zeros, or of none yet where a size of their elements is not known."""
    size = b.reshape(b.cast(size, DType.INT64), [1])
    if shape is None or any(dim < 0 for dim in shape):
        b.bodies.lists[size] = dtype
        return size
    return _zeros(b, dtype, b.op("Concat", size, b.const(shape), axis=0) if shape else size)


def _shape_input(b: OpBuilder, place: int) -> StaticShape | None:
    """The shape that an input says; None for −1, which is any."""
    if b.shape(place) == () or not b.is_constant(place):
        return None
    return b.ints(place)


def _held(b: OpBuilder, place: int, item: Value | None = None, shape: StaticShape | None = None) -> Value:
    """A list with elements: one without takes its shape from an item, or from what is said of it."""
    value = b.input(place)
    if not is_shapeless(b, value):
        return value
    if item is not None:
        shape_of_item = b.shape_of(item)
        full = b.op("Concat", value, b.op("Shape", item), axis=0) if shape_of_item else value
        return _shaped(_zeros(b, b.bodies.lists[value], full), shape_of_item)
    if shape is None or any(dim < 0 for dim in shape):
        raise b.unsupported("a list that is read before it is written to, whose elements have no shape")
    return _zeros(b, b.bodies.lists[value], b.op("Concat", value, b.const(shape), axis=0) if shape else value)


# --- what can be done with them ------------------------------------------------------------------


def _count(b: OpBuilder, value: Value) -> Value:
    """The number of elements, as one element."""
    return value if is_shapeless(b, value) else b.op("Shape", value, start=0, end=1)


def _length(b: OpBuilder, value: Value) -> Value:
    return b.cast(b.reshape(_count(b, value), []), DType.INT32)


def _resized(b: OpBuilder, held: Value, size: Value) -> Value:
    """The first `size` elements, zeros behind those that there are."""
    cut = b.op("Slice", held, b.const([0]), size, b.const([0]))
    missing = b.op("Max", b.op("Sub", size, _count(b, held)), b.const([0]))
    return b.op("Concat", cut, _zeros_like_items(b, held, missing), axis=0)


def _zeros_like_items(b: OpBuilder, held: Value, count: Value) -> Value:
    rest = b.op("Shape", held, start=1)
    return _zeros(b, held.desc.dtype, b.op("Concat", count, rest, axis=0))


def _put(b: OpBuilder, held: Value, index: Value, item: Value, *, grows: bool) -> Value:
    place = b.reshape(b.cast(index, DType.INT64), [1])
    if grows:
        needed = b.op("Max", b.op("Add", place, b.const([1])), _count(b, held))
        held = _resized(b, held, needed)
    return b.op("ScatterND", held, place, item)


def _taken(b: OpBuilder, held: Value, indices: Value) -> Value:
    """The elements at some indices; all of them in their order are the list."""
    return held if _are_all(b, indices, b.shape_of(held)[0]) else b.op("Gather", held, indices, axis=0)


def _spread(b: OpBuilder, held: Value, indices: Value, items: Value) -> Value:
    """The list with items at some indices; at all of them in their order they are the list."""
    if _are_all(b, indices, b.shape_of(held)[0]):
        return items
    places = b.unsqueeze(b.cast(indices, DType.INT64), 1)
    return b.op("ScatterND", held, places, items)


def _are_all(b: OpBuilder, indices: Value, count: Dim) -> bool:
    """Are these 0, 1, … count − 1?"""
    while indices.producer.op_type == "Cast":
        indices = indices.producer.operand(0)
    known = b.known(indices)
    if known is not None and all(isinstance(item, int) for item in known):
        return known == tuple(range(len(known))) and len(known) == count
    if indices.producer.op_type != "Range":
        return False
    start, limit, step = (b.known(value) for value in indices.producer.inputs)
    return (start, limit, step) == ((0,), (count,), (1,))


def _joined(b: OpBuilder, held: Value) -> list[Value | None]:
    """The elements one behind the other, and their lengths."""
    shape = b.shape_of(held)
    if len(shape) < 2:
        raise b.invalid("it joins elements that are scalars")
    rest = b.op("Shape", held, start=2)
    joined = b.op("Reshape", held, b.op("Concat", b.const([-1]), rest, axis=0))
    lengths = b.op("Expand", b.op("Shape", held, start=1, end=2), b.op("Shape", held, start=0, end=1))
    return [joined, lengths]


def _cut(b: OpBuilder, tensor: Value, place: int) -> Value:
    """A tensor cut into pieces of the lengths that an input says, which must be equal."""
    lengths = b.ints(place)
    if len(set(lengths)) != 1:
        raise b.unsupported(f"a list of pieces of different lengths: {list(lengths)}")
    rest = b.op("Shape", tensor, start=1)
    return b.op("Reshape", tensor, b.op("Concat", b.const([len(lengths), lengths[0]]), rest, axis=0), allowzero=1)


# --- TensorList --------------------------------------------------------------------------------


@maps("TensorListReserve")
def reserve(b: OpBuilder) -> Value:
    """A tensor of zeros; elements of unknown shape get that of the first that is written"""
    return _new(b, b.input(1), _shape_input(b, 0), b.dtype_attr("element_dtype"))


@maps("EmptyTensorList")
def empty(b: OpBuilder) -> Value:
    """A tensor whose first dim is 0"""
    return _new(b, b.const(0), _shape_input(b, 0), b.dtype_attr("element_dtype"))


@maps("TensorListFromTensor", "TensorListStack")
def from_tensor(b: OpBuilder) -> Value:
    """The tensor itself"""
    return _held(b, 0, shape=_shape_input(b, 1))


@maps("TensorListGetItem")
def get_item(b: OpBuilder) -> Value:
    """Gather"""
    return b.op("Gather", _held(b, 0, shape=_shape_input(b, 2)), b.input(1), axis=0)


@maps("TensorListSetItem")
def set_item(b: OpBuilder) -> Value:
    """ScatterND"""
    item, grows = b.input(2), b.bool_attr("resize_if_index_out_of_bounds")
    return _put(b, _held(b, 0, item), b.input(1), item, grows=grows)


@maps("TensorListLength")
def length(b: OpBuilder) -> Value:
    """The first dim"""
    return _length(b, b.input(0))


@maps("TensorListElementShape")
def element_shape(b: OpBuilder) -> Value:
    """Shape without the first dim"""
    return b.cast(b.op("Shape", _held(b, 0), start=1), b.dtype_attr("shape_type"))


@maps("TensorListResize")
def resize(b: OpBuilder) -> Value:
    """Slice, and Concat with zeros"""
    size = b.size_input(1)
    value = b.input(0)
    if is_shapeless(b, value):
        b.bodies.lists[size] = b.bodies.lists[value]
        return size
    return _resized(b, value, size)


@maps("TensorListPushBack")
def push_back(b: OpBuilder) -> Value:
    """Concat"""
    item = b.input(1)
    return b.op("Concat", _held(b, 0, item), b.unsqueeze(item, 0), axis=0)


@maps("TensorListPopBack")
def pop_back(b: OpBuilder) -> list[Value | None]:
    """Slice, Gather"""
    held = _held(b, 0, shape=_shape_input(b, 1))
    rest = b.op("Slice", held, b.const([0]), b.const([-1]), b.const([0]))
    return [rest, b.op("Gather", held, b.const(-1), axis=0)]


@maps("TensorListGather")
def gather(b: OpBuilder) -> Value:
    """Gather; nothing if it is all"""
    return _taken(b, _held(b, 0, shape=_shape_input(b, 2)), b.input(1))


@maps("TensorListScatter", "TensorListScatterV2")
def scatter(b: OpBuilder) -> Value:
    """ScatterND on zeros"""
    items, indices = b.input(0), b.input(1)
    size: Value | None = None
    if b.node.op == "TensorListScatterV2" and not (b.is_constant(3) and b.ints(3) == (-1,)):
        size = b.size_input(3)
    if size is None:
        highest = b.op("ReduceMax", b.cast(indices, DType.INT64), b.const([0]), keepdims=1)
        size = b.op("Add", highest, b.const([1]))
        if _are_all(b, indices, b.shape_of(items)[0]):
            return items
    return _spread(b, _zeros_like_items(b, items, size), indices, items)


@maps("TensorListScatterIntoExistingList")
def scatter_into(b: OpBuilder) -> Value:
    """ScatterND; nothing if it is all"""
    items, indices = b.input(1), b.input(2)
    value = b.input(0)
    held = _zeros_like_items(b, items, value) if is_shapeless(b, value) else value
    return _spread(b, held, indices, items)


@maps("TensorListConcat", "TensorListConcatV2")
def join(b: OpBuilder) -> list[Value | None]:
    """Reshape: all elements have one shape here"""
    return _joined(b, _held(b, 0))


@maps("TensorListSplit")
def split(b: OpBuilder) -> Value:
    """Reshape: all lengths must be equal"""
    return _cut(b, b.input(0), 2)


# --- TensorArray -------------------------------------------------------------------------------
# The list goes along the flow; the handle says which array it was made by.


@maps("TensorArrayV3")
def array(b: OpBuilder) -> list[Value | None]:
    """As TensorListReserve; the flow is the list"""
    proto = b.attr("element_shape")
    shape = read_shape(proto) if isinstance(proto, TensorShapeProto) else None
    made = _new(b, b.input(0), shape, b.dtype_attr("dtype"))
    if b.bool_attr("dynamic_size"):
        b.bodies.growing.add(made)
    return [made, made]


@maps("TensorArrayReadV3")
def array_read(b: OpBuilder) -> Value:
    """Gather"""
    return b.op("Gather", _held(b, 2), b.input(1), axis=0)


@maps("TensorArrayWriteV3")
def array_write(b: OpBuilder) -> Value:
    """ScatterND"""
    item = b.input(2)
    return _put(b, _held(b, 3, item), b.input(1), item, grows=b.input(0) in b.bodies.growing)


@maps("TensorArrayGatherV3")
def array_gather(b: OpBuilder) -> Value:
    """Gather; nothing if it is all"""
    proto = b.attr("element_shape")
    shape = read_shape(proto) if isinstance(proto, TensorShapeProto) else None
    return _taken(b, _held(b, 2, shape=shape), b.input(1))


@maps("TensorArrayScatterV3")
def array_scatter(b: OpBuilder) -> Value:
    """ScatterND; nothing if it is all"""
    items, indices, value = b.input(2), b.input(1), b.input(3)
    grows = b.input(0) in b.bodies.growing
    count = b.known(_count(b, value))
    if grows and count == (0,) and _are_all(b, indices, b.shape_of(items)[0]):
        return items
    held = _zeros_like_items(b, items, value) if is_shapeless(b, value) else value
    if grows:
        highest = b.op("ReduceMax", b.cast(indices, DType.INT64), b.const([0]), keepdims=1)
        held = _resized(b, held, b.op("Max", b.op("Add", highest, b.const([1])), _count(b, held)))
    return _spread(b, held, indices, items)


@maps("TensorArraySizeV3")
def array_size(b: OpBuilder) -> Value:
    """The first dim"""
    return _length(b, b.input(1))


@maps("TensorArrayConcatV3")
def array_concat(b: OpBuilder) -> list[Value | None]:
    """Reshape: all elements have one shape here"""
    return _joined(b, _held(b, 1))


@maps("TensorArraySplitV3")
def array_split(b: OpBuilder) -> Value:
    """Reshape: all lengths must be equal"""
    return _cut(b, b.input(1), 2)


@maps("TensorArrayCloseV3")
def array_close(_op: OpBuilder) -> list[Value | None]:
    """Nothing"""
    return []

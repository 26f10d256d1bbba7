"""Lists of tensors: TensorList and TensorArray. A list is one tensor, its elements along the first dim.

A list whose elements have no shape yet is the value of its size, noted in `lists`; the first element that is written
gives it one.
"""

from __future__ import annotations

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Sym, TensorDesc, Value
from atcpy.ir.shape import Dim, Shape, StaticShape
from atcpy.parsers.tensorflow.op import Op, maps
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TensorShapeProto
from atcpy.parsers.tensorflow.tensors import read_shape

# --- the shape of elements ---------------------------------------------------------------------


def is_shapeless(op: Op, value: Value) -> bool:
    """Is it a list whose elements have no shape yet?"""
    return value in op.bodies.lists


def list_size(op: Op, value: Value) -> Value | None:
    """The number of elements that a list was made with, if one can be named."""
    if is_shapeless(op, value):
        return value
    made = value.producer
    if made.op_type != "Expand":
        return None
    shape = made.operand(1)
    return shape.producer.operand(0) if shape.producer.op_type == "Concat" else shape


def give_shape(op: Op, value: Value, shape: Shape) -> Value | None:
    """A list that had no shape, of zeros of this one, whose symbols are sizes of what is in the graph; None if one of
    them is not.
    """
    sizes = [_size(op, dim) for dim in shape]
    found = [size for size in sizes if size is not None]
    if len(found) < len(sizes):
        return None
    return _shaped(_zeros(op, op.bodies.lists[value], op.add("Concat", value, *found, axis=0)), shape)


def give_shape_of(op: Op, value: Value, other: Value) -> Value:
    """A list that had no shape, of zeros like the elements of another list."""
    full = op.add("Concat", value, op.add("Shape", other, start=1), axis=0)
    return _shaped(_zeros(op, op.bodies.lists[value], full), op.shape_of(other)[1:])


def _shaped(made: Value, shape: Shape) -> Value:
    """A list whose elements are known to have this shape: inference of shapes may have lost it on the way."""
    count = made.desc.shape[0] if made.desc.shape else Sym(f"{made.name}.0")
    made.desc = TensorDesc.plain(made.desc.dtype, (count, *shape))
    return made


def _size(op: Op, dim: Dim) -> Value | None:
    """The size of a dim when the model runs, as one element; None if nothing here has it."""
    if not isinstance(dim, Sym):
        return op.const([dim])
    nodes = reversed(list(op.graph.nodes))
    values = [*op.inputs, *[value for node in nodes for value in (*node.outputs, *node.inputs) if value is not None]]
    for value in values:
        shape = value.desc.shape or ()
        if dim in shape and not is_shapeless(op, value):
            axis = shape.index(dim)
            return op.add("Shape", value, start=axis, end=axis + 1)
    return None


def _zeros(op: Op, dtype: DType, shape: Value) -> Value:
    return op.add("Expand", op.const(0, dtype), shape)


def _new(op: Op, size: Value, shape: StaticShape | None, dtype: DType) -> Value:
    """A list of zeros, or of none yet where a size of their elements is not known."""
    size = op.reshape(op.cast(size, DType.INT64), [1])
    if shape is None or any(dim < 0 for dim in shape):
        op.bodies.lists[size] = dtype
        return size
    return _zeros(op, dtype, op.add("Concat", size, op.const(shape), axis=0) if shape else size)


def _shape_input(op: Op, place: int) -> StaticShape | None:
    """The shape that an input says; None for −1, which is any."""
    if op.shape(place) == () or not op.is_constant(place):
        return None
    return op.ints(place)


def _held(op: Op, place: int, item: Value | None = None, shape: StaticShape | None = None) -> Value:
    """A list with elements: one without takes its shape from an item, or from what is said of it."""
    value = op.input(place)
    if not is_shapeless(op, value):
        return value
    if item is not None:
        shape_of_item = op.shape_of(item)
        full = op.add("Concat", value, op.add("Shape", item), axis=0) if shape_of_item else value
        return _shaped(_zeros(op, op.bodies.lists[value], full), shape_of_item)
    if shape is None or any(dim < 0 for dim in shape):
        raise op.refuse("a list that is read before it is written to, whose elements have no shape")
    return _zeros(op, op.bodies.lists[value], op.add("Concat", value, op.const(shape), axis=0) if shape else value)


# --- what can be done with them ------------------------------------------------------------------


def _count(op: Op, value: Value) -> Value:
    """The number of elements, as one element."""
    return value if is_shapeless(op, value) else op.add("Shape", value, start=0, end=1)


def _length(op: Op, value: Value) -> Value:
    return op.cast(op.reshape(_count(op, value), []), DType.INT32)


def _resized(op: Op, held: Value, size: Value) -> Value:
    """The first `size` elements, zeros behind those that there are."""
    cut = op.add("Slice", held, op.const([0]), size, op.const([0]))
    missing = op.add("Max", op.add("Sub", size, _count(op, held)), op.const([0]))
    return op.add("Concat", cut, _zeros_like_items(op, held, missing), axis=0)


def _zeros_like_items(op: Op, held: Value, count: Value) -> Value:
    rest = op.add("Shape", held, start=1)
    return _zeros(op, held.desc.dtype, op.add("Concat", count, rest, axis=0))


def _put(op: Op, held: Value, index: Value, item: Value, *, grows: bool) -> Value:
    place = op.reshape(op.cast(index, DType.INT64), [1])
    if grows:
        needed = op.add("Max", op.add("Add", place, op.const([1])), _count(op, held))
        held = _resized(op, held, needed)
    return op.add("ScatterND", held, place, item)


def _taken(op: Op, held: Value, indices: Value) -> Value:
    """The elements at some indices; all of them in their order are the list."""
    return held if _are_all(op, indices, op.shape_of(held)[0]) else op.add("Gather", held, indices, axis=0)


def _spread(op: Op, held: Value, indices: Value, items: Value) -> Value:
    """The list with items at some indices; at all of them in their order they are the list."""
    if _are_all(op, indices, op.shape_of(held)[0]):
        return items
    places = op.unsqueeze(op.cast(indices, DType.INT64), 1)
    return op.add("ScatterND", held, places, items)


def _are_all(op: Op, indices: Value, count: Dim) -> bool:
    """Are these 0, 1, … count − 1?"""
    while indices.producer.op_type == "Cast":
        indices = indices.producer.operand(0)
    known = op.known(indices)
    if known is not None and all(isinstance(item, int) for item in known):
        return known == tuple(range(len(known))) and len(known) == count
    if indices.producer.op_type != "Range":
        return False
    start, limit, step = (op.known(value) for value in indices.producer.inputs)
    return (start, limit, step) == ((0,), (count,), (1,))


def _joined(op: Op, held: Value) -> list[Value | None]:
    """The elements one behind the other, and their lengths."""
    shape = op.shape_of(held)
    if len(shape) < 2:
        raise ModelInvalid("E13014", "it joins elements that are scalars", where=op.where)
    rest = op.add("Shape", held, start=2)
    joined = op.add("Reshape", held, op.add("Concat", op.const([-1]), rest, axis=0))
    lengths = op.add("Expand", op.add("Shape", held, start=1, end=2), op.add("Shape", held, start=0, end=1))
    return [joined, lengths]


def _cut(op: Op, tensor: Value, place: int) -> Value:
    """A tensor cut into pieces of the lengths that an input says, which must be equal."""
    lengths = op.ints(place)
    if len(set(lengths)) != 1:
        raise op.refuse(f"a list of pieces of different lengths: {list(lengths)}")
    rest = op.add("Shape", tensor, start=1)
    return op.add("Reshape", tensor, op.add("Concat", op.const([len(lengths), lengths[0]]), rest, axis=0), allowzero=1)


# --- TensorList --------------------------------------------------------------------------------


@maps("TensorListReserve")
def reserve(op: Op) -> Value:
    """A tensor of zeros; elements of unknown shape get that of the first that is written"""
    return _new(op, op.input(1), _shape_input(op, 0), op.dtype_attr("element_dtype"))


@maps("EmptyTensorList")
def empty(op: Op) -> Value:
    """A tensor whose first dim is 0"""
    return _new(op, op.const(0), _shape_input(op, 0), op.dtype_attr("element_dtype"))


@maps("TensorListFromTensor", "TensorListStack")
def from_tensor(op: Op) -> Value:
    """The tensor itself"""
    return _held(op, 0, shape=_shape_input(op, 1))


@maps("TensorListGetItem")
def get_item(op: Op) -> Value:
    """Gather"""
    return op.add("Gather", _held(op, 0, shape=_shape_input(op, 2)), op.input(1), axis=0)


@maps("TensorListSetItem")
def set_item(op: Op) -> Value:
    """ScatterND"""
    item, grows = op.input(2), op.bool_attr("resize_if_index_out_of_bounds")
    return _put(op, _held(op, 0, item), op.input(1), item, grows=grows)


@maps("TensorListLength")
def length(op: Op) -> Value:
    """The first dim"""
    return _length(op, op.input(0))


@maps("TensorListElementShape")
def element_shape(op: Op) -> Value:
    """Shape without the first dim"""
    return op.cast(op.add("Shape", _held(op, 0), start=1), op.dtype_attr("shape_type"))


@maps("TensorListResize")
def resize(op: Op) -> Value:
    """Slice, and Concat with zeros"""
    size = op.reshape(op.cast(op.input(1), DType.INT64), [1])
    value = op.input(0)
    if is_shapeless(op, value):
        op.bodies.lists[size] = op.bodies.lists[value]
        return size
    return _resized(op, value, size)


@maps("TensorListPushBack")
def push_back(op: Op) -> Value:
    """Concat"""
    item = op.input(1)
    return op.add("Concat", _held(op, 0, item), op.unsqueeze(item, 0), axis=0)


@maps("TensorListPopBack")
def pop_back(op: Op) -> list[Value | None]:
    """Slice, Gather"""
    held = _held(op, 0, shape=_shape_input(op, 1))
    rest = op.add("Slice", held, op.const([0]), op.const([-1]), op.const([0]))
    return [rest, op.add("Gather", held, op.const(-1), axis=0)]


@maps("TensorListGather")
def gather(op: Op) -> Value:
    """Gather; nothing if it is all"""
    return _taken(op, _held(op, 0, shape=_shape_input(op, 2)), op.input(1))


@maps("TensorListScatter", "TensorListScatterV2")
def scatter(op: Op) -> Value:
    """ScatterND on zeros"""
    items, indices = op.input(0), op.input(1)
    size: Value | None = None
    if op.node.op == "TensorListScatterV2" and not (op.is_constant(3) and op.ints(3) == (-1,)):
        size = op.reshape(op.cast(op.input(3), DType.INT64), [1])
    if size is None:
        highest = op.add("ReduceMax", op.cast(indices, DType.INT64), op.const([0]), keepdims=1)
        size = op.add("Add", highest, op.const([1]))
        if _are_all(op, indices, op.shape_of(items)[0]):
            return items
    return _spread(op, _zeros_like_items(op, items, size), indices, items)


@maps("TensorListScatterIntoExistingList")
def scatter_into(op: Op) -> Value:
    """ScatterND; nothing if it is all"""
    items, indices = op.input(1), op.input(2)
    value = op.input(0)
    held = _zeros_like_items(op, items, value) if is_shapeless(op, value) else value
    return _spread(op, held, indices, items)


@maps("TensorListConcat", "TensorListConcatV2")
def concat(op: Op) -> list[Value | None]:
    """Reshape: all elements have one shape here"""
    return _joined(op, _held(op, 0))


@maps("TensorListSplit")
def split(op: Op) -> Value:
    """Reshape: all lengths must be equal"""
    return _cut(op, op.input(0), 2)


# --- TensorArray -------------------------------------------------------------------------------
# The list goes along the flow; the handle says which array it was made by.


@maps("TensorArrayV3")
def array(op: Op) -> list[Value | None]:
    """As TensorListReserve; the flow is the list"""
    proto = op.attr("element_shape")
    shape = read_shape(proto) if isinstance(proto, TensorShapeProto) else None
    made = _new(op, op.input(0), shape, op.dtype_attr("dtype"))
    if op.bool_attr("dynamic_size"):
        op.bodies.growing.add(made)
    return [made, made]


@maps("TensorArrayReadV3")
def array_read(op: Op) -> Value:
    """Gather"""
    return op.add("Gather", _held(op, 2), op.input(1), axis=0)


@maps("TensorArrayWriteV3")
def array_write(op: Op) -> Value:
    """ScatterND"""
    item = op.input(2)
    return _put(op, _held(op, 3, item), op.input(1), item, grows=op.input(0) in op.bodies.growing)


@maps("TensorArrayGatherV3")
def array_gather(op: Op) -> Value:
    """Gather; nothing if it is all"""
    proto = op.attr("element_shape")
    shape = read_shape(proto) if isinstance(proto, TensorShapeProto) else None
    return _taken(op, _held(op, 2, shape=shape), op.input(1))


@maps("TensorArrayScatterV3")
def array_scatter(op: Op) -> Value:
    """ScatterND; nothing if it is all"""
    items, indices, value = op.input(2), op.input(1), op.input(3)
    grows = op.input(0) in op.bodies.growing
    count = op.known(_count(op, value))
    if grows and count == (0,) and _are_all(op, indices, op.shape_of(items)[0]):
        return items
    held = _zeros_like_items(op, items, value) if is_shapeless(op, value) else value
    if grows:
        highest = op.add("ReduceMax", op.cast(indices, DType.INT64), op.const([0]), keepdims=1)
        held = _resized(op, held, op.add("Max", op.add("Add", highest, op.const([1])), _count(op, held)))
    return _spread(op, held, indices, items)


@maps("TensorArraySizeV3")
def array_size(op: Op) -> Value:
    """The first dim"""
    return _length(op, op.input(1))


@maps("TensorArrayConcatV3")
def array_concat(op: Op) -> list[Value | None]:
    """Reshape: all elements have one shape here"""
    return _joined(op, _held(op, 1))


@maps("TensorArraySplitV3")
def array_split(op: Op) -> Value:
    """Reshape: all lengths must be equal"""
    return _cut(op, op.input(1), 2)


@maps("TensorArrayCloseV3")
def array_close(_op: Op) -> list[Value | None]:
    """Nothing"""
    return []

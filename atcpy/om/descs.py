"""Types of values: `ir.TensorDesc` and ge.proto's `TensorDescriptor`, back and forth.

The descriptor's own shape and layout describe the value in memory, its `origin_…` attributes the value of the model.
A dim that varies is -1, an unknown rank one dim of -2, as in GE; `dim_names` keeps the names of the first.
"""

from functools import cache

from atcpy.ir import DType, Format, Shape, Sym, TensorDesc, is_static
from atcpy.om import numbers
from atcpy.om.schema.ge_ir_pb2 import AttrDef, ShapeDef, TensorDescriptor
from atcpy.sizes import MAX_DIM, MAX_RANK

_UNKNOWN_DIM = -1
_UNKNOWN_RANK = -2
_VT_INT = AttrDef.ListValue.VT_LIST_INT
_VT_STRING = AttrDef.ListValue.VT_LIST_STRING


@cache
def _number(form: Format) -> int:
    return numbers.format_to_number(form)


def ge_dims(shape: Shape | None) -> list[int]:
    """Dims as GE writes them."""
    if shape is None:
        return [_UNKNOWN_RANK]
    return [dim if isinstance(dim, int) else _UNKNOWN_DIM for dim in shape]


def ge_size(nbytes: int) -> int:
    """GE's size of a tensor: what it needs, 32 bytes for the cube's read-ahead, in blocks of 32."""
    return (nbytes + 32 + 31) // 32 * 32


def desc_to_proto(desc: TensorDesc, *, text_bytes: int | None = None) -> TensorDescriptor:
    """The descriptor of a value of this type, without its name; of a constant of strings that is `text_bytes` long."""
    proto = TensorDescriptor(layout=desc.format.kind.name, device_type="NPU")
    carried = desc.dtype not in numbers.PROTO_DTYPE or text_bytes is not None
    proto.dtype = numbers.PROTO_UINT8 if carried else numbers.PROTO_DTYPE[desc.dtype]  # type: ignore[assignment]
    if desc.dtype is DType.UNDEFINED:
        proto.dtype = numbers.PROTO_VARIANT  # type: ignore[assignment]
    shape = desc.shape if desc.storage_shape is None else desc.storage_shape
    # An empty shape is a scalar's; without the message Netron takes the value for untyped.
    proto.shape.SetInParent()
    packed = carried and desc.dtype.bits < 8 and is_static(shape)
    nbytes = text_bytes if text_bytes is not None else desc.nbytes if is_static(shape) else 0
    proto.shape.dim.extend([nbytes] if packed else ge_dims(shape))
    if is_static(shape):
        proto.size = ge_size(nbytes)
    attr = proto.attr
    attr["format_for_int"].i = _number(desc.format)
    attr["origin_format"].s = desc.origin_format.kind.name.encode()
    attr["origin_format_for_int"].i = _number(desc.origin_format)
    attr["origin_shape_initialized"].b = desc.shape is not None
    if desc.shape is not None:
        origin = attr["origin_shape"].list
        origin.i.extend(ge_dims(desc.shape))
        origin.val_type = _VT_INT
        if not is_static(desc.shape):
            names = attr["dim_names"].list
            names.s.extend(dim.name.encode() if isinstance(dim, Sym) else b"" for dim in desc.shape)
            names.val_type = _VT_STRING
    if packed:
        stored = attr["storage_shape"].list
        stored.i.extend(ge_dims(shape))
        stored.val_type = _VT_INT
    if carried or desc.dtype is DType.UNDEFINED:
        attr["onnx_type"].s = desc.dtype.long.encode()
    return proto


def proto_to_desc(proto: TensorDescriptor) -> TensorDesc:
    """Read a type from a descriptor; ValueError or KeyError if atcpy did not write it."""
    attr = proto.attr
    if "onnx_type" in attr:
        dtype = DType[attr["onnx_type"].s.decode().upper()]
    else:
        dtype = numbers.DTYPE_OF_PROTO[proto.dtype]
    form = numbers.number_to_format(proto.layout, attr["format_for_int"].i)
    origin_format = numbers.number_to_format(attr["origin_format"].s.decode(), attr["origin_format_for_int"].i)
    origin = tuple(attr["origin_shape"].list.i) if "origin_shape" in attr else ()
    shape = _origin_shape(proto, origin)
    stored = tuple(attr["storage_shape"].list.i) if "storage_shape" in attr else tuple(proto.shape.dim)
    for dims in (stored, origin):
        if dims and (len(dims) > MAX_RANK or min(dims) < _UNKNOWN_RANK or max(dims) > MAX_DIM):
            raise ValueError("a shape is outside the limits")
    if shape is None or not is_static(stored) or (form.is_plain and stored == tuple(ge_dims(shape))):
        return TensorDesc(dtype, shape, form, origin_format)
    return TensorDesc(dtype, shape, form, origin_format, stored)


def _origin_shape(proto: TensorDescriptor, dims: tuple[int, ...]) -> Shape | None:
    attr = proto.attr
    if not attr["origin_shape_initialized"].b:
        return None
    if "dim_names" not in attr and all(dim >= 0 for dim in dims):
        return dims
    names = attr["dim_names"].list.s if "dim_names" in attr else [b""] * len(dims)
    return tuple([dim if dim >= 0 else Sym(name.decode()) for dim, name in zip(dims, names, strict=True)])


# Stands for an optional input that is left out.
HOLE = TensorDescriptor(layout="ND", shape=ShapeDef())

"""ValueInfoProto → TensorDesc, and the text of types that are not tensors."""

import onnx

from atcpy.ir import DType, Sym, TensorDesc
from atcpy.ir.desc import UNKNOWN
from atcpy.ir.shape import Dim

_NO_NAMES = frozenset({"", "?", "-1", "None", "none", "unknown"})


def read_desc(info: onnx.ValueInfoProto) -> TensorDesc:
    """The type that a model declares for a value.

    A dim without a name of its own is a symbol of its own, `x.0`: two such dims need not be equal.
    """
    tensor = info.type.tensor_type
    if info.type.WhichOneof("value") != "tensor_type":
        return UNKNOWN
    try:
        dtype = DType.from_onnx(tensor.elem_type)
    except KeyError:
        return UNKNOWN
    if not tensor.HasField("shape"):
        return TensorDesc.plain(dtype, None)
    return TensorDesc.plain(dtype, tuple(_dim(dim, info.name, axis) for axis, dim in enumerate(tensor.shape.dim)))


def _dim(dim: onnx.TensorShapeProto.Dimension, name: str, axis: int) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return Sym(dim_name(dim) or f"{name}.{axis}")


def dim_name(dim: onnx.TensorShapeProto.Dimension) -> str:
    """The name of a dim, empty for one without a name of its own, which some exporters call `?` or `-1`."""
    return "" if dim.dim_param in _NO_NAMES else dim.dim_param


def declared_dtype(proto: onnx.TypeProto) -> DType | None:
    """The element type that a model declares, UNDEFINED for a sequence or a map; None if it declares none of these."""
    kind = proto.WhichOneof("value")
    if kind in ("sequence_type", "map_type"):
        return DType.UNDEFINED
    if kind != "tensor_type" or not proto.tensor_type.elem_type:
        return None
    try:
        return DType.from_onnx(proto.tensor_type.elem_type)
    except KeyError:
        return None


def type_text(proto: onnx.TypeProto) -> str:
    """A type that is no plain tensor, such as `seq(tensor(float))`; empty for a tensor or none."""
    wrappers: list[str] = []
    while True:
        kind = proto.WhichOneof("value")
        if kind == "sequence_type":
            wrappers.append("seq")
            proto = proto.sequence_type.elem_type
        elif kind == "optional_type":
            wrappers.append("optional")
            proto = proto.optional_type.elem_type
        else:
            break
    inner = _innermost(proto)
    if not wrappers and inner.startswith("tensor("):
        return ""
    return "".join(f"{wrapper}(" for wrapper in wrappers) + inner + ")" * len(wrappers)


def _innermost(proto: onnx.TypeProto) -> str:
    kind = proto.WhichOneof("value")
    if kind == "map_type":
        return f"map({_element(proto.map_type.key_type)},{_innermost(proto.map_type.value_type)})"
    if kind == "sparse_tensor_type":
        return f"sparse_tensor({_element(proto.sparse_tensor_type.elem_type)})"
    if kind == "opaque_type":
        return f"opaque({proto.opaque_type.domain},{proto.opaque_type.name})"
    return f"tensor({_element(proto.tensor_type.elem_type)})"


def _element(number: int) -> str:
    return (
        onnx.TensorProto.DataType.Name(number).lower() if number in onnx.TensorProto.DataType.values() else "undefined"
    )

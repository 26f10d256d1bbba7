"""Parses types that are not tensors: `seq(tensor(float))`, `optional(seq(tensor(int64)))`."""

import onnx


def type_from_text(text: str) -> onnx.TypeProto:
    """Parse a type."""
    root = onnx.TypeProto()
    at = root
    while True:
        kind, _, text = text.removesuffix(")").partition("(")
        if kind == "seq":
            at = at.sequence_type.elem_type
        elif kind == "optional":
            at = at.optional_type.elem_type
        elif kind == "map":
            key, _, text = text.partition(",")
            at.map_type.key_type = _number(key)
            at = at.map_type.value_type
        elif kind == "sparse_tensor":
            at.sparse_tensor_type.elem_type = _number(text)
            return root
        elif kind == "opaque":
            at.opaque_type.domain, _, at.opaque_type.name = text.partition(",")
            return root
        else:
            at.tensor_type.elem_type = _number(text)
            return root


def _number(name: str) -> int:
    return onnx.TensorProto.DataType.Value(name.upper())

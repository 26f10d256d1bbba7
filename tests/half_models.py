"""Models of 16-bit floats, made of models of float32."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper, numpy_helper


def to_half(model: onnx.ModelProto, half: int = TensorProto.FLOAT16) -> onnx.ModelProto:
    """A copy with every float32 of the main graph in another type: constants, inputs, outputs, values."""
    half_model = onnx.ModelProto()
    half_model.CopyFrom(model)
    dtype = helper.tensor_dtype_to_np_dtype(half)
    for tensor in half_model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            narrow = numpy_helper.to_array(tensor).astype(dtype)
            tensor.CopyFrom(numpy_helper.from_array(narrow, tensor.name))
    for info in (*half_model.graph.input, *half_model.graph.output, *half_model.graph.value_info):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = half
    return half_model


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model of `to_half` whose constants are the same numbers in float32 again, as all else is."""
    wide_model = onnx.ModelProto()
    wide_model.CopyFrom(model)
    halves = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
    for tensor in wide_model.graph.initializer:
        if tensor.data_type in halves:
            wide = numpy_helper.to_array(tensor).astype("float32")
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for info in (*wide_model.graph.input, *wide_model.graph.output, *wide_model.graph.value_info):
        if info.type.tensor_type.elem_type in halves:
            info.type.tensor_type.elem_type = TensorProto.FLOAT
    return wide_model

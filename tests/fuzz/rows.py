"""Models with longer rows, so that mutations also reach the code for long rows."""

from __future__ import annotations

import math
import random

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

_LENGTHS = (513, 600, 768, 1030, 2048, 4096)
_MAX_ELEMENTS = 1 << 19  # elements of a value
_SHORT = 4  # smaller integers may be axes


def with_long_rows(model: onnx.ModelProto, chance: random.Random) -> onnx.ModelProto | None:
    """A copy in which the last dim of an input and all dims of equal size are larger; None if invalid or too large."""
    shapes = [[dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in model.graph.input]
    sizes = sorted({shape[-1] for shape in shapes if shape and shape[-1] >= _SHORT})
    if not sizes:
        return None
    result, old, new = onnx.ModelProto(), chance.choice(sizes), chance.choice(_LENGTHS)
    result.CopyFrom(model)
    for info in result.graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value == old:
                dim.dim_value = new
    for tensor in result.graph.initializer:
        shape = [new if size == old else size for size in tensor.dims]
        if math.prod(shape) > _MAX_ELEMENTS:
            return None
        array = numpy_helper.to_array(tensor)
        grown = np.resize(array, shape) if list(array.shape) != shape else array
        if array.dtype == np.int64:
            grown = np.where(grown == old, new, grown)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(grown, array.dtype), tensor.name))
    del result.graph.value_info[:]
    for info in result.graph.output:
        info.type.tensor_type.ClearField("shape")
    try:
        result = shape_inference.infer_shapes(result, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError:
        return None
    values = (*result.graph.value_info, *result.graph.output)
    known = [[dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in values]
    return None if any(math.prod(shape) > _MAX_ELEMENTS for shape in known) else result

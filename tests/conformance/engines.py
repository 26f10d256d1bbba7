"""The engines under test: a model and lists of inputs in, lists of results out."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx

from atcpy.ir import DType
from atcpy.ir.tensor import Array
from atcpy.om.bits import pack_bits, unpack_bits
from tests.ort import open_ort

ORT_IR = 13
FOREIGN = ("bfloat16", "float8", "float4", "int4", "int2")  # as ONNX Runtime spells types that numpy lacks

Runner = Callable[[Sequence[Any]], Sequence[Any]]


def atcpy(model: onnx.ModelProto) -> Runner:
    """Ours: convert, the package, a session."""
    from atcpy.backend import prepare

    return prepare(model).run


def reference(model: onnx.ModelProto) -> Runner:
    """onnx.reference.ReferenceEvaluator."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        results = evaluator.run(None, dict(zip(_fed(model), inputs, strict=False)))
        assert isinstance(results, list)
        return results

    return run


def onnxruntime(model: onnx.ModelProto) -> Runner:
    """ONNX Runtime on the CPU. It reads models of IR 13, of which nothing here is newer; types that numpy lacks go
    in and out as OrtValues.
    """
    import onnxruntime as ort

    readable = onnx.ModelProto()
    readable.CopyFrom(model)
    readable.ir_version = min(model.ir_version, ORT_IR)

    session = open_ort(readable, optimized=True)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        feeds = dict(zip(_fed(model), inputs, strict=False))
        types = [port.type for port in session.get_outputs()]
        if not any(map(_is_foreign, feeds.values())) and not any(map(_named_foreign, types)):
            return list(session.run(None, feeds))
        values = {name: _to_value(array) for name, array in feeds.items()}
        return [_from_value(value) for value in session.run_with_ort_values(None, values)]

    def _to_value(array: Array) -> Any:
        if not _is_foreign(array):
            return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
        dtype = DType.from_numpy(array.dtype)
        value = ort.OrtValue.ortvalue_from_shape_and_type(array.shape, dtype.onnx)
        raw = pack_bits(array, dtype) if dtype.bits < 8 else np.ascontiguousarray(array).view(np.uint8)
        ctypes.memmove(value.data_ptr(), raw.tobytes(), raw.nbytes)
        return value

    return run


def _from_value(value: Any) -> Any:
    if not value.is_tensor() or not _named_foreign(value.data_type()):
        return value.numpy()
    dtype, shape = DType.from_onnx(value.element_type()), tuple(value.shape())
    count = math.prod(shape)
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), dtype.nbytes(count)), np.uint8)
    return (unpack_bits(raw, dtype, count) if dtype.bits < 8 else raw).view(dtype.numpy).reshape(shape)


ENGINES: dict[str, Callable[[onnx.ModelProto], Runner]] = {
    "atcpy": atcpy,
    "onnxruntime": onnxruntime,
    "reference": reference,
}


def _fed(model: onnx.ModelProto) -> Iterator[str]:
    constants = {tensor.name for tensor in model.graph.initializer}
    return (port.name for port in model.graph.input if port.name not in constants)


def _is_foreign(array: Any) -> bool:
    """Is it of a type that numpy has from ml_dtypes?"""
    return isinstance(array, np.ndarray) and array.dtype.type.__module__.startswith("ml_dtypes")


def _named_foreign(ort_type: str) -> bool:
    return any(word in ort_type for word in FOREIGN)

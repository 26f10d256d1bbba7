"""Opens models in memory in ONNX Runtime, with its optimiser off, and without copying weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from atcpy.ir import DType
from atcpy.rewrite.export import Constant
from atcpy.verify.oracle import cannot_open, first_line, ort_errors
from atcpy.verify.ort import load_onnxruntime, oracle_options

_SHARED = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.INT64, DType.INT32, DType.INT8, DType.UINT8, DType.BOOL)


def constants_of(
    model: onnx.ModelProto, inline: Mapping[int, memoryview], read: Callable[[onnx.TensorProto], memoryview]
) -> dict[str, Constant]:
    """The constants of a model's main graph by name: `inline` are bytes that stayed in its file, by number, and `read`
    gives those that lie in data files.
    """
    found: dict[str, Constant] = {}
    for index, proto in enumerate(model.graph.initializer):
        is_external = proto.data_location == onnx.TensorProto.EXTERNAL
        found[proto.name] = Constant(proto, read(proto) if is_external else inline.get(index))
    return found


def open_whole(model: onnx.ModelProto, constants: Iterable[Constant], folder: str, threads: int) -> Any:
    """Open a model with these constants instead of its own. `folder` must be used by nothing else."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.initializer[:]
    shared: dict[str, np.ndarray[Any, Any]] = {}
    for constant in constants:
        tensor = whole.graph.initializer.add()
        tensor.CopyFrom(constant.proto)
        if constant.data is None:
            continue
        dtype = DType.from_onnx(tensor.data_type)
        tensor.ClearField("external_data")
        if dtype in _SHARED:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="weights")
            shared[tensor.name] = np.frombuffer(constant.data, dtype.numpy).reshape(tuple(tensor.dims))
        else:
            tensor.ClearField("data_location")
            tensor.raw_data = bytes(constant.data)
    (Path(folder) / "weights").touch()  # ONNX Runtime requires the file, though it does not read it
    return open_session(whole.SerializeToString(), shared, folder, threads)


def open_session(
    source: str | bytes, shared: Mapping[str, np.ndarray[Any, Any]] | None = None, folder: str = "", threads: int = 1
) -> Any:
    """A session of a model, or of the file at a path; constants that are `shared` stay where they are."""
    onnxruntime = load_onnxruntime()
    options = oracle_options(threads=threads)
    options.enable_mem_pattern = False  # a plan for memory pays off from the second run on
    options.add_session_config_entry("session.disable_prepacking", "1")  # it copies the weights
    if folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    shared = shared or {}
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in shared.items()}
    for name, value in values.items():
        options.add_initializer(name, value)
    try:
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except ort_errors() as error:
        raise cannot_open(first_line(error)) from error
    session.atcpy_weights = (values, shared)  # must live as long as the session
    return session

"""ONNX Runtime as the tests' oracle."""

from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from atcpy.verify.ort import oracle_options


def open_ort(model: onnx.ModelProto | bytes | str | Path, *, optimized: bool = False) -> onnxruntime.InferenceSession:
    """A session of one thread, by default without graph optimisations; with them, sums of bytes are exact."""
    levels = onnxruntime.GraphOptimizationLevel
    options = oracle_options(levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL)
    source: Any = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    return onnxruntime.InferenceSession(
        str(source) if isinstance(source, Path) else source, options, providers=["CPUExecutionProvider"]
    )

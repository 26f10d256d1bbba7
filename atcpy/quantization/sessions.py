"""Sessions of ONNX Runtime for models that run on many samples, so that packing their weights pays off."""

from __future__ import annotations

from typing import Any

import onnx

from atcpy.errors import ModelInvalid
from atcpy.verify.oracle import cannot_open, first_line, ort_errors
from atcpy.verify.ort import load_onnxruntime, oracle_options


def open_float(model: onnx.ModelProto | str, threads: int) -> Any:
    """A session that computes each value as the model, or the file at a path, is written."""
    return _open(model, oracle_options(threads=threads))


def open_optimised(model: onnx.ModelProto, threads: int) -> Any:
    """A session with the optimiser on, as users have it: it computes quantised nodes in integers. Their sums are exact
    on every CPU, unless the optimiser cannot open the model so: it then replaces some weights twice.
    """
    level = load_onnxruntime().GraphOptimizationLevel.ORT_ENABLE_ALL
    try:
        return _open(model, oracle_options(level, threads))
    except ModelInvalid:
        return _open(model, oracle_options(level, threads, exact_sums=False))


def _open(model: onnx.ModelProto | str, options: Any) -> Any:
    source = model if isinstance(model, str) else model.SerializeToString()
    try:
        return load_onnxruntime().InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except ort_errors() as error:
        raise cannot_open(first_line(error)) from error

"""ONNX Runtime's quantizer: ranges of values from samples, and models with QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import copy
import io
import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from atcpy.errors import Unsupported, Where
from atcpy.quantization.float_model import FloatModel
from atcpy.quantization.options import ByteType, Method, QuantizeOptions
from atcpy.quantization.selection import QUANTIZED_OPS
from atcpy.verify.inputs import Feeds
from atcpy.verify.oracle import first_line, ort_errors
from atcpy.verify.ort import load_onnxruntime

_RAISED = (ValueError, RuntimeError, KeyError, TypeError, AttributeError, IndexError, AssertionError)


class Quantizer:
    """Measures ranges once, then writes the model with any choice of nodes quantised."""

    def __init__(self, model: FloatModel, options: QuantizeOptions) -> None:
        self._options = options
        with _errors_of_ort("ONNX Runtime's quantizer cannot read the model"):
            self._library = _import_library()
            from onnxruntime.quantization.quant_utils import update_opset_version

            types = self._type(options.weight_type), self._type(options.activation_type)
            self._proto = update_opset_version(model.proto, *types)
        self._ranges: Any = None

    def calibrate(self, feeds: Iterable[Feeds], op_types: Sequence[str]) -> None:
        """Measure the range of each value that an op of these types reads or writes."""
        methods = {
            Method.MINMAX: self._library.CalibrationMethod.MinMax,
            Method.ENTROPY: self._library.CalibrationMethod.Entropy,
            Method.PERCENTILE: self._library.CalibrationMethod.Percentile,
        }
        with tempfile.TemporaryDirectory(prefix="atcpy-") as folder, _errors_of_ort("the ranges cannot be measured"):
            path = Path(folder) / "model.onnx"
            path.write_bytes(self._proto.SerializeToString())
            calibrator = self._library.create_calibrator(
                path,
                list(op_types),
                augmented_model_path=str(Path(folder) / "augmented.onnx"),
                calibrate_method=methods[self._options.method],
            )
            for each in feeds:  # one at a time: the calibrators keep all values of what they are given at once
                calibrator.collect_data(_reader(each))
            self._ranges = calibrator.compute_data()
        for name, data in self._ranges.items():
            if not np.isfinite([data.lowest, data.highest]).all():
                hint = "--exclude the nodes that read and write it"
                raise Unsupported("E10055", "a value becomes infinite", where=Where(value=name), hint=hint)

    def build(self, nodes: Sequence[str]) -> onnx.ModelProto:
        """The model with these nodes quantised."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self._proto)
        if not nodes:
            return proto
        with _errors_of_ort("ONNX Runtime's quantizer cannot quantise the model"):
            quantizer = self._library.QDQQuantizer(
                proto,
                self._options.per_channel,
                False,  # reduce_range
                self._type(self._options.weight_type),
                self._type(self._options.activation_type),
                copy.deepcopy(self._ranges),  # it changes them
                list(nodes),
                [],
                sorted(QUANTIZED_OPS),
                {},
            )
            quantizer.quantize_model()
            quantizer.model.topological_sort()
            result: onnx.ModelProto = quantizer.model.model
        return result

    def _type(self, kind: ByteType) -> Any:
        types = self._library.QuantType
        return types.QUInt8 if kind is ByteType.U8 else types.QInt8


def _import_library() -> Any:
    """`onnxruntime.quantization`. Raises Unsupported (E10055) where it, or what it needs, is not installed."""
    load_onnxruntime()
    try:
        import onnxruntime.quantization as library
    except ImportError as error:
        what = f"ONNX Runtime's quantizer cannot be loaded: {error}"
        missing = (error.name or "onnxruntime").partition(".")[0]
        raise Unsupported("E10055", what, hint=f"pip install {missing}") from error
    return library


def _reader(feeds: Feeds) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class _OneSample(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = [feeds]

        def get_next(self) -> Feeds | None:
            return self._left.pop() if self._left else None

    return _OneSample()


@contextmanager
def _errors_of_ort(what: str) -> Iterator[None]:
    """Turn what ONNX Runtime's quantizer raises into Unsupported, and keep what it prints and logs to itself."""
    raised: tuple[type[Exception], ...] = (*_RAISED, *ort_errors())
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    except raised as error:
        why = f"{type(error).__name__}: {first_line(error)}"
        raise Unsupported("E10055", what, why=why, hint="--exclude the node that it names") from error
    finally:
        logging.disable(level)

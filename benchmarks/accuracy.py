"""Compares a model in lower precision with the same model in float32, on inputs of your own; prints a table.

    python benchmarks/accuracy.py resnet50.onnx=pictures/ bert.onnx=sentences/ --modes int8
    python benchmarks/accuracy.py resnet50.onnx=pictures/ --modes fp16,mixed_float16,mixed_bfloat16

The folder holds samples as `atcpy quantize --calibrate` reads them. Every second one is for ranges of `int8`; errors
are measured on the others, the reference is ONNX Runtime, its optimiser off. The modes are those of
`--precision_mode_v2` and `int8`, and `float16` and `bfloat16`: ONNX Runtime in float32, weights and inputs rounded to
that type, which no package of the type can avoid.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper, version_converter
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

import atcpy
from atcpy.cli.samples import PictureSettings, read_samples
from atcpy.parsers.onnx.reader import standard_opset
from atcpy.quantization.errors import ErrorSum
from atcpy.quantization.samples import Sample, divide
from atcpy.quantization.sessions import open_float, open_optimised
from atcpy.verify.inputs import Array, Feeds, model_ports

OPSET_OF_CHANNELS = 13  # from which on quantisation can have a scale each channel
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
Run = Callable[[Feeds], Sequence[Array]]


class Measure:
    """The error of one output over samples."""

    def __init__(self) -> None:
        self._sum = ErrorSum()
        self._magnitude = self._total = 0.0
        self._count = self._rows = self._same = 0

    def add(self, actual: Array, expected: Array) -> None:
        """Add the output for one sample."""
        self._sum.add(actual, expected)
        self._total += float(np.abs(actual.astype(np.float64) - expected).sum())
        self._count += expected.size
        same = np.argmax(actual, axis=-1) == np.argmax(expected, axis=-1)
        self._rows += same.size
        self._same += int(same.sum())

    @property
    def snr_db(self) -> float:
        """The energy of the output over that of the error, in dB."""
        return self._sum.error.snr_db

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns of the table."""
        error = self._sum.error
        mean = self._total / self._count
        return (
            f"{error.max_abs:.2g}", f"{mean:.2g}", f"{error.cosine:.5f}", f"{error.snr_db:.1f}",
            f"{self._same} of {self._rows}",
        )  # fmt: skip


class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Samples as ONNX Runtime's quantiser asks for them."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._left = iter(samples)

    def get_next(self) -> Feeds | None:
        """The next sample, or None."""
        sample = next(self._left, None)
        return None if sample is None else sample.load()


@contextmanager
def package(source: Path, threads: int, **options: Any) -> Iterator[Run]:
    """A package of a model."""
    target = source.with_suffix(".om")
    atcpy.convert(source, target, **options)
    with atcpy.InferenceSession(target, threads=threads) as session:
        names = [port.name for port in session.get_outputs()]
        yield lambda feeds: session.run(names, feeds)


def quantized_by_ort(source: Path, target: Path, samples: Sequence[Sample]) -> onnx.ModelProto:
    """The model as ONNX Runtime's own guide quantises it: prepared, then by `quantize_static`."""
    model = onnx.load(source)
    if standard_opset(model) < OPSET_OF_CHANNELS:
        source = target.with_name("raised.onnx")
        onnx.save(version_converter.convert_version(model, OPSET_OF_CHANNELS), source)
    prepared = target.with_name("prepared.onnx")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)  # which needs SymPy
    quantization.quantize_static(prepared, target, Samples(samples), per_channel=True)
    return onnx.load(target)


def rounded(array: Array, half: np.dtype[Any]) -> Array:
    """The floats rounded to a type of 16 bits."""
    return array.astype(half).astype(np.float32) if array.dtype == np.float32 else array


def with_rounded_weights(model: onnx.ModelProto, half: np.dtype[Any]) -> onnx.ModelProto:
    """The model with its weights rounded, still in float32."""
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            values = rounded(numpy_helper.to_array(tensor), half)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model


def runs(source: Path, folder: Path, mode: str, samples: Sequence[Sample], threads: int) -> Iterator[tuple[str, Run]]:
    """What is compared in a mode, each with its name."""
    model = folder / "model.onnx"
    model.write_bytes(source.read_bytes())
    if mode in HALVES:
        half = HALVES[mode]
        session = open_float(with_rounded_weights(onnx.load(source), half), threads)
        yield (
            f"weights and inputs in {mode}",
            lambda feeds: session.run(None, {n: rounded(a, half) for n, a in feeds.items()}),
        )
        return
    if mode != "int8":
        with package(model, threads, precision_mode_v2=mode) as run:
            yield mode, run
        return
    atcpy.quantize(model, folder / "q.onnx", calibrate=[dict(sample.load()) for sample in samples], threads=threads)
    with package(folder / "q.onnx", threads) as run:
        yield "int8", run
    session = open_optimised(onnx.load(folder / "q.onnx"), threads)
    yield "int8, the same model in ONNX Runtime", lambda feeds: session.run(None, feeds)
    own = open_optimised(quantized_by_ort(model, folder / "ort.onnx", divide(samples, None).calibration), threads)
    yield "int8, quantised and run by ONNX Runtime", lambda feeds: own.run(None, feeds)


def rows(source: Path, samples: Path, settings: PictureSettings, modes: Sequence[str], threads: int) -> Iterator[str]:
    """The rows of a model: its worst output in each mode."""
    ports = model_ports(onnx.load(str(source), load_external_data=False))
    found = read_samples(str(samples), settings, ports)
    ranges, judged = found[::2], found[1::2] or found
    session = open_float(str(source), threads)
    expected = [session.run(None, sample.load()) for sample in judged]
    names = [port.name for port in session.get_outputs()]
    for mode in modes:
        with tempfile.TemporaryDirectory() as folder:
            for title, run in runs(source, Path(folder), mode, ranges, threads):
                measures = [Measure() for _ in names]
                for sample, reference in zip(judged, expected, strict=True):
                    for measure, a, e in zip(measures, run(sample.load()), reference, strict=True):
                        measure.add(np.asarray(a), np.asarray(e))
                name, worst = min(zip(names, measures, strict=True), key=lambda pair: pair[1].snr_db)
                yield "| " + " | ".join((source.stem, name, title, *worst.cells)) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL=SAMPLES")
    parser.add_argument(
        "--modes", default="int8", help="of --precision_mode_v2, int8, float16, bfloat16; separated by commas"
    )
    parser.add_argument("--mean", help="of pictures")
    parser.add_argument("--std", help="of pictures")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    settings = PictureSettings(arguments.mean, arguments.std)
    print("| model | output | computed in | max | mean | cosine | SNR dB | same largest |")
    print("|" + " --- |" * 8)
    for text in arguments.models:
        model, _, samples = text.rpartition("=")
        for row in rows(Path(model), Path(samples), settings, arguments.modes.split(","), arguments.threads):
            print(row, flush=True)


if __name__ == "__main__":
    main()

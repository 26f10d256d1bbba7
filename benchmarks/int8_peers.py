"""Times models that ONNX Runtime's own tools quantised, in atcpy, ONNX Runtime and OpenVINO, in turns.

    make models
    python benchmarks/int8_peers.py models/generated/resnet50.onnx models/generated/bert_base.onnx --threads 1,2

Schemes: `s8s8` and `u8s8` are `quantize_static` with QuantizeLinear and DequantizeLinear, activations in int8 or uint8,
weights in int8 with a scale each channel; `u8s7` is u8s8 with weights of 7 bits, as ONNX Runtime's manual recommends it
for CPUs without VNNI, where its sums of products saturate else; `dynamic` is `quantize_dynamic`, where activations get
their scales at run time. Quantised models stay in a folder and are written once.

The errors are those of each engine's result to the float model's in ONNX Runtime: signal to noise in dB, more is
better. Weights and inputs are random: they compare engines, and say nothing of the accuracy of trained models.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from engines import ENGINES
from feeds import Array, Feeds, feeds_for
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process
from side_by_side import compare

OURS: Final = "atcpy"
PEERS: Final = ("onnxruntime", "openvino")
SAMPLES: Final = 4
STATIC: Final = {
    "s8s8": quantization.QuantType.QInt8,
    "u8s8": quantization.QuantType.QUInt8,
    "u8s7": quantization.QuantType.QUInt8,
}
SCHEMES: Final = (*STATIC, "dynamic")


class _Samples(quantization.CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
    """Random inputs, none of which is the one that is measured."""

    def __init__(self, model: Path) -> None:
        self._left: Iterator[Feeds] = (feeds_for(model, seed) for seed in range(1, SAMPLES + 1))

    def get_next(self) -> Feeds | None:
        """The next sample, None behind the last."""
        return next(self._left, None)


def quantise(model: Path, scheme: str, folder: Path) -> Path:
    """The model of a scheme, written to `folder` unless it is there and newer than the model."""
    target = folder / f"{model.stem}_{scheme}.onnx"
    if target.exists() and target.stat().st_mtime > model.stat().st_mtime:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        prepared, written = Path(name) / "prepared.onnx", Path(name) / "quantised.onnx"
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        if scheme == "dynamic":
            quantization.quantize_dynamic(
                str(prepared), str(written), per_channel=True, weight_type=quantization.QuantType.QInt8
            )
        else:
            quantization.quantize_static(
                str(prepared),
                str(written),
                _Samples(model),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=True,
                activation_type=STATIC[scheme],
                weight_type=quantization.QuantType.QInt8,
                reduce_range=scheme == "u8s7",
            )
        written.rename(target)
    return target


def results(engine: str, model: Path, feeds: Feeds) -> list[Array]:
    """What an engine computes, with one thread."""
    with tempfile.TemporaryDirectory() as name:
        return ENGINES[engine].open(ENGINES[engine].prepare(model, Path(name)), 1)(feeds)


def snr_db(actual: Sequence[Array], expected: Sequence[Array]) -> float:
    """The energy of all results over that of their errors, in dB."""
    signal = sum(float(np.square(b.astype(np.float64)).sum()) for b in expected)
    noise = sum(float(np.square(a.astype(np.float64) - b).sum()) for a, b in zip(actual, expected, strict=True))
    return 10 * float(np.log10(signal / max(noise, 1e-300)))


def rows(model: Path, scheme: str, folder: Path, threads: Sequence[int], rounds: int, seconds: float) -> Iterator[str]:
    """Rows of the table, one a number of threads."""
    quantised, feeds = quantise(model, scheme, folder), feeds_for(model)
    exact = results("onnxruntime", model, feeds)
    errors = " / ".join(f"{snr_db(results(engine, quantised, feeds), exact):.1f}" for engine in (OURS, *PEERS))
    for count in threads:
        compared = compare(quantised, OURS, PEERS, count, rounds=rounds, seconds=seconds)
        times = (compared.ours.min_ms, *(peer.timing.min_ms for peer in compared.peers))
        ratios = [peer.ratio_of_minima for peer in compared.peers]
        cells = (model.stem, scheme, str(count), *(f"{ms:.3g}" for ms in times), *(f"{r:.2f}" for r in ratios))
        yield "| " + " | ".join((*cells, f"{min(ratios):.2f}", errors)) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--schemes", default="s8s8,u8s8", help=f"of {', '.join(SCHEMES)}, by commas")
    parser.add_argument("--threads", default="1", help="numbers of threads, by commas")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--folder", type=Path, default=Path("build/bench/int8"), help="where quantised models stay")
    arguments = parser.parse_args()
    schemes, threads = arguments.schemes.split(","), [int(count) for count in arguments.threads.split(",")]
    if not set(schemes) <= set(SCHEMES):
        parser.error(f"schemes are {', '.join(SCHEMES)}")
    head = "model", "scheme", "threads", "atcpy, ms", "ONNX Runtime, ms", "OpenVINO, ms", "ratio ORT", "ratio OpenVINO"
    print("| " + " | ".join((*head, "least ratio", "dB to float: atcpy / ORT / OpenVINO")) + " |")
    print("| --- | --- |" + " ---: |" * 8)
    for model in arguments.models:
        for scheme in schemes:
            for row in rows(model, scheme, arguments.folder, threads, arguments.rounds, arguments.seconds):
                print(row, flush=True)


if __name__ == "__main__":
    main()

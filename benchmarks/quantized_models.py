"""Quantises models on random samples; prints their errors in atcpy and in ONNX Runtime, and their times.

    make models
    python benchmarks/quantized_models.py models/generated/resnet50.onnx models/generated/bert_base.onnx

Models with random weights and random inputs say nothing of the accuracy of trained ones: the figures compare engines.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import onnx

import atcpy
from atcpy.cli.arrays import save_npz
from atcpy.verify.inputs import feeds_of, model_ports


def write_samples(model: Path, folder: Path, count: int) -> None:
    """Write random inputs of a model, an .npz file each."""
    proto = onnx.load(str(model), load_external_data=False)
    for number in range(count):
        save_npz(folder / f"{number:03d}.npz", feeds_of(proto, model_ports(proto), number))


def measure(model: Path, samples: int, seconds: float, threads: int) -> str:
    """Quantise a model; return a row of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "samples").mkdir()
        write_samples(model, folder / "samples", samples)
        report = atcpy.quantize(model, folder / "q.onnx", calibrate=folder / "samples", threads=threads)
        atcpy.convert(model, folder / "float.om")
        atcpy.convert(folder / "q.onnx", folder / "q.om")
        float_side, own = atcpy.bench(folder / "float.om", vs=folder / "q.om", min_time=seconds, threads=threads).sides
        beside = atcpy.bench(folder / "q.om", vs="ort", vs_model=folder / "q.onnx", min_time=seconds, threads=threads)
    worst = min(report.outputs, key=lambda output: output.atcpy.snr_db)
    integers = sum(layer.integer for layer in report.layers)
    cells = (
        model.stem,
        f"{report.bytes.before / 2**20:.1f} → {report.bytes.after / 2**20:.1f}",
        f"{integers} of {len(report.layers)}",
        f"{worst.atcpy.snr_db:.1f}",
        f"{worst.onnxruntime.snr_db:.1f}",
        f"{worst.difference.snr_db:.1f}",
        f"{float_side.median * 1e3:.2f}",
        f"{own.median * 1e3:.2f}",
        f"{beside.sides[1].median * 1e3:.2f}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--min-time", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    head = "model", "MB", "layers in integers", "SNR dB atcpy", "SNR dB ORT", "dB between them"
    print("| " + " | ".join((*head, "ms fp32", "ms int8", "ms int8 ORT")) + " |")
    print("|" + " --- |" * 9)
    for model in arguments.models:
        print(measure(model, arguments.samples, arguments.min_time, arguments.threads), flush=True)


if __name__ == "__main__":
    main()

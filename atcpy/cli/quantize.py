"""`atcpy quantize`: a model becomes one in 8-bit integers, with the error of each layer."""

import math
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli.invocation import Invocation
from atcpy.cli.optimize import target_path
from atcpy.cli.outcome import Outcome

if TYPE_CHECKING:
    from atcpy.quantization.errors import QuantizationError
    from atcpy.quantization.report import QuantizeReport

_LAYERS_SHOWN = 10


def quantize(
    run: Invocation,
    model: Annotated[str, typer.Argument(metavar="M.onnx", help="The model, in float32.")],
    target: Annotated[str | None, typer.Argument(metavar="[Q.onnx]", help="The quantised model.")] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="Q.onnx", help="The same.")] = None,
    calibrate: Annotated[
        str,
        typer.Option("--calibrate", metavar="PATH", help="Samples: a folder of .npz, .npy or pictures, or one file."),
    ] = "",
    method: Annotated[
        str | None, typer.Option("--method", help="Of ranges: minmax, entropy or percentile; default: minmax.")
    ] = None,
    per_channel: Annotated[
        bool, typer.Option("--per_channel/--no_per_channel", help="A scale for each output channel of weights.")
    ] = True,
    activation_type: Annotated[str | None, typer.Option("--activation_type", help="u8 or i8; default: u8.")] = None,
    weight_type: Annotated[str | None, typer.Option("--weight_type", help="u8 or i8; default: i8.")] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude", metavar="NODE", help="What stays float: a node, a pattern with *, or OpType::T; repeatable."
        ),
    ] = None,
    suggest: Annotated[
        str | None,
        typer.Option(
            "--suggest", metavar="BOUND", help="Keep layers float until cosine=0.99, snr=20 (dB) or max_abs=0.1 is met."
        ),
    ] = None,
    max_samples: Annotated[
        int | None, typer.Option("--max_samples", metavar="N", min=1, help="Most samples to use, at equal distances.")
    ] = None,
    mean: Annotated[str | None, typer.Option("--mean", help="Of pictures, as in atcpy run.")] = None,
    std: Annotated[str | None, typer.Option("--std", help="Of pictures, as in atcpy run.")] = None,
    layout: Annotated[str, typer.Option("--layout", help="Of pictures: NCHW or NHWC.")] = "NCHW",
    report: Annotated[
        str | None, typer.Option("--report", metavar="F.json", help="Write the result of --json to a file.")
    ] = None,
    **options: Any,
) -> Outcome:
    """Quantise a model to 8 bits with ONNX Runtime's quantizer, and measure the error of each layer."""
    from atcpy.cli.samples import PictureSettings, read_samples
    from atcpy.errors import UsageError, Where
    from atcpy.om.atomic import atomic_write, require_writable
    from atcpy.quantization.options import quantize_options
    from atcpy.quantization.quantize import quantize_model
    from atcpy.report.record import dumps

    if not calibrate:
        hint = "--calibrate samples/, a folder of .npz, .npy or pictures"
        raise UsageError("E10054", "--calibrate is required", where=Where(option="calibrate"), hint=hint)
    request = quantize_options(
        {
            "method": method, "per_channel": per_channel, "activation_type": activation_type,
            "weight_type": weight_type, "exclude": exclude, "suggest": suggest, "max_samples": max_samples,
            "threads": run.common.get("threads"), "allow_hardlinks": run.common.get("allow_hardlinks"),
        }
    )  # fmt: skip
    path = target_path(target, output, "the quantised model", "atcpy quantize M.onnx Q.onnx")
    if report is not None:
        require_writable(report)
    samples = partial(read_samples, calibrate, PictureSettings(mean, std, layout))
    found = quantize_model(Path(model), path, samples, request, run.progress.step)
    result = record_of(found)
    if report is not None:
        atomic_write(report, [dumps(result).encode() + b"\n"])
    return Outcome(result, list(lines(found, model)), warnings=found.warnings)


def record_of(report: "QuantizeReport") -> dict[str, Any]:
    """What `--json` has of a result."""
    from atcpy.report.record import to_json

    result: dict[str, Any] = to_json(report)
    del result["warnings"]  # they stand in the envelope
    return result


def lines(report: "QuantizeReport", model: str) -> Iterator[str]:
    """Sizes, samples, errors of the outputs, and the layers with the largest error."""
    from atcpy.errors import count_of
    from atcpy.report.columns import table
    from atcpy.report.units import size

    before, after = report.bytes.before, report.bytes.after
    counts = report.samples
    yield f"{report.output}  {size(after)}  {before / after:.1f} times smaller"
    scales = "a scale each channel" if report.per_channel else "a scale each tensor"
    yield f"  from     {model}  {size(before)}"
    yield f"  types    activations {report.activation_type}, weights {report.weight_type}, {scales}, {report.method}"
    others = "others" if counts.others else "of them"
    yield f"  samples  {counts.calibration} for ranges, {counts.held_out} {others} for errors"
    integers = sum(layer.integer for layer in report.layers)
    yield f"  layers   {count_of(len(report.layers), 'layer')} quantised, {integers} on kernels for integers"
    yield ""
    rows = [
        (output.name, engine, *_figures(error))
        for output in report.outputs
        for engine, error in (
            ("atcpy", output.atcpy), ("onnxruntime", output.onnxruntime), ("atcpy − onnxruntime", output.difference),
        )
    ]  # fmt: skip
    yield from table(("output", "error of", "SNR dB", "cosine", "max abs"), rows, right=(2, 3, 4))
    yield ""
    worst = report.layers[:_LAYERS_SHOWN]
    rows = [
        (layer.node, layer.op, "int8" if layer.integer else "float", _decibels(layer.own), _decibels(layer.total))
        for layer in worst
    ]
    yield from table(("layer", "op", "runs in", "own SNR dB", "total SNR dB"), rows, right=(3, 4))
    if len(report.layers) > len(worst):
        yield f"and {len(report.layers) - len(worst)} with less error of their own (--report or --json: all)"
    if report.bound:
        yield ""
        yield from _suggestion(report)


def _suggestion(report: "QuantizeReport") -> Iterator[str]:
    from atcpy.errors import count_of

    if not report.kept:
        yield f"{report.bound} is met with all layers quantised"
        return
    yield f"{report.bound} is met with {count_of(len(report.kept), 'layer')} in float:"
    yield " ".join(f"--exclude {shlex.quote(name)}" for name in report.kept)


def _figures(error: "QuantizationError") -> tuple[str, str, str]:
    return _decibels(error), f"{error.cosine:.6f}", f"{error.max_abs:.3g}"


def _decibels(error: "QuantizationError") -> str:
    return f"{error.snr_db:.1f}" if math.isfinite(error.snr_db) else "exact" if error.snr_db > 0 else "none"

"""`atcpy bench`: how fast, and how much faster than ONNX Runtime."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.cli.signers import RequireSignature
from atcpy.cli.standard_streams import File
from atcpy.errors import UsageError, VerifyFailed, Where
from atcpy.options import read_float, read_int
from atcpy.report.columns import table
from atcpy.report.units import count_of, duration, size

if TYPE_CHECKING:
    from atcpy.bench.layers import LayerTime
    from atcpy.bench.rounds import Measured
    from atcpy.bench.sides import Feeds, Side

_LAYERS_SHOWN = 40


def bench(
    run: Invocation,
    package: Annotated[str, typer.Argument(metavar="F.om", help="The package."), File.READ],
    vs: Annotated[
        str | None, typer.Option("--vs", metavar="ort|G.om", help="ONNX Runtime, or another package.")
    ] = None,
    vs_model: Annotated[
        str | None,
        typer.Option("--vs_model", metavar="M", help="The model for ort; default: <package>.onnx beside it."),
    ] = None,
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="Runs before the turns, a side.")] = 5,
    min_time: Annotated[str, typer.Option("--min_time", metavar="S", help="Seconds to time, a side.")] = "3",
    layers: Annotated[bool, typer.Option("--layers", help="Time by task.")] = False,
    input_data: Annotated[
        str | None, typer.Option("--input_data", metavar="NPZ", help="Inputs by name."), File.READ
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=1,3,8,8", help="Sizes of an input's open dims; repeatable."),
    ] = None,
    fail_over: Annotated[
        str | None, typer.Option("--fail_over", metavar="R", help="Fail if the other side is more than R times faster.")
    ] = None,
    require_signature: RequireSignature = None,
    **options: Any,
) -> Outcome:
    """Time a package, in turns with another engine."""
    seconds = read_float("min_time", min_time, 0, 3600)
    limit = None if fail_over is None else read_float("fail_over", fail_over, 0.01, 1000)
    counts = _thread_counts(run)
    custom_ops.load(options["custom_ops"])
    model = other_model(Path(package), vs, vs_model, require_signature)
    feeds = None
    if input_data is not None:
        from atcpy.cli.arrays import load_npz

        feeds = load_npz(input_data)
    runs: list[dict[str, Any]] = []
    lines: list[str] = []
    for timed in time_package(
        run, Path(package), vs, model, feeds, shape or [], counts, seconds=seconds, warmup=warmup, layers=layers,
        require_signature=require_signature,
    ):  # fmt: skip
        runs.append(timed.record)
        lines += [*([""] if lines else []), *timed.lines]
    result = runs[0] if len(runs) == 1 else {"machine": runs[0]["machine"], "runs": runs}
    return Outcome(result, lines, _too_slow(runs, limit))


@dataclass(frozen=True)
class TimedPackage:
    """What was measured with one number of threads, for `--json` and for people."""

    record: dict[str, Any]
    lines: list[str]


def time_package(
    run: Invocation,
    package: Path,
    vs: str | None,
    model: Path | None,
    feeds: "Feeds | None",
    shapes: Sequence[str],
    thread_counts: Sequence[int],
    *,
    seconds: float,
    warmup: int,
    layers: bool,
    require_signature: Any,
) -> Iterator[TimedPackage]:
    """Time a package with each number of threads, against `model` in ONNX Runtime or the package `vs`. Without feeds
    they are random.
    """
    from atcpy import InferenceSession
    from atcpy.bench.layers import time_layers
    from atcpy.bench.rounds import measure
    from atcpy.report.profile import roofline_line
    from atcpy.runtime.roofline import measure_roofline

    if feeds is not None:
        other_feeds = feeds
    else:
        feeds, other_feeds = _random_feeds(package, vs, model, shapes, require_signature)
    for threads in thread_counts:
        timing = f"timing with {count_of(threads, 'thread')}"
        run.progress.step(timing)
        sides = _sides(package, vs, model, threads, require_signature, other_feeds)
        show = partial(_show_share, run, timing)
        measured = measure(sides, feeds, min_seconds=seconds, warmup=warmup, show=show)
        timed, roofline = [], None
        if layers:
            session = InferenceSession(package, threads=threads, require_signature=require_signature)
            roofline = measure_roofline(threads)
            timed = time_layers(session, feeds, roofline=roofline)
        cache = sides[0].shape_cache
        counts_of = None if cache is None else {"hits": cache.hits, "misses": cache.misses}
        lines = list(_lines(measured, timed, threads))
        if roofline is not None:
            lines.append(roofline_line(roofline))
        if cache is not None:
            lines.append(f"graphs compiled for shapes {cache.misses}, found compiled {cache.hits}")
        yield TimedPackage(_record(measured, timed, threads) | {"shape_cache": counts_of}, lines)


def _show_share(run: Invocation, timing: str, share: float) -> None:
    run.progress.show(f"{timing}  {share:.0%}")


def _thread_counts(run: Invocation) -> list[int]:
    """`--threads 1,2` measures with each."""
    text = run.common.get("threads")
    return [read_int("threads", part, 1, 1024) for part in text.split(",")] if text else [run.threads]


def other_model(package: Path, vs: str | None, vs_model: str | None, require_signature: Any) -> Path | None:
    """The model for ONNX Runtime, if that is the other side."""
    if vs is None or vs.endswith(".om"):
        if vs_model is not None and vs is None:
            where = Where(option="vs_model")
            raise UsageError("E10057", "--vs_model is used only with --vs ort", where=where, hint="add --vs ort")
        return None
    if vs != "ort":
        raise UsageError("E10001", f'--vs: "{vs}" is not ort or a package', where=Where(option="vs"), hint="--vs ort")
    if vs_model is not None:
        return Path(vs_model)
    from atcpy.om import reader
    from atcpy.om.signature import read_public_keys
    from atcpy.verify.verification import find_model

    try:
        opened = reader.read_package(package, signers=read_public_keys(require_signature))
        return find_model(package, reader.read_model(opened).source)
    except UsageError as error:
        error.hint = "name the model: --vs_model MODEL.onnx"
        raise


def _random_feeds(
    package: Path, vs: str | None, model: Path | None, shapes: Sequence[str], require_signature: Any
) -> "tuple[Feeds, Feeds]":
    """Feeds of the package, and those of the other side: of a model, or a package without AIPP, what numpy makes of the
    pictures that a package with AIPP is fed.
    """
    from atcpy import InferenceSession
    from atcpy.cli.arrays import read_shapes
    from atcpy.verify.inputs import Fill, integer_bounds, make_feeds, session_ports
    from atcpy.verify.picture_feeds import PictureFeeds
    from atcpy.verify.sizes import first_gear, with_sizes

    bounds = {}
    if model is not None:
        from atcpy.parsers.onnx import read_model

        bounds = integer_bounds(read_model(model).model)
    packages = [package] if vs is None or model is not None else [package, Path(vs)]
    sessions = [InferenceSession(path, threads=1, require_signature=require_signature) for path in packages]
    pictures = [PictureFeeds.of(session) for session in sessions]
    takes_pictures = [bool(found.inputs) for found in pictures]
    first = takes_pictures.index(True) if any(takes_pictures) else 0
    ports = pictures[first].ports(session_ports(sessions[first]))
    feeds = make_feeds(first_gear(with_sizes(ports, read_shapes(shapes, ports))), Fill(), bounds)
    of_package, of_model = pictures[first].package_feeds(feeds), pictures[first].model_feeds(feeds)
    of_sides = [of_package if takes else of_model for takes in takes_pictures]
    return of_sides[0], of_sides[1] if len(of_sides) > 1 else of_model


def _sides(
    package: Path,
    vs: str | None,
    model: Path | None,
    threads: int,
    require_signature: Any,
    other_feeds: "Feeds",
) -> "list[Side]":
    from atcpy.bench.sides import atcpy_side, onnxruntime_side
    from atcpy.verify.oracle import open_onnxruntime

    sides = [atcpy_side(package, threads, require_signature=require_signature)]
    if model is not None:
        sides.append(onnxruntime_side(model, threads, open_onnxruntime, other_feeds))
    elif vs is not None:
        sides.append(atcpy_side(Path(vs), threads, Path(vs).name, require_signature, other_feeds))
    return sides


def machine() -> dict[str, Any]:
    """The machine that was measured on."""
    from atcpy.kernels import _kernels

    isa, _, _ = _kernels.cpu()
    return {"cpu": cpu_model(), "isa": isa, "cores": sorted(os.sched_getaffinity(0))}


def cpu_model() -> str:
    """The name that the system gives the CPU."""
    return next((line.partition(":")[2].strip() for line in cpuinfo() if line.startswith("model name")), "unknown")


def cpuinfo() -> list[str]:
    """The lines of /proc/cpuinfo."""
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


def _record(measured: "Measured", layers: "list[LayerTime]", threads: int) -> dict[str, Any]:
    ratio = measured.ratio
    return {
        "machine": machine(),
        "threads": threads,
        "sides": [asdict(side) for side in measured.sides],
        "ratio": ratio.ratio if ratio else None,
        "ci": list(ratio.ci) if ratio else None,
        "verdict": ratio.verdict if ratio else None,
        "layers": [asdict(layer) for layer in layers],
    }


def _lines(measured: "Measured", layers: "list[LayerTime]", threads: int) -> Iterator[str]:
    rows = []
    for side in measured.sides:
        rows.append((side.name, *map(duration, (side.median, side.p90, side.min, side.load, side.first))))
    yield from table(("", "median", "p90", "min", "load", "first run"), rows)
    cores = _ranges(sorted(os.sched_getaffinity(0)))
    runs = f"{measured.interleaved_runs} {'interleaved ' if measured.ratio else ''}runs"
    setting = f"{runs}, {threads} thread{'' if threads == 1 else 's'}, cores {cores}"
    if measured.ratio is None:
        yield setting
    else:
        low, high = measured.ratio.ci
        yield f"ratio {measured.ratio.ratio:.2f}× {measured.ratio.verdict} (95 % CI {low:.2f}–{high:.2f}, {setting})"
    if layers:
        yield ""
        yield from _layer_lines(layers)


def _layer_lines(layers: "list[LayerTime]") -> Iterator[str]:
    slowest = sorted(layers, key=lambda layer: -layer.median)[:_LAYERS_SHOWN]
    rows = [
        (
            *(layer.task, layer.op, layer.kernel, duration(layer.median), f"{layer.share:.1%}"),
            "-" if layer.floor is None else duration(layer.floor),
            size(layer.read_bytes + layer.written_bytes),
            ", ".join(layer.nodes),
        )
        for layer in slowest
    ]
    yield from table(("task", "op", "kernel", "time", "share", "floor", "bytes", "nodes"), rows, right=(0, 3, 4, 5, 6))
    if len(layers) > len(slowest):
        yield f"and {len(layers) - len(slowest)} faster ones (--json lists all)"


def _ranges(numbers: list[int]) -> str:
    """`0-1,4` for 0, 1 and 4."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if first != last else f"{first}" for first, last in parts)


def _too_slow(runs: list[dict[str, Any]], limit: float | None) -> VerifyFailed | None:
    for record in runs:
        if limit is not None and record["ratio"] is not None and 1 / record["ratio"] > limit:
            what = f"the other side is {1 / record['ratio']:.2f} times faster, more than {limit:g}"
            return VerifyFailed("V0001", what, hint="atcpy bench --layers shows where the time goes")
    return None

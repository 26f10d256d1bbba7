"""`atcpy bench`: how fast, and how much faster than other engines or than before."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import Invocation, envelope
from atcpy.cli.outcome import Outcome
from atcpy.cli.signers import RequireSignature
from atcpy.cli.standard_streams import File
from atcpy.errors import AtcWarning, UsageError, VerifyFailed, Where, count_of, raise_os_error
from atcpy.files import open_file
from atcpy.options import read_float

if TYPE_CHECKING:
    from atcpy.bench.saved import SavedBench
    from atcpy.bench.sides import Feeds, Side
    from atcpy.om.package import Package
    from atcpy.om.signature import PublicKeys
    from atcpy.stages.report import StreamCount


def bench(
    run: Invocation,
    package: Annotated[str, typer.Argument(metavar="F.om", help="The package."), File.READ],
    vs: Annotated[
        str | None,
        typer.Option(
            "--vs",
            metavar="ort,openvino,G.om",
            help="Other sides, by commas: ONNX Runtime, OpenVINO (if installed), other packages.",
        ),
    ] = None,
    vs_model: Annotated[
        str | None,
        typer.Option(
            "--vs_model",
            metavar="M",
            help="The model for ort, openvino and --streams; default: <package>.onnx beside it.",
        ),
    ] = None,
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="Runs before the turns, a side.")] = 5,
    min_time: Annotated[str, typer.Option("--min_time", metavar="S", help="Seconds to time, a side.")] = "3",
    layers: Annotated[bool, typer.Option("--layers", help="Time by task.")] = False,
    streams: Annotated[
        bool, typer.Option("--streams", help="Compare with the model converted with --enable_single_stream.")
    ] = False,
    input_data: Annotated[
        str | None, typer.Option("--input_data", metavar="NPZ", help="Inputs by name."), File.READ
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=1,3,8,8", help="Sizes of an input's open dims; repeatable."),
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="J", help="Write all figures to a file of JSON."), File.WRITTEN
    ] = None,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="J", help="Compare with a file of --save."), File.READ
    ] = None,
    fail_over: Annotated[
        str | None,
        typer.Option(
            "--fail_over",
            metavar="R",
            help="Fail if another side, or with --compare the package before, is more than R times faster.",
        ),
    ] = None,
    require_signature: RequireSignature = None,
    **options: Any,
) -> Outcome:
    """Time a package, in turns with other engines."""
    seconds = read_float("min_time", min_time, 0, 3600)
    limit = None if fail_over is None else read_float("fail_over", fail_over, 0.01, 1000)
    counts = run.thread_counts or [run.threads]
    custom_ops.load(options["custom_ops"])
    request = bench_request(
        Path(package), () if vs is None else vs.split(","), vs_model,
        seconds=seconds, warmup=warmup, layers=layers, streams=streams, require_signature=require_signature,
    )  # fmt: skip
    feeds = None
    if input_data is not None:
        from atcpy.cli.arrays import load_npz

        feeds = load_npz(input_data)
    timed = time_package(run, request, feeds, shape or [], counts, save=save, compare=compare)
    return Outcome(timed.result, timed.lines, _too_slow(timed.runs, limit), timed.warnings)


@dataclass(frozen=True)
class SingleStream:
    """The package of the same model without streams, which was converted for a benchmark, and what streams the package
    to time has.
    """

    path: str
    counts: "StreamCount"


@dataclass(frozen=True)
class BenchRequest:
    """What to time, and how: a package against `others`, which are engines for `model` and packages. With `streams`,
    `single_stream` becomes one of the others.
    """

    package: Path
    others: Sequence[str]
    model: Path | None
    seconds: float
    warmup: int
    layers: bool
    streams: bool
    require_signature: "PublicKeys | None"
    single_stream: SingleStream | None = None

    def signers(self, side: str) -> "PublicKeys | None":
        """Whose signature the package of a side needs: one that was converted here has none."""
        is_converted = self.single_stream is not None and side == self.single_stream.path
        return None if is_converted else self.require_signature


@dataclass(frozen=True)
class TimedPackage:
    """What was measured, for `--json` and for people; `runs` are the records of each number of threads."""

    result: dict[str, Any]
    runs: list[dict[str, Any]]
    lines: list[str]
    warnings: list[AtcWarning]


def bench_request(
    package: Path, others: Sequence[str], vs_model: str | None, *,
    seconds: float, warmup: int, layers: bool, streams: bool, require_signature: "PublicKeys | None",
) -> BenchRequest:  # fmt: skip
    """What is asked for. Raises UsageError for sides that there cannot be."""
    model = _other_model(package, others, vs_model, require_signature, streams=streams)
    return BenchRequest(package, others, model, seconds, warmup, layers, streams, require_signature)


def time_package(
    run: Invocation,
    request: BenchRequest,
    feeds: "Feeds | None",
    shapes: Sequence[str],
    thread_counts: Sequence[int],
    *,
    save: str | None,
    compare: str | None,
) -> TimedPackage:
    """Time a package with each number of threads. Without feeds they are random. `save` names the file to write,
    `compare` one of before.
    """
    from atcpy.om.atomic import atomic_write, require_writable
    from atcpy.report.record import dumps

    if save is not None:
        require_writable(save)
    saved = None if compare is None else _read_saved(compare, thread_counts)
    about = {"machine": machine(), "package": _package_record(request)}
    runs: list[dict[str, Any]] = []
    lines: list[str] = []
    warnings: dict[str, AtcWarning] = {}
    with ExitStack() as stack:
        if request.streams:
            request = _with_single_stream(run, request, Path(stack.enter_context(TemporaryDirectory())))
        if feeds is None:
            feeds_of_sides = _random_feeds(request, shapes)
        else:
            feeds_of_sides = [feeds] * (1 + len(request.others))
        for threads in thread_counts:
            timing = f"timing with {count_of(threads, 'thread')}"
            run.progress.step(timing)
            record, more = _time(request, feeds_of_sides, threads, partial(_show_share, run, timing))
            runs.append(about | record)
            lines += [*([""] if lines else []), *more]
            if saved is not None:
                lines += ["", *_compare(saved, runs[-1], warnings)]
    result = runs[0] if len(runs) == 1 else {"machine": about["machine"], "runs": runs}
    if save is not None:
        atomic_write(save, [dumps(envelope("bench", result=result)).encode() + b"\n"])
    return TimedPackage(result, runs, lines, list(warnings.values()))


def _with_single_stream(run: Invocation, request: BenchRequest, folder: Path) -> BenchRequest:
    """The request with a further side, the package without streams."""
    from atcpy.bench.streams import SINGLE_STREAM, convert_without_streams

    assert request.model is not None, "bench_request finds it"
    run.progress.step("converting the model without streams")
    path = folder / SINGLE_STREAM
    common = {"allow_hardlinks": run.common.get("allow_hardlinks")}
    counts = convert_without_streams(_read_package(request), request.model, path, common)
    return replace(request, others=[*request.others, str(path)], single_stream=SingleStream(str(path), counts))


def _show_share(run: Invocation, timing: str, share: float) -> None:
    run.progress.show(f"{timing}  {share:.0%}")


def _time(
    request: BenchRequest, feeds_of_sides: "Sequence[Feeds]", threads: int, show: Callable[[float], None]
) -> tuple[dict[str, Any], list[str]]:
    from atcpy import InferenceSession
    from atcpy.bench.layers import time_layers
    from atcpy.bench.rounds import measure
    from atcpy.cli.bench_tables import idle_line, layer_lines, measured_lines, stream_lines
    from atcpy.report.profile import roofline_line
    from atcpy.runtime.roofline import measure_roofline

    feeds = feeds_of_sides[0]
    sides = _sides(request, feeds_of_sides, threads)
    measured = measure(sides, min_seconds=request.seconds, warmup=request.warmup, show=show)
    lines = list(measured_lines(measured, threads))
    streams = None
    if request.single_stream is not None:
        from atcpy.bench.streams import stream_times

        streams = stream_times(measured, request.single_stream.counts)
        lines += ["", *stream_lines(request.package.name, streams)]
    timed, roofline = [], None
    if request.layers:
        session = InferenceSession(request.package, threads=threads, require_signature=request.require_signature)
        roofline = measure_roofline(threads)
        timed = time_layers(session, feeds, roofline=roofline)
        lines += ["", *layer_lines(timed), roofline_line(roofline), idle_line(timed, threads)]
    cache = sides[0].shape_cache
    if cache is not None:
        lines.append(f"graphs compiled for shapes {cache.misses}, found compiled {cache.hits}")
    ratio = measured.ratio
    record = {
        "threads": threads,
        "inputs": [{"name": name, "dtype": str(a.dtype), "shape": list(a.shape)} for name, a in feeds.items()],
        "samples": measured.samples,
        "sides": [asdict(side) for side in measured.sides],
        "ratio": ratio.ratio if ratio else None,
        "ci": list(ratio.ci) if ratio else None,
        "verdict": ratio.verdict if ratio else None,
        "streams": None if streams is None else asdict(streams),
        "layers": [asdict(layer) for layer in timed],
        "peaks": None if roofline is None else asdict(roofline),
        "comparison": None,
        "shape_cache": None if cache is None else {"hits": cache.hits, "misses": cache.misses},
    }
    return record, lines


def _read_saved(path: str, thread_counts: Sequence[int]) -> "SavedBench":
    """Read a file of --save, which must have all that will be compared."""
    from atcpy.bench.saved import read_saved

    saved = read_saved(path)
    missing = [threads for threads in thread_counts if threads not in saved.runs]
    if missing:
        there = ",".join(map(str, saved.runs))
        what = f"--compare: {path} has no run with {count_of(missing[0], 'thread')}"
        raise UsageError("E10032", what, where=Where(file=path, option="compare"), hint=f"--threads {there}")
    return saved


def _compare(saved: "SavedBench", record: dict[str, Any], warnings: dict[str, AtcWarning]) -> Iterator[str]:
    """Put the comparison into the record, and what speaks against it into the warnings."""
    from atcpy.bench.saved import compare, decode_run
    from atcpy.cli.bench_tables import comparison_lines

    comparison = compare(saved, decode_run(record))
    record["comparison"] = asdict(comparison)
    for difference in comparison.differences:
        what = f"{saved.path} is of {difference}"
        warnings[difference] = AtcWarning("W0090", what, Where(file=saved.path, option="compare"))
    return comparison_lines(comparison)


def _other_model(
    package: Path, others: Sequence[str], vs_model: str | None, require_signature: "PublicKeys | None", *, streams: bool
) -> Path | None:
    """The model for the other sides that are engines, and for the package without streams, if there are such. Raises an
    error where an engine is not installed.
    """
    from atcpy.bench.sides import MODEL_ENGINES
    from atcpy.bench.streams import SINGLE_STREAM
    from atcpy.verify.ort import load_onnxruntime

    where = Where(option="vs")
    engines = [side for side in others if not side.endswith(".om")]
    for side in engines:
        if side not in MODEL_ENGINES:
            hint = f"--vs {', '.join(MODEL_ENGINES)} or the file of a package"
            raise UsageError("E10001", f'--vs: "{side}" is not ort, openvino or a package', where=where, hint=hint)
        if side == "ort":
            load_onnxruntime()
        elif find_spec(MODEL_ENGINES[side]) is None:
            hint = f"pip install {MODEL_ENGINES[side]}"
            raise UsageError("E10001", f"--vs: {MODEL_ENGINES[side]} is not installed", where=where, hint=hint)
    names = [_side_name(side) for side in others] + ([SINGLE_STREAM] if streams else [])
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError("E10001", f"--vs: two sides are named {twice}", where=where, hint="leave one out")
    if not engines and not streams:
        if vs_model is not None and not others:
            where = Where(option="vs_model")
            what = "--vs_model is used only with --vs ort and with --streams"
            raise UsageError("E10057", what, where=where, hint="add --vs ort")
        return None
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


def _side_name(side: str) -> str:
    return Path(side).name


def _random_feeds(request: BenchRequest, shapes: Sequence[str]) -> "list[Feeds]":
    """Feeds of each side: of models, and of packages without AIPP, what numpy makes of the pictures that packages with
    AIPP are fed.
    """
    from atcpy import InferenceSession
    from atcpy.bench.sides import MODEL_ENGINES
    from atcpy.cli.arrays import read_shapes
    from atcpy.verify.inputs import Fill, integer_bounds, make_feeds, session_ports
    from atcpy.verify.picture_feeds import PictureFeeds
    from atcpy.verify.sizes import first_gear, with_sizes

    bounds = {}
    if request.model is not None and not MODEL_ENGINES.keys().isdisjoint(request.others):
        from atcpy.parsers.onnx import read_model

        bounds = integer_bounds(read_model(request.model).model)
    sides = (str(request.package), *request.others)
    sessions = {
        number: InferenceSession(Path(side), threads=1, require_signature=request.signers(side))
        for number, side in enumerate(sides)
        if side not in MODEL_ENGINES
    }
    pictures = {number: PictureFeeds.of(session) for number, session in sessions.items()}
    take_pictures = {number for number, found in pictures.items() if found.inputs}
    first = min(take_pictures, default=0)
    ports = pictures[first].ports(session_ports(sessions[first]))
    feeds = make_feeds(first_gear(with_sizes(ports, read_shapes(shapes, ports))), Fill(), bounds)
    of_packages, of_models = pictures[first].package_feeds(feeds), pictures[first].model_feeds(feeds)
    return [of_packages if number in take_pictures else of_models for number in range(len(sides))]


def _sides(request: BenchRequest, feeds_of_sides: "Sequence[Feeds]", threads: int) -> "list[Side]":
    from atcpy.bench.sides import OURS, atcpy_side, onnxruntime_side, openvino_side
    from atcpy.verify.oracle import open_onnxruntime
    from atcpy.verify.ort import load_onnxruntime

    model = request.model
    sides = [atcpy_side(request.package, threads, feeds_of_sides[0], OURS, request.require_signature)]
    for other, feeds in zip(request.others, feeds_of_sides[1:], strict=True):
        if model is not None and other == "ort":
            sides.append(onnxruntime_side(load_onnxruntime(), model, threads, feeds, open_onnxruntime))
        elif model is not None and other == "openvino":
            sides.append(openvino_side(model, threads, feeds))
        else:
            sides.append(atcpy_side(Path(other), threads, feeds, _side_name(other), request.signers(other)))
    return sides


def _package_record(request: BenchRequest) -> dict[str, Any]:
    """Which package was measured, and the model that it was made from."""
    import hashlib

    from atcpy.om import reader

    opened = _read_package(request)
    try:
        with open_file(request.package) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise_os_error(error, str(request.package))
    model = reader.read_model(opened).source.sha256 or None
    return {"name": request.package.name, "sha256": digest, "model_sha256": model}


def _read_package(request: BenchRequest) -> "Package":
    from atcpy.om import reader
    from atcpy.om.signature import read_public_keys

    return reader.read_package(request.package, signers=read_public_keys(request.require_signature))


def machine() -> dict[str, Any]:
    """The machine that was measured on."""
    from atcpy.kernels import _kernels
    from atcpy.kernels.cpu import cpu_model

    isa, _, _ = _kernels.cpu()
    return {"cpu": cpu_model(), "isa": isa, "cores": sorted(os.sched_getaffinity(0))}


def _too_slow(runs: Sequence[Mapping[str, Any]], limit: float | None) -> VerifyFailed | None:
    """Is another side, or the package before, faster by more than the limit? What is the same within the noise is no
    slower than before.
    """
    if limit is None:
        return None
    for record in runs:
        if record["comparison"] is not None:
            ratio = record["comparison"]["sides"][0]["ratio"]  # of the package itself, which all runs have
            rivals = [("the saved run was", ratio["ratio"])] if ratio["verdict"] != "same" else []
        else:
            rivals = [(f"{side['name']} is", side["ratio"]["ratio"]) for side in record["sides"][1:]]
        for rival, ratio in rivals:
            if 1 / ratio > limit:
                what = f"{rival} {1 / ratio:.2f} times faster, more than {limit:g}"
                return VerifyFailed("V0001", what, hint="atcpy bench --layers shows where the time goes")
    return None

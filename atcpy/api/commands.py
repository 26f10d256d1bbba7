"""The commands as functions. Each runs what the command line runs, and returns a frozen record of what `--json` has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from atcpy.api import arguments
from atcpy.api.models import PathOrBytes, any_file, model_file, model_source, package_file
from atcpy.api.results import (
    BenchResult,
    CheckResult,
    DiffResult,
    Explanation,
    InspectResult,
    NodeResult,
    PassRecord,
    ReportResult,
    read_record,
)
from atcpy.api.running import LoggedInvocation, log_warnings, text_of
from atcpy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from typing import Unpack

    from atcpy.api.models import ModelSource
    from atcpy.om.signature import PublicKeys
    from atcpy.ops.custom import CustomOps
    from atcpy.quantization.report import QuantizeReport
    from atcpy.rewrite.report import OptimizeReport
    from atcpy.stages.freeze import FreezeReport
    from atcpy.stages.report import ConvertReport
    from atcpy.verify.verification import VerifyReport

Table: TypeAlias = Literal["io", "nodes", "tasks", "plans", "weights", "passes", "precision", "memory", "provenance"]
Inputs: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]


def convert(
    model: ModelSource, output: str | os.PathLike[str] | None = None, **options: Unpack[arguments.ConvertArguments]
) -> ConvertReport:
    """Compile `model` into the package `output`; `.om` is appended unless the name has it. Without `output` it is named
    as the file of the model, in the current directory.

    The options are those of `atcpy convert`, each as its text there or as the natural value:

        atcpy.convert("m.onnx", "m.om", soc="Ascend910", input_shape={"x": [1, 3, 224, 224]})
    """
    from atcpy.cli.convert import package_path
    from atcpy.options import convert_options
    from atcpy.report.compile_stat import CompileStatistics
    from atcpy.report.graph_dump import Dumper
    from atcpy.stages import pipeline

    read = convert_options({**options})
    name = None if output is None else os.fspath(output)
    target = package_path(_name_of(model, name, "atcpy.convert(model, 'm.om')"), name)
    statistics = CompileStatistics(read.export_compile_stat)
    with model_source(model) as source:
        report = pipeline.convert(source, target, read, Dumper(read.dump))
    statistics.compiled(report)
    statistics.at_end(report)
    log_warnings(report.warnings)
    return report


def _name_of(model: ModelSource, output: str | None, example: str) -> str:
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    if output is None:
        raise UsageError("E10054", "a model in memory has no file name: output is required", hint=example)
    return ""


def optimize(
    model: ModelSource, output: str | os.PathLike[str], **options: Unpack[arguments.OptimizeArguments]
) -> OptimizeReport:
    """Write `model` to `output` as a smaller model of the same meaning, for any runtime.

    The options are those of `atcpy optimize`, each as its text there or as the natural value:

        atcpy.optimize("m.onnx", "small.onnx", keep=["/head/Conv"], verify=False)
    """
    from atcpy.rewrite.optimize import optimize_model
    from atcpy.rewrite.options import rewrite_options
    from atcpy.verify.rewritten import check_rewritten

    with model_source(model) as source:
        report = optimize_model(source, Path(output), rewrite_options({**options}), check_rewritten)
    log_warnings(report.warnings)
    return report


def quantize(
    model: ModelSource,
    output: str | os.PathLike[str],
    *,
    calibrate: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    mean: str | None = None,
    std: str | None = None,
    layout: str = "NCHW",
    **options: Unpack[arguments.QuantizeArguments],
) -> QuantizeReport:
    """Write `model` to `output` in 8-bit integers. `calibrate` is a folder or a file of samples, or the inputs of each
    sample by name; `mean`, `std` and `layout` are of pictures.

    The options are those of `atcpy quantize`:

        atcpy.quantize("m.onnx", "q.onnx", calibrate="samples", exclude=["OpType::Add"])
        atcpy.quantize("m.onnx", "q.onnx", calibrate=[{"x": array} for array in arrays], suggest="snr=30")
    """
    from functools import partial

    from atcpy.cli.samples import PictureSettings, read_samples
    from atcpy.quantization.options import quantize_options
    from atcpy.quantization.quantize import quantize_model
    from atcpy.quantization.samples import samples_of

    if isinstance(calibrate, str | os.PathLike):
        read = partial(read_samples, os.fspath(calibrate), PictureSettings(mean, std, layout))
    else:
        read = partial(samples_of, [dict(feeds) for feeds in calibrate])
    run = LoggedInvocation("quantize", {})
    with model_file(model) as path:
        return quantize_model(path, Path(output), read, quantize_options({**options}), run.progress.step)


def freeze(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Unpack[arguments.FreezeArguments],
) -> FreezeReport:
    """Write a TensorFlow model, a SavedModel or a checkpoint, to `output` as one graph whose variables are constants.
    With `checkpoint` they are those of a checkpoint that was saved without the graph.

    The options are those of `atcpy freeze`:

        atcpy.freeze("saved_model", "frozen.pb", signature="serving_default")
        atcpy.freeze("model.ckpt", "frozen.pb", out_nodes=["prob:0"])
        atcpy.freeze("saved_model", "frozen.pb", checkpoint="training/ckpt-12")
    """
    from atcpy.options import convert_options
    from atcpy.stages.freeze import freeze as write_frozen

    separate = None if checkpoint is None else Path(checkpoint)
    _refuse_unknown("freeze", options, arguments.FreezeArguments)
    return write_frozen(Path(model), Path(output), convert_options({**options}).parse, separate)


def check(
    model: ModelSource,
    *,
    input_data: str | os.PathLike[str] | None = None,
    **options: Unpack[arguments.CheckArguments],
) -> CheckResult:
    """List all that keeps a model from converting, what its ops run on, and what a precision mode would lower. With
    `input_data`, a file of arrays by name, also how near lowered values come to the end of their type. Raises
    UsageError for options that do not fit the model.
    """
    from atcpy.cli.check import check as run_check

    run, own = _invocation("check", options, arguments.CheckArguments)
    with model_file(model) as path:
        outcome = run_check(run, str(path), input_data=None if input_data is None else os.fspath(input_data), **own)
    return read_record(CheckResult, _mapping(outcome.result), text=text_of(outcome.lines))


@overload
def inspect(
    source: ModelSource,
    *tables: Table,
    node: None = None,
    gear: int = 0,
    require_signature: PublicKeys | None = None,
    custom_ops: object = (),
    allow_hardlinks: bool = False,
) -> InspectResult: ...
@overload
def inspect(
    source: ModelSource,
    *tables: Table,
    node: str,
    gear: int = 0,
    require_signature: PublicKeys | None = None,
    custom_ops: object = (),
    allow_hardlinks: bool = False,
) -> NodeResult: ...
def inspect(
    source: ModelSource,
    *tables: Table,
    node: str | None = None,
    gear: int = 0,
    require_signature: PublicKeys | None = None,
    custom_ops: object = (),
    allow_hardlinks: bool = False,
) -> InspectResult | NodeResult:
    """Show what is in a package or a model, with `tables` that `atcpy inspect` has as flags; or one `node` of it.

    `atcpy.inspect("m.om", "tasks").record["tasks"]` lists the tasks.
    """
    from atcpy.cli.inspect import inspect as run_inspect

    if unknown := [table for table in tables if table not in _TABLES]:
        raise UsageError("E10001", f'inspect: there is no table "{unknown[0]}"', hint="one of " + ", ".join(_TABLES))
    run = LoggedInvocation("inspect", {"allow_hardlinks": allow_hardlinks})
    flags: dict[str, Any] = dict.fromkeys(tables, True)
    with any_file(source) as path:
        outcome = run_inspect(
            run,
            str(path),
            node=node,
            gear=gear,
            require_signature=require_signature,  # type: ignore[arg-type]
            custom_ops=custom_ops,
            **flags,
        )
    if outcome.error is not None:
        run.say(str(outcome.error), level=0)
    record, text = _mapping(outcome.result), text_of(outcome.lines)
    if node is not None:
        found = record["node"]
        return NodeResult(found["name"], found["op"], found["engine"], found, text=text)
    is_package = "model" not in record
    path_key = "output" if is_package else "model"
    ports = {
        kind: tuple({key: port[key] for key in ("name", "dtype", "shape")} for port in record[kind])
        for kind in ("inputs", "outputs")
    }
    common = {"package": is_package, "path": record[path_key], "bytes": record["bytes"], **ports, "record": record}
    return read_record(InspectResult, common, text=text)


_TABLES: tuple[str, ...] = Table.__args__  # type: ignore[attr-defined]


def verify(
    package: PathOrBytes,
    against: ModelSource | None = None,
    *,
    input_data: Inputs | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    random: int = 0,
    oracle: str | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    cosine: float | None = None,
    layers: bool = False,
    locate: bool = False,
    suggest: str | os.PathLike[str] | None = None,
    aipp: Mapping[str, object] | None = None,
    require_signature: PublicKeys | None = None,
    custom_ops: object = (),
    threads: int | None = None,
    allow_hardlinks: bool = False,
) -> VerifyReport:
    """Compare a package with its model, by default that of the package's name beside it. What differs is no exception:
    `passed` is false, and `error` names it. With `layers` the values at the borders of tasks are compared as well; with
    `locate` the `culprit` is the first node that errs by itself, if an output fails. `suggest` is a file to write, for
    `--keep_dtype`: the lowered nodes that must keep their types for the outputs to pass; `suggestion` has them. `aipp`:
    settings of dynamic AIPP by input.
    """
    from contextlib import nullcontext

    from atcpy.verify import verification
    from atcpy.verify.compare import Tolerance
    from atcpy.verify.inputs import Fill

    run = LoggedInvocation("verify", {"threads": threads, "allow_hardlinks": allow_hardlinks})
    custom = _load_custom_ops(custom_ops)
    with package_file(package) as path, nullcontext() if against is None else model_file(against) as model:
        report = verification.verify(
            path, model, fill=Fill("random", random), feeds=_feeds(input_data), shapes=shape or {},
            tolerance=Tolerance(atol, rtol, cosine), oracle=oracle, threads=threads, allow_hardlinks=allow_hardlinks,
            custom=custom, step=run.progress.step, require_signature=require_signature, layers=layers, locate=locate,
            suggest=None if suggest is None else Path(suggest), aipp=aipp,
        )  # fmt: skip
    if not report.same_source:
        run.say(f"{report.against} is not the file that the package was made from", level=0)
    return report


def bench(
    package: PathOrBytes,
    *,
    vs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    vs_model: ModelSource | None = None,
    warmup: int = 5,
    min_time: float | str = 3,
    layers: bool = False,
    streams: bool = False,
    input_data: Inputs | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    save: str | os.PathLike[str] | None = None,
    compare: str | os.PathLike[str] | None = None,
    require_signature: PublicKeys | None = None,
    custom_ops: object = (),
    threads: int | None = None,
) -> BenchResult:
    """Time a package, in turns with the sides of `vs`: `"ort"` and `"openvino"`, which run `vs_model`, by default that
    of the package's name beside it, and other packages. With `streams`, the model is converted once more without them,
    and that package is a side, too. `save` names a file for the figures, `compare` such a file of before.

        atcpy.bench("m.om", vs=["ort", "before.om"], compare="m.json")
    """
    from contextlib import nullcontext

    from atcpy.cli.bench import bench_request, time_package
    from atcpy.options import read_float, read_int

    run = LoggedInvocation("bench", {"threads": threads})
    seconds = read_float("min_time", min_time if isinstance(min_time, str) else float(min_time), 0, 3600)
    read_int("warmup", warmup, 1, 2**31)
    _load_custom_ops(custom_ops)
    if vs is None or isinstance(vs, str):
        others = vs.split(",") if vs is not None else []
    else:
        others = [os.fspath(side) for side in ([vs] if isinstance(vs, os.PathLike) else vs)]
    texts = [f"{name}={','.join(map(str, sizes))}" for name, sizes in (shape or {}).items()]
    with package_file(package) as path, nullcontext() if vs_model is None else model_file(vs_model) as named:
        request = bench_request(
            path, others, None if named is None else str(named),
            seconds=seconds, warmup=warmup, layers=layers, streams=streams, require_signature=require_signature,
        )  # fmt: skip
        saved_to, saved_before = (None if name is None else os.fspath(name) for name in (save, compare))
        timed = time_package(
            run, request, _feeds(input_data), texts, [run.threads], save=saved_to, compare=saved_before
        )
    log_warnings(timed.warnings)
    return read_record(BenchResult, timed.result, text=text_of(timed.lines))


def diff(
    a: ModelSource,
    b: ModelSource,
    *,
    weights: bool = False,
    memory: bool = False,
    options: bool = False,
    svg: str | os.PathLike[str] | None = None,
    custom_ops: object = (),
    allow_hardlinks: bool = False,
) -> DiffResult:
    """Show which nodes and attributes of two packages or models differ, and if asked which `weights`; of packages the
    sizes of `memory`, and the `options` that they were made with. `svg` names a file that draws both.
    """
    from atcpy.cli.diff import diff as run_diff

    run = LoggedInvocation("diff", {"allow_hardlinks": allow_hardlinks})
    with any_file(a) as before, any_file(b) as after:
        drawn = None if svg is None else os.fspath(svg)
        asked = {"weights": weights, "memory": memory, "recorded": options}
        outcome = run_diff(run, str(before), str(after), **asked, svg=drawn, custom_ops=custom_ops)
    return read_record(DiffResult, _mapping(outcome.result), text=text_of(outcome.lines))


def report(
    package: PathOrBytes,
    output: str | os.PathLike[str] | None = None,
    *,
    profile: str | os.PathLike[str] | None = None,
    bench: str | os.PathLike[str] | None = None,
    accuracy: str | os.PathLike[str] | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    gear: int = 0,
    require_signature: PublicKeys | None = None,
    custom_ops: object = (),
) -> ReportResult:
    """Write what is in a package to `output`, as one page that browsers open without a network; without `output` it is
    named as the package. `profile` and `bench` name files with times, of `run --profile` and `bench --layers --json`,
    `accuracy` one with errors, of `verify --layers --json`.
    """
    from atcpy.cli.report import report as run_report

    if output is None and isinstance(package, bytes):
        hint = "atcpy.report(package, 'm.html')"
        raise UsageError("E10054", "a package in memory has no file name: output is required", hint=hint)
    files = {"output": output, "profile": profile, "bench": bench, "accuracy": accuracy}
    names = {name: None if file is None else os.fspath(file) for name, file in files.items()}
    texts = [f"{name}={','.join(map(str, sizes))}" for name, sizes in (shape or {}).items()]
    with package_file(package) as path:
        outcome = run_report(
            LoggedInvocation("report", {}),
            str(path),
            **names,
            shape=texts,
            gear=gear,
            require_signature=require_signature,  # type: ignore[arg-type]
            custom_ops=custom_ops,
        )
    return read_record(ReportResult, _mapping(outcome.result), text=text_of(outcome.lines))


def explain(
    subject: ModelSource,
    *,
    pass_: str | None = None,
    node: str | None = None,
    fusion: str | None = None,
    engine: str | None = None,
    time: bool = False,
    **options: Unpack[arguments.ExplainArguments],
) -> Explanation:
    """Say what an error code means, or answer one question about a package or a model: what a pass did, what became of
    a node, which pairs of ops were fused, what runs on an engine.

        atcpy.explain("E10016")
        atcpy.explain("m.om", fusion="Conv+Relu")
    """
    from atcpy.cli.explain import explain as run_explain

    run, own = _invocation("explain", options, arguments.ExplainArguments)
    questions = {"pass": pass_, "node": node, "fusion": fusion, "engine": engine}
    question = next((name for name, value in questions.items() if value is not None), "code")
    asked: dict[str, Any] = {"pass_": pass_, "node": node, "fusion": fusion, "engine": engine, "time": time}
    if question == "code":
        outcome = run_explain(run, str(subject), **own)
    else:
        with any_file(subject) as path:
            outcome = run_explain(run, str(path), **asked, **own)
    found = outcome.result
    records = tuple(found) if isinstance(found, list) else (_mapping(found),)
    return Explanation(question, records, text=text_of(outcome.lines))


@overload
def passes(name: None = None, *, custom_ops: object = ()) -> tuple[PassRecord, ...]: ...
@overload
def passes(name: str, *, custom_ops: object = ()) -> PassRecord: ...
def passes(name: str | None = None, *, custom_ops: object = ()) -> tuple[PassRecord, ...] | PassRecord:
    """All passes in the order in which they run, or that of a name."""
    from atcpy.cli.passes import passes as run_passes

    run = LoggedInvocation("passes", {})
    action = "list" if name is None else "show"
    found = _mapping(run_passes(run, action, name, custom_ops=custom_ops).result)
    if name is not None:
        return read_record(PassRecord, found)
    return tuple(read_record(PassRecord, record) for record in found["passes"])


def _invocation(command: str, options: Mapping[str, Any], kind: type) -> tuple[LoggedInvocation, dict[str, Any]]:
    """The invocation with the options that all commands have, and the others."""
    _refuse_unknown(command, options, kind)
    shared = arguments.CommonArguments.__optional_keys__
    common = {name: value for name, value in options.items() if name in shared}
    own = {name: value for name, value in options.items() if name not in shared}
    return LoggedInvocation(command, common), own


def _refuse_unknown(command: str, options: Mapping[str, Any], kind: type) -> None:
    known: frozenset[str] = kind.__optional_keys__  # type: ignore[attr-defined]
    for name in options:
        if name not in known:
            raise UsageError("E10001", f'{command} has no option "{name}"', hint=did_you_mean(name, known))


def _load_custom_ops(modules: object) -> CustomOps:
    from atcpy.ops.custom import load_custom_ops
    from atcpy.options import read_custom_ops

    return load_custom_ops(read_custom_ops("custom_ops", modules))


def _feeds(inputs: Inputs | None) -> Mapping[str, Any] | None:
    """Arrays by the names of the inputs, read from a file if it is one."""
    if inputs is None or isinstance(inputs, Mapping):
        return inputs
    from atcpy.cli.arrays import load_npz

    return load_npz(os.fspath(inputs))


def _mapping(result: object) -> Mapping[str, Any]:
    assert isinstance(result, Mapping)
    return result

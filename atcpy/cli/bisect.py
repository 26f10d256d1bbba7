"""`atcpy passes bisect`: which pass breaks a model, which of its matches, and the smallest model that shows it."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from atcpy.cli import custom_ops
from atcpy.cli.arrays import load_npz
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.debug.bisect import BisectReport, Step, bisect, switchable
from atcpy.debug.reproduce import Reproducer, Reproduction
from atcpy.debug.submodel import IndexedModel
from atcpy.debug.trials import CommandCheck, PackageCheck, TrialMemory, Trials, digest_of
from atcpy.errors import AtcError, UsageError, VerifyFailed, Where, count_of
from atcpy.ir.decisions import Matched
from atcpy.ops.custom import CustomOps
from atcpy.options import convert_options
from atcpy.parsers.onnx import read_model
from atcpy.passes.prepare.recognise.custom_op import passes_with
from atcpy.report.record import to_json
from atcpy.verify.inputs import Feeds
from atcpy.verify.model_values import ModelValues
from atcpy.verify.oracle import require_oracle
from atcpy.verify.package_check import OracleCheck


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of `passes bisect`; `options` are those of the conversion."""

    model: Path
    check: str | None
    verify: bool
    reduce: bool
    resume: bool
    directory: Path
    oracle: str | None
    seed: int
    input_data: str | None
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.check is not None and self.verify:
            raise UsageError("E10056", "--check and --verify: one of them decides", where=Where(option="check"))
        if self.check is not None and not shlex.split(self.check):
            raise UsageError("E10004", "--check needs a value", where=Where(option="check"))
        convert_options(self.options)

    @cached_property
    def feeds(self) -> Feeds:
        """The inputs that the user gives."""
        return {} if self.input_data is None else load_npz(self.input_data)

    @cached_property
    def custom(self) -> CustomOps:
        """The user's operators."""
        return custom_ops.load(self.options.get("custom_ops"))


def find_culprit(run: Invocation, request: Request) -> Outcome:
    """Bisect; with --reduce also write the reproducer."""
    if request.check is None or request.reduce:
        require_oracle(request.oracle)
    file = read_model(request.model, allow_hardlinks=run.option("allow_hardlinks"))
    lines: list[str] = []

    def show(step: Step) -> None:
        line = f"run {step.run:<3} {'ok ' if step.good else 'BAD'}  {step.what}"
        lines.append(line)
        run.progress.step(line)

    with tempfile.TemporaryDirectory(prefix="atcpy-bisect-") as name:
        folder = Path(name)
        check = _check(run, request)
        memory = TrialMemory(request.directory, _identity(request, file.source.sha256), resume=request.resume)
        trials = Trials(request.model, request.options, check, memory, folder / "trial.om")
        report = bisect(switchable(passes_with(request.custom)), trials, show)
        if report.required and trials.refusal is not None:
            raise trials.refusal  # with all passes off, too: no pass is the cause
        result: dict[str, Any] = to_json(report) | {"bound": round(report.bound, 1)}
        lines += _findings(request, report)
        if report.broken and request.reduce:
            reproducer = _reproduce(run, request, report, check, folder)
            result["repro"] = reproducer.record()
            lines += _reproducer_lines(reproducer)
    return Outcome(result, lines, _error(request, report))


def _check(run: Invocation, request: Request) -> PackageCheck:
    if request.check is not None:
        return CommandCheck(request.check, request.model)
    return OracleCheck(
        model=request.model,
        feeds=request.feeds,
        seed=request.seed,
        oracle=request.oracle,
        threads=run.option("threads"),
        allow_hardlinks=run.option("allow_hardlinks"),
        custom=request.custom,
    )


def _identity(request: Request, sha256: str) -> dict[str, Any]:
    """All that the outcome of a trial depends on."""
    options = convert_options({k: v for k, v in request.options.items() if k not in ("debug", "threads")})
    return {
        "model": sha256,
        "options": options.atc_cmdline,
        "check": request.check,
        "inputs": digest_of(request.feeds) if request.feeds else request.seed,
    }


def _reproduce(
    run: Invocation, request: Request, report: BisectReport, check: PackageCheck, folder: Path
) -> Reproducer:
    import onnx

    model = onnx.load(str(request.model))
    values = ModelValues(
        path=request.model,
        model=model,
        feeds=request.feeds,
        seed=request.seed,
        shapes=convert_options({"input_shape": request.options.get("input_shape")}).parse.input_shape,
        oracle=request.oracle,
        threads=run.threads,
        custom=request.custom,
    )
    return Reproduction(
        path=request.model,
        source=IndexedModel(model),
        options=request.options,
        report=report,
        values=values,
        check=check,
        command=request.check,
        folder=folder,
        step=lambda part, nodes: run.progress.step(f"part {part}: {count_of(nodes, 'node')}"),
    ).write(request.directory)


# --------------------------------------------------------------------------------------------------------------------
# What is printed


def _error(request: Request, report: BisectReport) -> AtcError | None:
    if not report.broken:
        return None
    hint = f"--skip_pass={report.culprit.name}" if report.culprit is not None else "atcpy verify F.om --against M"
    return VerifyFailed(
        "V0001", f"{request.model} is broken: {report.why}", where=Where(file=str(request.model)), hint=hint
    )


def _findings(request: Request, report: BisectReport) -> Iterator[str]:
    if not report.broken:
        yield f"nothing to find: {request.model} passes with all passes on"
        return
    culprit = report.culprit
    if culprit is None:
        yield "culprit  no pass is to blame that can be switched off: with all of them off it is wrong, too"
        yield "         (a kernel, or a pass that the result needs)"
    elif culprit.match is None:
        yield f"culprit  {culprit.name}   (applied {culprit.applied} times; its matches cannot be told apart)"
    else:
        yield f"culprit  {culprit.name}   match {culprit.match} of {culprit.applied}: {nodes_text(culprit.nodes)}"
    among = count_of(len(report.passes), "pass", "passes")
    matches = f" + {report.match_runs} for the match" if report.match_runs else ""
    yield f"runs     {report.pass_runs} for the pass{matches}   ({among} applied; 2·log2 of that is {report.bound:.1f})"
    yield f"fault    {report.why}"
    if culprit is not None:
        yield f"help     leave it out: --skip_pass={culprit.name}"


def nodes_text(nodes: Matched) -> str:
    """`Conv /a/Conv + Relu /a/Relu`: the nodes of a match in the order in which they run."""
    return " + ".join(f"{op} {', '.join(names)}" for op, *names in reversed(nodes))


def _reproducer_lines(reproducer: Reproducer) -> Iterator[str]:
    ops = ", ".join(reproducer.ops[:10])
    nodes = count_of(len(reproducer.ops), "node")
    yield f"repro    {reproducer.directory}/: {nodes} ({ops}), found in {reproducer.parts} parts"
    yield f"         {reproducer.without}"

"""`atcpy passes bisect`: which pass breaks a model, which of its matches, and the smallest model that shows it."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atcpy.cli.bisect_trials import Judge, Memory, Request, Trials
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.debug import bisect as search
from atcpy.debug.reduce import reduce
from atcpy.debug.repro import Repro, write_repro
from atcpy.debug.submodel import SourceModel
from atcpy.errors import AtcError, VerifyFailed, Where
from atcpy.ir.decisions import Matched
from atcpy.options import OPTIONS, convert_options
from atcpy.parsers.onnx import read_model
from atcpy.passes.prepare.recognise.custom_op import passes_with
from atcpy.report.record import to_json
from atcpy.report.units import count_of
from atcpy.verify.inputs import Feeds, Fill, integer_bounds, make_feeds, model_ports
from atcpy.verify.oracle import find_oracle
from atcpy.verify.sizes import trials, with_sizes

if TYPE_CHECKING:
    import onnx

# Only these are of the whole model: a part of it has its own inputs and outputs.
_OF_THE_WHOLE = ("input_shape", "out_nodes", "static")
MOST_FETCHED = 64  # nodes


def find_culprit(run: Invocation, asked: Request) -> Outcome:
    """Bisects; with --reduce the reproducer, too."""
    file = read_model(asked.model, allow_hardlinks=run.option("allow_hardlinks"))
    lines: list[str] = []

    def tell(step: search.Step) -> None:
        line = f"run {step.run:<3} {'ok ' if step.good else 'BAD'}  {step.what}"
        lines.append(line)
        run.progress.step(line)

    with tempfile.TemporaryDirectory(prefix="atcpy-bisect-") as folder:
        judge = Judge(run, asked, Path(folder))
        trials = Trials(asked, judge, Memory(asked, file.source.sha256))
        order = search.switchable(passes_with(asked.custom))
        report = search.bisect(order, trials, tell)
        if report.required and trials.refusal is not None:
            raise trials.refusal  # with all passes off, too: nothing that a pass did
        result: dict[str, Any] = to_json(report) | {"bound": round(report.bound, 1)}
        lines += _findings(asked, report)
        if report.broken and asked.reduce:
            reduced = _reduce(run, asked, report, judge)
            result["repro"] = reduced.record
            lines += reduced.lines
    return Outcome(result, lines, _error(asked, report))


def _error(asked: Request, report: search.BisectReport) -> AtcError | None:
    if not report.broken:
        return None
    hint = f"--skip_pass={report.culprit.name}" if report.culprit is not None else "atcpy verify F.om --against M"
    return VerifyFailed(
        "V0001", f"{asked.model} is broken: {report.why}", where=Where(file=str(asked.model)), hint=hint
    )


def _findings(asked: Request, report: search.BisectReport) -> Iterator[str]:
    if not report.broken:
        yield f"nothing to find: {asked.model} passes with all passes on"
        return
    culprit = report.culprit
    if culprit is None:
        yield "culprit  no pass is to blame that can be switched off: with all of them off it is wrong, too"
        yield "         (a kernel, or a pass that the result needs)"
    elif culprit.match is None:
        yield f"culprit  {culprit.name}   (applied {culprit.applied} times; its matches cannot be told apart)"
    else:
        yield f"culprit  {culprit.name}   match {culprit.match} of {culprit.applied}: {nodes_text(culprit.nodes)}"
    among = count_of(len(report.passes), "pass").replace("passs", "passes")
    matches = f" + {report.match_runs} for the match" if report.match_runs else ""
    yield f"runs     {report.pass_runs} for the pass{matches}   ({among} applied; 2·log2 of that is {report.bound:.1f})"
    yield f"fault    {report.why}"
    if culprit is not None:
        yield f"help     leave it out: --skip_pass={culprit.name}"


def nodes_text(nodes: Matched) -> str:
    """`Conv /a/Conv + Relu /a/Relu`: the nodes of a match in the order in which they run."""
    return " + ".join(f"{op} {', '.join(names)}" for op, *names in reversed(nodes))


@dataclass(frozen=True)
class _Reduced:
    record: dict[str, Any]
    lines: list[str]


def _reduce(run: Invocation, asked: Request, report: search.BisectReport, judge: Judge) -> _Reduced:
    import onnx

    source = SourceModel(onnx.load(str(asked.model)))
    values = _Values(run, asked, source)
    options = {name: value for name, value in asked.given.items() if name not in _OF_THE_WHOLE}
    kind = _kind(report.why)
    asks = 0

    def fault_of(nodes: Sequence[int], more: Mapping[str, Any]) -> str | None:
        nonlocal asks
        asks += 1
        run.progress.step(f"part {asks}: {count_of(len(nodes), 'node')}")
        # All values of a small part at once: its own parts come next, and a run of the whole model takes long.
        values.fetch(source.values(nodes) if len(nodes) <= MOST_FETCHED else source.inputs(nodes))
        feeds = values.of(source.inputs(nodes))
        if feeds is None:
            return None
        onnx.save(source.cut(nodes, feeds), str(judge.part))
        try:
            return judge.of_part({**options, **more}, feeds, len(nodes))
        except AtcError:  # the oracle cannot run this part
            return None

    culprit = report.culprit
    skipped = [*OPTIONS["skip_pass"].read("skip_pass", options.get("skip_pass") or ()), culprit.name if culprit else ""]

    def shows(nodes: Sequence[int]) -> bool:
        fault = fault_of(nodes, {})
        return bool(fault) and _kind(fault or "") == kind

    def is_well(nodes: Sequence[int]) -> bool:
        return fault_of(nodes, {"skip_pass": skipped}) == ""

    start = source.find(name for _, *names in culprit.nodes for name in names) if culprit is not None else []
    nodes: Sequence[int] = []
    if culprit is not None:  # what is wrong without the pass, too, shows another fault, or no more than rounding
        nodes = reduce(source, start, lambda nodes: shows(nodes) and is_well(nodes))
    nodes = nodes or reduce(source, start, shows) or range(len(source.nodes))
    fault = fault_of(nodes, {}) or report.why
    feeds = values.of(source.inputs(nodes)) or {}
    part = source.cut(nodes, feeds)
    without = "no pass that can be switched off is to blame"
    if culprit is not None:
        without = f"with `--skip_pass={culprit.name}` it is {'right' if is_well(nodes) else 'wrong, too'}"
    write_repro(
        asked.directory,
        Repro(
            model=part,
            inputs=feeds,
            command=_command(asked, options),
            cause=f"{culprit.name} breaks a model" if culprit is not None else "A model is broken",
            fault=fault,
            without=without,
            origin=f"{asked.model.name} (sha256 {hashlib.sha256(asked.model.read_bytes()).hexdigest()[:16]}…)",
        ),
    )
    ops = [node.op_type for node in part.graph.node]
    record = {"directory": str(asked.directory), "nodes": len(ops), "ops": ops, "fault": fault, "without": without}
    lines = [
        f"repro    {asked.directory}/: {count_of(len(ops), 'node')} ({', '.join(ops[:10])}), found in {asks} parts",
        f"         {without}",
    ]
    return _Reduced(record, lines)


def _kind(fault: str) -> str:
    """Faults of one kind: a wrong number, or a refusal with the same code."""
    code, colon, _ = fault.partition(":")
    return code if colon and " " not in code else "V"


def _command(asked: Request, options: Mapping[str, Any]) -> str:
    words = ["atcpy", "convert", "--model", "model.onnx", "--output", "model.om"]
    if asked.check is None:
        words += ["--verify", "--input_data", "inputs.npz"]
    for name, value in sorted(options.items()):
        if name == "custom_ops":
            words += [word for file in value for word in ("--custom-ops", str(Path(file).absolute()))]
            continue
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    command = shlex.join(words)
    return command if asked.check is None else f"{command} && {asked.check.replace('{}', 'model.om')}"


class _Values:
    """What the whole model computes, by the oracle; each value is asked for once."""

    def __init__(self, run: Invocation, asked: Request, source: SourceModel) -> None:
        self._threads: int = run.threads
        self._asked = asked
        self._model: onnx.ModelProto = source.model
        self._arrays: dict[str, Any] = {}

    def fetch(self, names: Sequence[str]) -> None:
        """Computes those of these values that are not known yet."""
        if not self._arrays:
            self._arrays.update(self._inputs())
        missing = [name for name in names if name not in self._arrays]
        if missing:
            self._arrays.update(zip(missing, self._compute(self._feeds, missing), strict=True))

    def of(self, names: Sequence[str]) -> Feeds | None:
        """The arrays of these values; None if one of them is no array."""
        found = {name: self._arrays[name] for name in names}
        return found if all(hasattr(array, "dtype") for array in found.values()) else None

    def _compute(self, feeds: Feeds, names: Sequence[str]) -> list[Any]:
        oracle = find_oracle(
            self._asked.model, self._model, names, self._asked.oracle, self._threads, self._asked.custom
        )
        return oracle.run(feeds, names)

    def _inputs(self) -> Feeds:
        """Arrays for the inputs; the first sizes for open dims that the oracle takes."""
        shapes = convert_options({"input_shape": self._asked.given.get("input_shape")}).parse.input_shape
        known = {name: dims for name, dims in shapes.items() if all(isinstance(dim, int) and dim > 0 for dim in dims)}
        ports = [port for port in model_ports(self._model) if port.name not in self._asked.feeds]
        outputs = [self._model.graph.output[0].name]
        refused: AtcError | None = None
        for sized in trials(with_sizes(ports, known)):  # type: ignore[arg-type]
            made = make_feeds(sized, Fill("random", self._asked.seed), integer_bounds(self._model))
            self._feeds: Feeds = {**self._asked.feeds, **made}
            try:
                self._compute(self._feeds, outputs)
            except AtcError as error:
                refused = error
                continue
            return self._feeds
        assert refused is not None
        raise refused

"""`atcpy explain`: what an error code means; why a package looks as it does."""

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli import passes
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.errors import CODES, UsageError, Where, did_you_mean

if TYPE_CHECKING:
    from atcpy.debug.explain_text import Conversion
    from atcpy.report.package import PackageView

TABLE = (
    *passes.TABLE, "allreduce_split", "allreduce_split_size", "allreduce_split_index",
    "allreduce_split_threshold", "allreduce_cost",
)  # fmt: skip
_CODE = re.compile(r"(?:error|warning)?\[?([A-Za-z]{1,2}\d{4,5}C?|E2100C)\]?:?")


def explain(
    run: Invocation,
    subject: Annotated[
        str, typer.Argument(metavar="CODE|F", help="A code as in error[E10016], or a package or a model.")
    ],
    pass_: Annotated[
        str | None, typer.Option("--pass", metavar="P", help="What a pass matched, applied and left alone.")
    ] = None,
    node: Annotated[str | None, typer.Option("--node", metavar="N", help="What became of a node of the model.")] = None,
    fusion: Annotated[
        str | None, typer.Option("--fusion", metavar="A+B", help="Which pairs of two ops were fused, which not.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="N", help="What runs on an engine, and why not elsewhere.")
    ] = None,
    time: Annotated[bool, typer.Option("--time", help="For --node: run the package and time its tasks.")] = False,
    **options: Any,
) -> Outcome:
    """Say what an error code means, or why a package looks as it does."""
    questions = {"pass": pass_, "node": node, "fusion": fusion, "engine": engine}
    named = [name for name, value in questions.items() if value is not None]
    if not named:
        return _code(subject)
    if len(named) > 1:
        raise UsageError(
            "E10056", f"--{named[0]} and --{named[1]}: one question at a time", where=Where(option=named[1])
        )
    from atcpy.cli.inspect import is_package
    from atcpy.report.package import PackageView

    with tempfile.TemporaryDirectory(prefix="atcpy-explain-") as folder:
        path = Path(subject)
        if not is_package(path):
            path = _package_of(run, path, Path(folder), options)
        view = PackageView(path)
        if pass_ is not None:
            return _pass(view, subject, pass_)
        if fusion is not None:
            return _fusion(view, subject, fusion)
        if engine is not None:
            return _engine(view, subject, engine)
        assert node is not None
        return _node(run, view, subject, node, time=time)


def _package_of(run: Invocation, model: Path, folder: Path, options: dict[str, Any]) -> Path:
    from atcpy.cli.convert import read_options
    from atcpy.stages import pipeline

    run.progress.step(f"converting {model}")
    package = folder / "explained.om"
    pipeline.convert(model, package, read_options(run, options))
    return package


def _code(code: str) -> Outcome:
    found = _CODE.fullmatch(code.strip())
    row = CODES.get(found[1].upper()) if found else None
    if row is None:
        if Path(code).suffix in {".om", ".onnx"} or Path(code).exists():
            hint = "--node NAME, --pass NAME, --fusion Conv+Relu or --engine NAME"
            raise UsageError("E10054", f"explain {code}: what of it?", hint=hint)
        hint = did_you_mean(code.upper(), CODES) or "the codes are in docs/errors.md"
        raise UsageError("E10001", f'there is no error code "{code}"', hint=hint)
    exits = " or ".join(str(number) for number in row.exits)
    result = {"code": row.code, "when": row.when, "help": row.help, "exits": row.exits}
    return Outcome(result, [f"{row.code}  {row.when}", f"  help  {row.help}", f"  exit  {exits}"])


# --------------------------------------------------------------------------------------------------------------------
# The questions


def _conversion(view: "PackageView") -> "Conversion":
    from atcpy.debug.explain_text import Conversion

    return Conversion(view.graph, view.model.cmdline, view.package.has_unknown_shapes)


def _fusion(view: "PackageView", subject: str, fusion: str) -> Outcome:
    from atcpy.debug.explain import fusion_candidates
    from atcpy.debug.explain_text import fusion_lines

    ops = [op.strip() for op in fusion.split("+")]
    if len(ops) != 2 or not all(ops):
        what = f'--fusion: "{fusion}" is not two ops'
        raise UsageError("E10001", what, where=Where(option="fusion"), hint="the second reads the first: Conv+Relu")
    first, second = ops
    candidates = fusion_candidates(view.graph, first, second)
    lines = fusion_lines(_conversion(view), subject, first, second, candidates)
    return Outcome([candidate.record() for candidate in candidates], list(lines))


def _pass(view: "PackageView", subject: str, name: str) -> Outcome:
    from atcpy.debug.explain import candidates_of
    from atcpy.debug.explain_text import pass_lines, why_off
    from atcpy.ir.decisions import ALLREDUCE_FUSION
    from atcpy.passes.pass_set import built_in_passes
    from atcpy.report.allreduce import allreduce_line
    from atcpy.report.record import to_json

    records = [record for record in view.graph.decisions.passes if record.name == name]
    if not records:
        if built_in_passes().find(name) is not None:
            return Outcome([], [f"{name}  did not run on {subject}: {why_off(_conversion(view), name)}"])
        known = [record.name for record in view.graph.decisions.passes]
        hint = did_you_mean(name, known) or "atcpy passes list"
        raise UsageError("E10016", f'--pass: there is no pass "{name}"', where=Where(option="pass"), hint=hint)
    candidates = [candidate for record in records for candidate in candidates_of(record)]
    lines = [line for record in records for line in pass_lines(record)]
    if name == ALLREDUCE_FUSION and view.graph.decisions.allreduce is not None:
        lines.append(f"  {allreduce_line(to_json(view.graph.decisions.allreduce))}")
    return Outcome([candidate.record() for candidate in candidates], lines)


def _engine(view: "PackageView", subject: str, name: str) -> Outcome:
    from atcpy.debug.explain import engine_groups
    from atcpy.debug.explain_text import engine_lines
    from atcpy.ir import Engine

    names = {engine.value: engine for engine in Engine}
    if name not in names:
        hint = did_you_mean(name, names) or "one of " + ", ".join(names)
        raise UsageError("E10001", f'--engine: there is no engine "{name}"', where=Where(option="engine"), hint=hint)
    groups = engine_groups(view.graph, name)
    result = [
        {"engine": name, "op": group.op, "nodes": list(group.nodes), "unmet": list(group.unmet)} for group in groups
    ]
    return Outcome(result, list(engine_lines(subject, name, groups)))


def _node(run: Invocation, view: "PackageView", subject: str, name: str, *, time: bool) -> Outcome:
    from atcpy.debug.explain import node_story
    from atcpy.debug.explain_text import story_lines
    from atcpy.report.node import became_lines

    story = node_story(view.graph, name)
    if story is None:
        names = [source for node in view.graph.nodes for source in (node.name, *node.sources)]
        hint = did_you_mean(name, [*names, *view.graph.decisions.removed]) or f"atcpy inspect {subject} --nodes"
        raise UsageError("E10016", f'--node: no node "{name}" in {subject}', where=Where(option="node"), hint=hint)
    seconds = _task_seconds(run, view) if time else {}
    tasks: dict[str, list[dict[str, Any]]] = {}
    if story.became:
        for task in view.tasks():
            timed = task | ({"seconds": seconds[task["task"]]} if task["task"] in seconds else {})
            tasks.setdefault(task["name"], []).append(timed)
    became = [view.node_record(node) | {"tasks": tasks.get(node.name, [])} for node in story.became]
    result = {
        "node": name,
        "became": became,
        "removed": story.removed or None,
        "matches": [candidate.record() for candidate in story.matches],
        "placement": [{"reason": unmet.reason, "detail": unmet.values()} for unmet in story.placement],
    }
    nodes = (line for record in became for line in became_lines(record, name))
    return Outcome(result, list(story_lines(story, nodes)))


def _task_seconds(run: Invocation, view: "PackageView") -> dict[int, float]:
    """Seconds by task, measured on random inputs."""
    from atcpy import InferenceSession
    from atcpy.bench.layers import time_layers
    from atcpy.verify.inputs import Fill, make_feeds, session_ports
    from atcpy.verify.sizes import first_gear

    session = InferenceSession(view.path, threads=run.option("threads"))
    layers = time_layers(session, make_feeds(first_gear(session_ports(session)), Fill()))
    return {layer.task: layer.median for layer in layers}

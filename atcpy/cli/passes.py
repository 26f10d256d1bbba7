"""`atcpy passes`: the passes by name, for `--skip_pass` and the switches; which of them breaks a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.errors import UsageError, did_you_mean
from atcpy.report.columns import table

if TYPE_CHECKING:
    from atcpy.passes.base import Pass


ACTIONS = ("list", "show", "bisect")
TABLE = (
    "soc", "custom_ops", "input_shape", "out_nodes", "oo_level", "skip_pass", "fusion_switch_file",
    "optimization_switch", "pass_limit", "op_select_implmode", "auto_tune_mode", "max_const", "max_growth",
)  # fmt: skip


def passes(
    run: Invocation,
    action: Annotated[
        str, typer.Argument(metavar="list|show|bisect", help="All passes, one, or that which breaks a model.")
    ] = "list",
    name: Annotated[str | None, typer.Argument(metavar="[PASS|M]", help="For show a pass, for bisect a model.")] = None,
    check: Annotated[
        str | None,
        typer.Option("--check", metavar="CMD", help="bisect: a command that fails on a bad package, {}, of {model}."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="bisect: compare with ONNX Runtime, as without --check.")
    ] = False,
    reduce: Annotated[
        bool, typer.Option("--reduce", help="bisect: write the smallest model that shows the fault.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="bisect: go on where it was interrupted.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="bisect: for the reproducer and the state.")
    ] = "repro",
    oracle: Annotated[str | None, typer.Option("--oracle", help="bisect: ort or ref; default: whichever can.")] = None,
    random: Annotated[
        int, typer.Option("--random", metavar="SEED", min=0, max=999_999_999, help="bisect: seed of the random inputs.")
    ] = 0,
    input_data: Annotated[
        str | None, typer.Option("--input_data", metavar="NPZ", help="bisect: inputs by name, in one file.")
    ] = None,
    **options: Any,
) -> Outcome:
    """List the passes, show one, or find the one that breaks a model."""
    if action == "bisect":
        if name is None:
            raise UsageError("E10054", "passes bisect: a model is required", hint="atcpy passes bisect M.onnx")
        from atcpy.cli.bisect import Request, find_culprit

        named = {key: value for key, value in (options | run.common).items() if value not in (None, False)}
        request = Request(
            model=Path(name), check=check, verify=verify, reduce=reduce, resume=resume, directory=Path(output),
            oracle=oracle, seed=random, input_data=input_data, options=named,
        )  # fmt: skip
        return find_culprit(run, request)
    records = all_passes(options["custom_ops"])
    if action == "list":
        columns = ("name", "stage", "phase", "family", "order", "level", "summary")
        rows = [tuple(record[column] for column in columns) for record in records]
        return Outcome({"passes": records}, table(("pass", *columns[1:-1], ""), rows, right=(4,)))
    if action != "show":
        raise UsageError(
            "E10001", f'passes: "{action}" is not list, show or bisect', hint=did_you_mean(action, ACTIONS)
        )
    if name is None:
        raise UsageError("E10054", "passes show: the name of a pass is required", hint="atcpy passes list")
    found = next((r for r in records if r["name"] == name), None)
    if found is None:
        hint = did_you_mean(name, [r["name"] for r in records]) or "atcpy passes list"
        raise UsageError("E10016", f'there is no pass "{name}"', hint=hint)
    after = ", ".join(found["after"]) or "nothing"
    switch = "correctness needs it: no level or ALL:off leaves it out" if found["required"] else f"--skip_pass={name}"
    lines = [
        f"{name}  {found['stage']}, number {found['order']}, from {found['level']} on",
        f"  phase   {found['phase']}" + (f", family {found['family']}" if found["family"] else ""),
        f"  after   {after}",
        f"  switch  {switch}",
        *(f"  {line}".rstrip() for line in found["doc"].splitlines()),
    ]
    return Outcome(found, lines)


def all_passes(modules: list[str] | None) -> list[dict[str, Any]]:
    """Every pass in the order in which they run, those of custom operators included."""
    from atcpy.passes.prepare.recognise.custom_op import passes_with
    from atcpy.stages import pipeline

    assert pipeline  # it imports the stages, which register their passes
    return [_record(entry, order) for order, entry in enumerate(passes_with(custom_ops.load(modules)), 1)]


def _record(entry: "Pass", order: int) -> dict[str, Any]:
    return {
        "name": entry.name,
        "stage": entry.stage.value,
        "phase": entry.phase.name.lower(),
        "family": entry.family,
        "order": order,
        "level": entry.level.name,
        "required": entry.required,
        "after": list(entry.after),
        "summary": entry.summary,
        "doc": entry.doc,
    }

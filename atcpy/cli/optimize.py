"""`atcpy optimize`: a model becomes a smaller one that any runtime reads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.cli.standard_streams import File
from atcpy.errors import UsageError, Where

if TYPE_CHECKING:
    from atcpy.rewrite.optimize import Check
    from atcpy.rewrite.report import OptimizeReport

TABLE = ("input_shape", "max_const", "max_growth")


def optimize(
    run: Invocation,
    model: Annotated[str, typer.Argument(metavar="M.onnx", help="The model."), File.READ],
    target: Annotated[str | None, typer.Argument(metavar="[N.onnx]", help="The optimised model."), File.WRITTEN] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="N.onnx", help="The same."), File.WRITTEN
    ] = None,
    level: Annotated[str | None, typer.Option("--level", help="How much is optimised, O0 to O3; default: O2.")] = None,
    passes: Annotated[
        str | None, typer.Option("--passes", metavar="A,B", help="Run these passes only, and those always needed.")
    ] = None,
    skip: Annotated[
        str | None, typer.Option("--skip", "--skip_pass", metavar="A,B", help="Passes to leave out.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", metavar="NODE", help="A node that stays as it is; repeatable.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify/--no_verify", help="Compare it with the source in ORT.")] = True,
    check: Annotated[int, typer.Option("--check", metavar="N", min=1, max=100, help="With so many inputs.")] = 1,
    **options: Any,
) -> Outcome:
    """Make a model smaller for any runtime: standard ONNX in, standard ONNX out."""
    from atcpy.rewrite.optimize import optimize_model
    from atcpy.rewrite.options import rewrite_options

    named: dict[str, object] = {k: v for k, v in (options | run.common).items() if v not in (None, False)}
    named |= {"level": level, "passes": passes, "skip": skip, "keep": keep, "verify": verify, "check": check}
    request = rewrite_options(named)
    path = target_path(target, output, "the optimised model", "atcpy optimize M.onnx N.onnx")
    report = optimize_model(Path(model), path, request, _checker() if verify else None, run.progress.step)
    return Outcome(_result(report), lines(report, model), warnings=report.warnings)


def _checker() -> "Check":
    from functools import partial

    from atcpy.verify.early_run import running
    from atcpy.verify.rewritten import check_rewritten

    return partial(check_rewritten, begin=running)


def _result(report: "OptimizeReport") -> dict[str, Any]:
    from atcpy.report.record import to_json

    result: dict[str, Any] = to_json(report)
    del result["warnings"]  # they stand in the envelope
    return result


def target_path(target: str | None, output: str | None, what: str, example: str) -> Path:
    """The file to write, of the two ways to name it."""
    name = example.split()[-1]
    if target is not None and output is not None:
        raise UsageError("E10047", f"{name} and --output: one option, given twice")
    if target is None and output is None:
        raise UsageError("E10054", f"where to write {what} is required", hint=example)
    path = Path(target or output or "")
    if path.is_dir():
        hint = f"{path}/model{Path(name).suffix}"
        raise UsageError("E10022", f'"{path}" names a directory', where=Where(option="output"), hint=hint)
    return path


def lines(report: "OptimizeReport", model: str) -> list[str]:
    """What became of the model, op by op."""
    from atcpy.errors import count_of
    from atcpy.report.columns import table
    from atcpy.report.units import size

    before, after = report.before, report.after
    verdict = f"verified in {report.oracle}, max abs {report.max_abs:.1e}" if report.verified else "not verified"
    nodes = " → ".join(count_of(count.nodes, "node") for count in (before, after))
    text = [
        f"{report.output}  {size(after.bytes)}  opset {report.opset}  {verdict}",
        f"  from     {model}  {size(before.bytes)}  {nodes}",
    ]
    if report.applied:
        text.append("  passes   " + " · ".join(f"{entry.name} {entry.applied}" for entry in report.applied))
    changed = [
        (op, before.ops.get(op, 0), after.ops.get(op, 0))
        for op in sorted(before.ops.keys() | after.ops.keys())
        if before.ops.get(op, 0) != after.ops.get(op, 0)
    ]
    if changed:
        text += table(("op", "before", "after"), changed, right=(1, 2))
    return text

"""`atcpy freeze`: a TensorFlow model with variables becomes one graph of constants."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli.invocation import Invocation
from atcpy.cli.optimize import target_path
from atcpy.cli.outcome import Outcome
from atcpy.cli.standard_streams import File

if TYPE_CHECKING:
    from atcpy.stages.freeze import FreezeReport

TABLE = ("out_nodes", "signature", "tag_set")


def freeze(
    run: Invocation,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A SavedModel, a checkpoint or a graph."), File.READ],
    target: Annotated[str | None, typer.Argument(metavar="[FROZEN.pb]", help="The frozen graph."), File.WRITTEN] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FROZEN.pb", help="The same."), File.WRITTEN
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", metavar="PREFIX", help="Take the variables of this checkpoint, saved without the graph."
        ),
    ] = None,
    **options: Any,
) -> Outcome:
    """Put the variables of a TensorFlow model into its graph, as constants."""
    from atcpy.options import convert_options
    from atcpy.stages.freeze import freeze as write_frozen

    path = target_path(target, output, "the frozen graph", "atcpy freeze MODEL FROZEN.pb")
    run.progress.step("reading the model")
    separate = None if checkpoint is None else Path(checkpoint)
    report = write_frozen(Path(model), path, convert_options(options).parse, separate)
    return Outcome(report, lines(report, model))


def lines(report: "FreezeReport", model: str) -> list[str]:
    """What was written, and the names that a conversion of it needs."""
    from atcpy.errors import count_of
    from atcpy.report.units import size

    return [
        f"{report.output}  {size(report.bytes)}  {count_of(report.nodes, 'node')}",
        f"  from     {model} ({report.kind})  {count_of(report.variables, 'variable')}, {size(report.weight_bytes)}",
        f"  inputs   {'  '.join(report.inputs)}",
        f"  outputs  {'  '.join(report.outputs)}",
    ]

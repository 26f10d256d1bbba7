"""`atcpy diff`: what differs between two packages, two models, or a model and its package."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.cli.standard_streams import File
from atcpy.errors import AtcError, VerifyFailed

if TYPE_CHECKING:
    from atcpy.debug.diff import Difference
    from atcpy.ir import Graph


def diff(
    run: Invocation,
    a: Annotated[str, typer.Argument(metavar="A", help="A package, or a model."), File.READ],
    b: Annotated[str, typer.Argument(metavar="B", help="The one to compare it with."), File.READ],
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="F.svg", help="Draw both graphs side by side, too.")
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit_code", help="End with 5 if they differ.")] = False,
    **options: Any,
) -> Outcome:
    """Show which nodes and attributes differ; those of one node of the model are compared."""
    from atcpy.debug.diff import diff_graphs
    from atcpy.debug.diff_text import difference_lines, difference_record

    before, after = (_graph(run, Path(name), options["custom_ops"]) for name in (a, b))
    difference = diff_graphs(before, after)
    lines = list(difference_lines(before, after, difference))
    if svg is not None:
        _draw(Path(svg), before, after, difference, (Path(a).name, Path(b).name))
        lines.append(f"drawn   {svg}")
    differs = VerifyFailed("V0001", f"{a} and {b} differ") if exit_code and not difference.same else None
    return Outcome(difference_record(difference) | {"svg": svg}, lines, differs)


def _graph(run: Invocation, path: Path, modules: list[str] | None) -> "Graph":
    from atcpy.cli.inspect import is_package

    if is_package(path):
        from atcpy.report.package import PackageView

        return PackageView(path).graph
    from atcpy.ops.core.infer import KnownValues, infer_node
    from atcpy.options import ParseOptions
    from atcpy.stages.parse import parse

    options = ParseOptions(allow_hardlinks=run.option("allow_hardlinks"))
    graph = parse(path, options, custom_ops.load(modules)).graph
    known = KnownValues()
    for node in graph.nodes:
        with suppress(AtcError):  # then its types stay unknown here
            infer_node(node, known)
    return graph


def _draw(path: Path, before: "Graph", after: "Graph", difference: "Difference", names: tuple[str, str]) -> None:
    from atcpy.debug.diff_text import node_labels
    from atcpy.om.atomic import atomic_write
    from atcpy.report.diff_svg import Box, side_by_side

    sides = node_labels(before, after, difference)
    left, right = ([Box(label.lines, label.kind, label.reads, label.mark) for label in side] for side in sides)
    picture = side_by_side(left, right, (f"before: {names[0]}", f"after: {names[1]}"))
    atomic_write(path, [picture.encode("utf-8", "replace")])

"""`atcpy diff`: what differs between two packages, two models, or a model and its package."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import Invocation
from atcpy.cli.outcome import Outcome
from atcpy.cli.standard_streams import File
from atcpy.errors import AtcError, UsageError, VerifyFailed, Where

if TYPE_CHECKING:
    from atcpy.debug.diff import Difference
    from atcpy.ir import Graph
    from atcpy.report.package import PackageView


def diff(
    run: Invocation,
    a: Annotated[str, typer.Argument(metavar="A", help="A package, or a model."), File.READ],
    b: Annotated[str, typer.Argument(metavar="B", help="The one to compare it with."), File.READ],
    weights: Annotated[bool, typer.Option("--weights", help="Compare the values of constants, too.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Of packages: compare sizes in memory, too.")] = False,
    recorded: Annotated[
        bool, typer.Option("--options", help="Of packages: compare what they were made with, too.")
    ] = False,
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="F.svg", help="Draw both graphs side by side, too.")
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit_code", help="End with 5 if they differ.")] = False,
    **options: Any,
) -> Outcome:
    """Show which nodes and attributes differ; those of one node of the model are compared."""
    from atcpy.debug.diff import diff_graphs
    from atcpy.debug.diff_packages import diff_memory, diff_options, entries_record, entry_lines
    from atcpy.debug.diff_text import difference_lines, difference_record
    from atcpy.debug.diff_weights import diff_weights, weight_lines, weights_record

    (view, before), (other, after) = (_open(run, Path(name), options["custom_ops"]) for name in (a, b))
    difference = diff_graphs(before, after)
    same = difference.same
    record: dict[str, Any] = {"weights": None, "memory": None, "options": None, "svg": svg}
    lines = list(difference_lines(difference))
    if weights:
        found = diff_weights(before, after)
        same = same and found.same
        record["weights"] = weights_record(found)
        lines += ["", *weight_lines(found)]
    for name, is_requested, compare in (("memory", memory, diff_memory), ("options", recorded, diff_options)):
        if is_requested:
            entries = compare(_summary(view, a, name), _summary(other, b, name))
            same = same and all(entry.same for entry in entries)
            record[name] = entries_record(entries)
            lines += ["", *entry_lines(name, entries)]
    if svg is not None:
        _draw(Path(svg), before, after, difference, (Path(a).name, Path(b).name))
        lines.append(f"drawn   {svg}")
    differs = VerifyFailed("V0001", f"{a} and {b} differ") if exit_code and not same else None
    return Outcome(difference_record(difference) | record | {"same": same}, lines, differs)


def _open(run: Invocation, path: Path, modules: list[str] | None) -> "tuple[PackageView | None, Graph]":
    """The package of a path, if it is one, and its graph."""
    from atcpy.cli.inspect import is_package

    if is_package(path):
        from atcpy.report.package import PackageView

        view = PackageView(path)
        return view, view.graph
    from atcpy.ops.core.infer import KnownValues, infer_node
    from atcpy.options import ParseOptions
    from atcpy.stages.parse import parse

    options = ParseOptions(allow_hardlinks=run.option("allow_hardlinks"))
    graph = parse(path, options, custom_ops.load(modules)).graph
    known = KnownValues()
    for node in graph.nodes:
        with suppress(AtcError):  # then its types stay unknown here
            infer_node(node, known)
    return None, graph


def _summary(view: "PackageView | None", path: str, option: str) -> "Mapping[str, Any]":
    if view is None:
        what = f"--{option}: {path} is a model, and only a package has that"
        raise UsageError(
            "E10057", what, where=Where(option=option), hint=f"atcpy convert {path}, and compare the package"
        )
    return view.summary()


def _draw(path: Path, before: "Graph", after: "Graph", difference: "Difference", names: tuple[str, str]) -> None:
    from atcpy.debug.diff_text import node_labels
    from atcpy.om.atomic import atomic_write
    from atcpy.report.diff_svg import Box, side_by_side

    sides = node_labels(before, after, difference)
    left, right = ([Box(label.lines, label.kind, label.reads, label.mark) for label in side] for side in sides)
    picture = side_by_side(left, right, (f"before: {names[0]}", f"after: {names[1]}"))
    atomic_write(path, [picture.encode("utf-8", "replace")])

"""`atcpy diff`: what differs between two packages, two models, or a model and its package."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import Invocation, command
from atcpy.cli.outcome import Outcome
from atcpy.errors import AtcError, VerifyFailed

if TYPE_CHECKING:
    from atcpy.debug.diff import Difference, Group
    from atcpy.ir import Graph, Node
    from atcpy.report.diff_svg import Box


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, table=custom_ops.TABLE)(diff)


def diff(
    run: Invocation,
    a: Annotated[str, typer.Argument(metavar="A", help="A package, or a model.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The one to compare it with.")],
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="F.svg", help="Draw both graphs side by side, too.")
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit_code", help="End with 5 if they differ.")] = False,
    **options: Any,
) -> Outcome:
    """Show which nodes and attributes differ; those of one node of the model are compared."""
    from atcpy.debug.diff import diff_graphs

    before, after = (_graph(run, Path(name), options["custom_ops"]) for name in (a, b))
    difference = diff_graphs(before, after)
    lines = list(_lines(before, after, difference))
    if svg is not None:
        _draw(Path(svg), before, after, difference, (Path(a).name, Path(b).name))
        lines.append(f"drawn   {svg}")
    differs = VerifyFailed("V0001", f"{a} and {b} differ") if exit_code and not difference.same else None
    return Outcome(_record(difference, svg), lines, differs)


def _graph(run: Invocation, path: Path, modules: list[str] | None) -> "Graph":
    from atcpy.cli.inspect import is_package

    if is_package(path):
        from atcpy.report.package import PackageView

        return PackageView(path).graph
    from atcpy.ops.infer import KnownValues, infer_node
    from atcpy.options import ParseOptions
    from atcpy.stages.parse import parse

    options = ParseOptions(allow_hardlinks=run.option("allow_hardlinks"))
    graph = parse(path, options, custom_ops.load(modules)).graph
    known = KnownValues()
    for node in graph.nodes:
        with suppress(AtcError):  # then its types stay unknown here
            infer_node(node, known)
    return graph


# --------------------------------------------------------------------------------------------------------------------
# The listing


def _record(difference: "Difference", svg: str | None) -> dict[str, Any]:
    from atcpy.debug.diff import Kind

    changed = [
        {"a": old.name, "b": new.name, "kind": group.kind.value, "fields": list(group.fields)}
        for group in difference.groups
        if group.kind in (Kind.CHANGED, Kind.FUSED, Kind.SPLIT)
        for old in group.before
        for new in group.after[:1]
        if len(group.before) > 1 or len(group.after) == 1
    ]
    changed += [
        {"a": group.before[0].name, "b": new.name, "kind": group.kind.value, "fields": list(group.fields)}
        for group in difference.groups
        if len(group.before) == 1 and len(group.after) > 1
        for new in group.after
    ]
    nodes = {
        "same": difference.count(Kind.SAME),
        "only_a": [node.name for group in difference.groups if group.kind is Kind.REMOVED for node in group.before],
        "only_b": [node.name for group in difference.groups if group.kind is Kind.ADDED for node in group.after],
        "changed": changed,
    }
    return {"same": difference.same, "nodes": nodes, "svg": svg}


def _lines(before: "Graph", after: "Graph", difference: "Difference") -> Iterator[str]:
    from atcpy.debug.diff import Kind

    counts = " · ".join(f"{kind.value} {difference.count(kind)}" for kind in Kind if difference.count(kind))
    yield f"nodes   {_node_count(before)} → {_node_count(after)}   {counts or 'none'}"
    for kind in (Kind.CHANGED, Kind.FUSED, Kind.SPLIT, Kind.REMOVED, Kind.ADDED):
        for group in difference.groups:
            if group.kind is kind:
                yield f"{kind.value:<8}{_group_text(group)}"


def _node_count(graph: "Graph") -> int:
    return sum(node.op_type not in {"Const", "Data", "NetOutput"} for node in graph.nodes)


def _group_text(group: "Group") -> str:
    before, after = (" + ".join(f"{node.op_type} {node.name}" for node in side) for side in (group.before, group.after))
    text = f"{before} → {after}" if before and after else before or after
    notes = ", ".join(group.fields) or group.why
    return f"{text}   ({notes})" if notes else text


# --------------------------------------------------------------------------------------------------------------------
# The picture


def _draw(path: Path, before: "Graph", after: "Graph", difference: "Difference", titles: tuple[str, str]) -> None:
    from atcpy.om.atomic import atomic_write
    from atcpy.report.diff_svg import side_by_side

    groups: dict[Node, tuple[Group, str]] = {}
    number = 0
    for group in difference.groups:
        mark = ""
        if group.before and group.after and group.fields:
            number += 1
            mark = f"#{number}"
        groups.update(dict.fromkeys((*group.before, *group.after), (group, mark)))
    boxes = [_boxes(graph, groups) for graph in (before, after)]
    picture = side_by_side(boxes[0], boxes[1], (f"before: {titles[0]}", f"after: {titles[1]}"))
    atomic_write(path, [picture.encode("utf-8", "replace")])


def _boxes(graph: "Graph", groups: "dict[Node, tuple[Group, str]]") -> list["Box"]:
    from atcpy.report.diff_svg import Box

    nodes = [node for node in graph.nodes if node.op_type != "Const"]
    numbers = {node: number for number, node in enumerate(nodes)}
    boxes = []
    for node in nodes:
        group, mark = groups[node]
        reads = dict.fromkeys(numbers[v.producer] for v in node.operands if v.producer in numbers)
        boxes.append(Box(tuple(_texts(node, group)), group.kind.value, tuple(reads), mark))
    return boxes


def _texts(node: "Node", group: "Group") -> Iterator[str]:
    yield node.op_type
    if node.op_type == "NetOutput":
        return
    yield node.name
    for value in node.outputs[:2]:
        if value.desc.shape is not None:
            yield str(value.desc)
    body = _body(node, group)
    if body:
        yield "= " + body


def _body(node: "Node", group: "Group") -> str:
    """What a fused node consists of: the ops of its body, or those that it took the place of."""
    ops = [inner.op_type for body in node.subgraphs for inner in body.nodes]
    ops = [op for op in ops if op not in {"Data", "Const", "NetOutput"}]
    if not ops and node in group.after and len(group.before) > 1:
        ops = [old.op_type for old in group.before]
    return _joined(ops)


def _joined(ops: Sequence[str]) -> str:
    return " + ".join(ops)

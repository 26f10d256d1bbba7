"""The difference of two graphs as JSON, as lines of text, and as labels for a drawing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from atcpy.debug.diff import Difference, Group, Kind
from atcpy.ir import Graph, Node


def difference_record(difference: Difference) -> dict[str, Any]:
    """The members `same` and `nodes` of the result of `diff --json`."""
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
    return {"same": difference.same, "nodes": nodes}


def difference_lines(before: Graph, after: Graph, difference: Difference) -> Iterator[str]:
    """The counts, then a line for each group that differs."""
    counts = " · ".join(f"{kind.value} {difference.count(kind)}" for kind in Kind if difference.count(kind))
    yield f"nodes   {_node_count(before)} → {_node_count(after)}   {counts or 'none'}"
    for kind in (Kind.CHANGED, Kind.FUSED, Kind.SPLIT, Kind.REMOVED, Kind.ADDED):
        for group in difference.groups:
            if group.kind is kind:
                yield f"{kind.value:<8}{_group_text(group)}"


def _node_count(graph: Graph) -> int:
    return sum(not node.is_structural for node in graph.nodes)


def _group_text(group: Group) -> str:
    before, after = (" + ".join(f"{node.op_type} {node.name}" for node in side) for side in (group.before, group.after))
    text = f"{before} → {after}" if before and after else before or after
    notes = ", ".join(group.fields) or group.why
    return f"{text}   ({notes})" if notes else text


# --------------------------------------------------------------------------------------------------------------------
# The drawing


@dataclass(frozen=True, slots=True)
class NodeLabel:
    """A node to draw: its lines of text, the kind of its group, the numbers of the nodes that it reads, and a mark that
    it shares with the nodes of the other graph that it belongs to.
    """

    lines: tuple[str, ...]
    kind: str
    reads: tuple[int, ...]
    mark: str


def node_labels(before: Graph, after: Graph, difference: Difference) -> tuple[list[NodeLabel], list[NodeLabel]]:
    """The labels of the nodes of both graphs, in order."""
    groups: dict[Node, tuple[Group, str]] = {}
    number = 0
    for group in difference.groups:
        mark = ""
        if group.before and group.after and group.fields:
            number += 1
            mark = f"#{number}"
        groups.update(dict.fromkeys((*group.before, *group.after), (group, mark)))
    return _labels(before, groups), _labels(after, groups)


def _labels(graph: Graph, groups: dict[Node, tuple[Group, str]]) -> list[NodeLabel]:
    nodes = [node for node in graph.nodes if node.op_type != "Const"]
    numbers = {node: number for number, node in enumerate(nodes)}
    labels = []
    for node in nodes:
        group, mark = groups[node]
        reads = dict.fromkeys(numbers[v.producer] for v in node.operands if v.producer in numbers)
        labels.append(NodeLabel(tuple(_texts(node, group)), group.kind.value, tuple(reads), mark))
    return labels


def _texts(node: Node, group: Group) -> Iterator[str]:
    yield node.op_type
    if node.op_type == "NetOutput":
        return
    yield node.name
    for value in node.outputs[:2]:
        if value.desc.shape is not None:
            yield str(value.desc)
    if parts := _parts(node, group):
        yield "= " + " + ".join(parts)


def _parts(node: Node, group: Group) -> list[str]:
    """The ops of a fused node: those of its body, or those that it replaced."""
    ops = [inner.op_type for body in node.subgraphs for inner in body.nodes if not inner.is_structural]
    if not ops and node in group.after and len(group.before) > 1:
        ops = [old.op_type for old in group.before]
    return ops

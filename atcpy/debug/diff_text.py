"""The difference of two graphs as JSON, as lines of text, and as labels for a drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atcpy.debug.diff import Difference, Group, Kind
from atcpy.ir import Graph, Node


def difference_record(difference: Difference) -> dict[str, Any]:
    """The members `same`, `nodes` and `inputs` of the result of `diff --json`."""
    return {
        "same": difference.same,
        "nodes": _nodes_record(difference, is_node),
        "inputs": _nodes_record(difference, is_input),
    }


def is_node(node: Node) -> bool:
    """Does it compute anything?"""
    return not node.is_structural


def is_input(node: Node) -> bool:
    """Is it an input of the graph?"""
    return node.op_type == "Data"


def _nodes_record(difference: Difference, counted: Callable[[Node], bool]) -> dict[str, Any]:
    groups = [group for group in difference.groups if any(map(counted, (*group.before, *group.after)))]
    changed = [
        {"a": old.name, "b": new.name, "kind": group.kind.value, "fields": list(group.fields)}
        for group in groups
        if group.kind in (Kind.CHANGED, Kind.FUSED, Kind.SPLIT)
        for old in group.before
        for new in group.after[:1]
        if len(group.before) > 1 or len(group.after) == 1
    ]
    changed += [
        {"a": group.before[0].name, "b": new.name, "kind": group.kind.value, "fields": list(group.fields)}
        for group in groups
        if len(group.before) == 1 and len(group.after) > 1
        for new in group.after
    ]
    counts = difference.counts(counted)
    return {
        "before": sum(before for before, _ in counts.values()),
        "after": sum(after for _, after in counts.values()),
        "counts": {kind.value: list(count) for kind, count in counts.items()},
        "same": counts.get(Kind.SAME, (0, 0))[0],
        "only_a": [node.name for group in groups if group.kind is Kind.REMOVED for node in group.before],
        "only_b": [node.name for group in groups if group.kind is Kind.ADDED for node in group.after],
        "changed": changed,
    }


def difference_lines(difference: Difference) -> Iterator[str]:
    """The counts, which add up to those of the nodes before and after, then a line for each group that differs."""
    yield _count_line("nodes", difference.counts(is_node))
    inputs = difference.counts(is_input)
    if inputs.keys() - {Kind.SAME}:
        yield _count_line("inputs", inputs)
    for kind in (Kind.CHANGED, Kind.FUSED, Kind.SPLIT, Kind.REMOVED, Kind.ADDED):
        for group in difference.groups:
            if group.kind is kind:
                yield f"{kind.value:<8}{_group_text(group)}"


def _count_line(title: str, counts: Mapping[Kind, tuple[int, int]]) -> str:
    before, after = (sum(count[side] for count in counts.values()) for side in (0, 1))
    listed = " · ".join(f"{kind.value} {_count(*count)}" for kind, count in counts.items())
    return f"{title:<8}{before} → {after}   {listed or 'none'}"


def _count(before: int, after: int) -> str:
    return f"{before} → {after}" if before and after and before != after else str(before or after)


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

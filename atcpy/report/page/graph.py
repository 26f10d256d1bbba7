"""The graphs of a package as data for the page's script: nodes with their positions, and what is known of each.

Columns of numbers; each text is stored once, in `strings`. Lists are flat where their items are pairs or triples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from atcpy.ir import Graph, Node, TensorDesc, with_bodies
from atcpy.report.layered_layout import Spacing, lay_out
from atcpy.report.package import PackageView, Record
from atcpy.report.svg_text import shortened
from atcpy.report.units import shape

BOX_WIDTH, BOX_HEIGHT = 208, 54
_SPACING = Spacing(gap=22, step=38)
_MAX_LETTERS = 200  # of a name
_MAX_SOURCES = 48  # listed for one node
_MAX_REASONS = 16  # listed for one node


class _Strings:
    """Texts by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def add(self, line: str | None) -> int:
        """The number of a text; -1 for None."""
        return -1 if line is None else self._numbers.setdefault(shortened(line, _MAX_LETTERS), len(self._numbers))

    def all(self) -> list[str]:
        return list(self._numbers)


def graph_data(view: PackageView, seconds: Mapping[str, float], errors: Mapping[str, float]) -> Record:
    """The graph of a package, and those of bodies in it. `seconds` and `errors` are those of nodes, by name."""
    strings = _Strings()
    graphs = list(with_bodies(view.graph))
    numbers = {graph: number for number, graph in enumerate(graphs)}
    tasks: dict[str, list[Record]] = defaultdict(list)
    for task in view.tasks():
        tasks[task["name"]].append(task)
    reasons = _reasons(view, graphs)
    owners = {body: node for graph in graphs for node in graph.nodes for body in node.subgraphs if body in numbers}
    listed = [_Columns(graph, strings, tasks, reasons, numbers) for graph in graphs]
    return {
        "box": [BOX_WIDTH, BOX_HEIGHT, BOX_HEIGHT + _SPACING.step],
        "graphs": [columns.record(owners.get(columns.graph), numbers, seconds, errors) for columns in listed],
        "strings": strings.all(),
    }


def shown_nodes(graph: Graph) -> list[Node]:
    """All nodes but constants."""
    return [node for node in graph.nodes if node.op_type != "Const"]


def _reasons(view: PackageView, graphs: Iterable[Graph]) -> Mapping[str, list[tuple[str, str, str]]]:
    """By the name of a node: the passes that left it alone, their reasons and the values that decided."""
    by_source: dict[str, str] = {}
    for graph in graphs:
        for node in graph.nodes:
            for name in (node.name, *node.sources):
                by_source.setdefault(name, node.name)
    found: dict[str, dict[tuple[str, str, str], None]] = defaultdict(dict)
    for record in view.graph.decisions.passes:
        for reject in record.rejects:
            names = [reject.where, *(name for _, *names in reject.nodes[:1] for name in names)]
            for owner in dict.fromkeys(by_source[name] for name in names if name in by_source):
                if len(found[owner]) < _MAX_REASONS:
                    found[owner][record.name, reject.reason, reject.detail] = None
    return {node: list(entries) for node, entries in found.items()}


class _Columns:
    """The nodes of one graph."""

    def __init__(
        self,
        graph: Graph,
        strings: _Strings,
        tasks: Mapping[str, Sequence[Record]],
        reasons: Mapping[str, Sequence[tuple[str, str, str]]],
        bodies: Mapping[Graph, int],
    ) -> None:
        self.graph = graph
        self._nodes = shown_nodes(graph)
        self._add = strings.add
        self._tasks, self._reasons, self._bodies = tasks, reasons, bodies
        self._numbers = {node: number for number, node in enumerate(self._nodes)}

    def record(
        self,
        owner: Node | None,
        numbers: Mapping[Graph, int],
        seconds: Mapping[str, float],
        errors: Mapping[str, float],
    ) -> Record:
        """All columns; `owner` is the node that the graph is a body of."""
        reads = [
            list(dict.fromkeys(self._numbers[v.producer] for v in node.operands if v.producer in self._numbers))
            for node in self._nodes
        ]
        layout = lay_out([(BOX_WIDTH, BOX_HEIGHT)] * len(self._nodes), reads, _SPACING)
        edges = [n for edge in layout.edges() for n in (edge.source, edge.target, round(edge.aside))]
        nodes = self._nodes
        record: dict[str, Any] = {
            "title": self._add(self.graph.name if owner is None else f"body of {owner.name}"),
            "parent": -1 if owner is None or owner.graph is None else numbers.get(owner.graph, -1),
            "name": [self._add(node.name) for node in nodes],
            "op": [self._add(node.op_type) for node in nodes],
            "engine": [self._add(node.engine.value if node.engine else None) for node in nodes],
            "x": [round(position.x) for position in layout.positions],
            "row": [position.row for position in layout.positions],
            "edges": edges,
            "in": [[*self._values(node.operands)] for node in nodes],
            "out": [[*self._values(node.outputs)] for node in nodes],
            "sources": [self._sources(node) for node in nodes],
            "passes": [list(map(self._add, node.passes)) for node in nodes],
            "tasks": [[self._task(task) for task in self._tasks.get(node.name, ())] for node in nodes],
            "why": [
                [self._add(part) for entry in self._reasons.get(node.name, ()) for part in entry] for node in nodes
            ],
            "bodies": [[self._bodies[body] for body in node.subgraphs if body in self._bodies] for node in nodes],
        }
        for key, measured in (("seconds", seconds), ("errors", errors)):
            if measured:
                record[key] = [measured.get(node.name) for node in nodes]
        return record

    def _values(self, values: Iterable[Any]) -> Iterator[int]:
        for value in values:
            yield self._add(value.name)
            yield self._add(_desc_text(value.desc))

    def _sources(self, node: Node) -> list[int]:
        shown = list(map(self._add, node.sources[:_MAX_SOURCES]))
        more = len(node.sources) - _MAX_SOURCES
        return [*shown, self._add(f"and {more} more")] if more > 0 else shown

    def _task(self, task: Record) -> list[int]:
        """Its number, kernel, stream and plan; then region, offset and bytes of each result, -1 if not known."""
        results = [
            number
            for value in task["outputs"]
            for number in (
                self._add(value["region"]),
                -1 if value["offset"] is None else value["offset"],
                -1 if value["bytes"] is None else value["bytes"],
            )
        ]
        return [task["task"], self._add(task["kernel"]), task["stream"], self._add(task.get("plan")), *results]


def _desc_text(desc: TensorDesc) -> str:
    dims = None if desc.shape is None else [dim if isinstance(dim, int) else dim.name for dim in desc.shape]
    text = f"{desc.dtype.long} {shape(dims)} {desc.format}"
    if desc.is_static and list(desc.memory_shape) != dims:
        text += f", stored as {shape(desc.memory_shape)}"
    return text

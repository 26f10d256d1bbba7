"""Rewriter: the builder of passes, which also replaces values and records what a pass changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from atcpy.ir.barrier import may_vanish
from atcpy.ir.builder import Builder
from atcpy.ir.graph import Graph
from atcpy.ir.node import Node, Value


class Rewriter(Builder):
    """Creates nodes before `anchor` on behalf of one pass and replaces values by their outputs. The new nodes get the
    sources and passes of the nodes that they replace, and the pass itself; new constants get the pass alone. Types are
    inferred after the rewrite, or by `infer` at once.
    """

    anchor: Node

    def __init__(
        self,
        graph: Graph,
        anchor: Node,
        pass_name: str,
        replaced: Iterable[Node] = (),
        *,
        infer: Callable[[Node], None] | None = None,
    ) -> None:
        nodes = list(replaced) or [anchor]
        super().__init__(
            graph,
            anchor,
            name=anchor.name,
            sources=merge_names(*(node.sources for node in nodes)),
            passes=merge_names(*(node.passes for node in nodes), (pass_name,)),
            infer=infer,
        )
        self.pass_name = pass_name
        self.const_sources, self.const_passes = (), (pass_name,)

    def replace(self, old: Value, new: Value) -> None:
        """Make the readers of `old` read `new`; a value created here takes over the name."""
        self.graph.replace_uses(old, new)
        if new.producer.is_source:
            return
        if new.producer in self.created:
            self.graph.take_name(new, old)
            if new.desc.shape is None:
                new.desc = old.desc
        else:
            new.producer.sources = merge_names(new.producer.sources, self.sources)
            new.producer.passes = merge_names(new.producer.passes, self.passes)

    def _node_name(self, op_type: str) -> str:
        return self.name

    def _const_name(self, label: str) -> str:
        return f"{self.name}_{label}"


def erase_dead(graph: Graph, roots: Iterable[Node], why: str | None = None) -> int:
    """Erases those of `roots` that nobody reads, and what only they read; returns the number.
    With a reason `why`, their sources are entered in the decisions as removed.
    """
    pending, count = list(roots), 0
    while pending:
        node = pending.pop()
        if node.graph is None or node.op_type in {"Data", "NetOutput"} or node.is_read:
            continue
        if not may_vanish(node):
            continue
        feeders = [value.producer for value in node.operands]
        if why is not None and node.op_type != "Const":
            for source in node.sources:
                graph.decisions.removed.setdefault(source, why)
        node.graph.erase(node)
        count += 1
        pending.extend(feeders)
    return count


def merge_names(*lists: Iterable[str]) -> tuple[str, ...]:
    """The names of all lists, each once, in the order of their first coming."""
    return tuple(dict.fromkeys(name for names in lists for name in names))

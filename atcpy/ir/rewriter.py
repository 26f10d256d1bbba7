"""The one way for passes to replace nodes: provenance is carried along here, not by the passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy.typing as npt

from atcpy.ir.dtype import DType
from atcpy.ir.graph import Graph
from atcpy.ir.node import Node, Value
from atcpy.ir.origin import may_vanish
from atcpy.ir.tensor import Tensor


class Rewriter:
    """Makes new nodes before `root` on behalf of one pass and finally puts one value in the place
    of another. What is made stands for the `sources` of the nodes that it replaces.
    """

    def __init__(self, graph: Graph, root: Node, pass_name: str, replaced: Iterable[Node] = ()) -> None:
        self.graph = graph
        self.root = root
        self.pass_name = pass_name
        self.created: dict[Node, None] = {}  # in order, asked for each value that is replaced
        nodes = list(replaced) or [root]
        self._sources = merge_names(*(node.sources for node in nodes))
        self._passes = merge_names(*(node.passes for node in nodes), (pass_name,))

    def insert(self, op_type: str, *inputs: Value | None, **attrs: object) -> Value:
        """Adds a node before the root and returns its output; the frame infers its type."""
        return self.insert_many(op_type, *inputs, outputs=1, **attrs)[0]

    def insert_from(self, domain: str, op_type: str, *inputs: Value | None, **attrs: object) -> Value:
        """The same for an op of another domain."""
        return self._insert(domain, op_type, inputs, 1, attrs)[0]

    def insert_many(self, op_type: str, *inputs: Value | None, outputs: int, **attrs: object) -> list[Value]:
        """The same with so many outputs."""
        return self._insert("", op_type, inputs, outputs, attrs)

    def _insert(
        self, domain: str, op_type: str, inputs: Sequence[Value | None], outputs: int, attrs: Mapping[str, object]
    ) -> list[Value]:
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        node = self.graph.insert_before(
            self.root, op_type, inputs, attrs, name=self.root.name, outputs=("",) * outputs, domain=domain
        )
        node.sources, node.passes = self._sources, self._passes
        self.created[node] = None
        return list(node.outputs)

    def const(
        self, array: npt.ArrayLike, *, like: Value | None = None, name: str = "", dtype: DType | None = None
    ) -> Value:
        """Adds a constant; `like` lends its name, and its element type unless `dtype` is given."""
        if dtype is None and like is not None:
            dtype = like.desc.dtype
        wanted = name or (like.name if like is not None else f"{self.root.name}_const")
        value = self.graph.add_const(Tensor.of(array, dtype), wanted, before=self.root)
        if like is not None:
            value.producer.sources = like.producer.sources
        value.producer.passes = (self.pass_name,)
        return value

    def replace(self, old: Value, new: Value) -> None:
        """Makes the readers of `old` read `new`; a value made here takes over the name."""
        self.graph.replace_uses(old, new)
        if new.producer in self.created:
            self.graph.take_name(new, old)
            if new.desc.shape is None:
                new.desc = old.desc
        elif new.producer.op_type not in {"Data", "Const"}:
            new.producer.sources = merge_names(new.producer.sources, self._sources)
            new.producer.passes = merge_names(new.producer.passes, self._passes)


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

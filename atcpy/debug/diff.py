"""What differs between two graphs: nodes and attributes.

    1. provenance: nodes that stand for a node of the model in common belong together, so fused ones find their parts
    2. structure: of the rest, nodes of one op whose inputs come from nodes that belong together

Each step is linear in the nodes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from atcpy.ir import Graph, Node, Tensor

_LEFT_OUT = frozenset({"Const"})
_INTERNAL = frozenset({"index", "names"})  # attributes of Data and NetOutput


class Kind(Enum):
    """What became of the nodes of a group."""

    SAME = "same"
    CHANGED = "changed"
    FUSED = "fused"
    SPLIT = "split"
    REMOVED = "removed"
    ADDED = "added"


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that belong together: those before and those after. `fields` differ; `why` a node went."""

    kind: Kind
    before: tuple[Node, ...]
    after: tuple[Node, ...]
    fields: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """All groups, in the order of the nodes before, then of those after."""

    groups: tuple[Group, ...]

    @property
    def same(self) -> bool:
        """Is there no difference?"""
        return all(group.kind is Kind.SAME for group in self.groups)

    def counts(self, count: Callable[[Node], bool]) -> dict[Kind, tuple[int, int]]:
        """How many nodes before, and how many after, are in groups of each kind, of those that `count` is true for."""
        found: dict[Kind, tuple[int, int]] = {}
        for kind in Kind:
            groups = [group for group in self.groups if group.kind is kind]
            before = sum(count(node) for group in groups for node in group.before)
            after = sum(count(node) for group in groups for node in group.after)
            if before or after:
                found[kind] = (before, after)
        return found


def diff_graphs(before: Graph, after: Graph) -> Difference:
    """Compares two graphs; bodies of control flow belong to their nodes."""
    old = [node for node in before.nodes if node.op_type not in _LEFT_OUT]
    new = [node for node in after.nodes if node.op_type not in _LEFT_OUT]
    joined = _Joined([*old, *new])
    _join_by_provenance(joined, old, new)
    _join_by_structure(joined, old, new)
    members: dict[Node, tuple[list[Node], list[Node]]] = defaultdict(lambda: ([], []))
    for side, nodes in enumerate((old, new)):
        for node in nodes:
            members[joined.find(node)][side].append(node)
    removed = {**before.decisions.removed, **after.decisions.removed}
    return Difference(
        tuple(_group(before_nodes, after_nodes, removed) for before_nodes, after_nodes in members.values())
    )


class _Joined:
    """Disjoint sets of nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._parent = {node: node for node in nodes}

    def find(self, node: Node) -> Node:
        root = node
        while self._parent[root] is not root:
            root = self._parent[root]
        while self._parent[node] is not root:
            self._parent[node], node = root, self._parent[node]
        return root

    def join(self, one: Node, other: Node) -> None:
        self._parent[self.find(other)] = self.find(one)


def _names(node: Node) -> tuple[str, ...]:
    return node.sources or (node.name,)


def _named(node: Node) -> Iterator[tuple[str, str]]:
    """The names of a node, apart from those of inputs and outputs, which may be called as a node is."""
    kind = node.op_type if node.is_structural else ""
    yield from ((kind, name) for name in _names(node))


def _join_by_provenance(joined: _Joined, old: Sequence[Node], new: Sequence[Node]) -> None:
    """A node that merely came of another, such as a cast beside a Conv, stays with it."""
    by_name: dict[tuple[str, str], Node] = {}
    for node in old:
        for name in _named(node):
            if name in by_name:
                joined.join(by_name[name], node)
            by_name.setdefault(name, node)
    for node in new:
        for name in _named(node):
            if name in by_name:
                joined.join(by_name[name], node)


def _join_by_structure(joined: _Joined, old: Sequence[Node], new: Sequence[Node]) -> None:
    known: set[Node] = set()  # sets with nodes of both sides
    sides: dict[Node, int] = defaultdict(int)
    for side, nodes in ((1, old), (2, new)):
        for node in nodes:
            sides[joined.find(node)] |= side
    known = {root for root, seen in sides.items() if seen == 3}

    def key(node: Node) -> Hashable:
        feeders = tuple(
            None if value is None or value.producer.op_type == "Const" else joined.find(value.producer)
            for value in node.inputs
        )
        return node.op_type, tuple(sorted((name, _attr(attr)) for name, attr in node.attrs.items())), feeders

    waiting: dict[Hashable, deque[Node]] = defaultdict(deque)
    for node in old:
        if joined.find(node) not in known:
            waiting[key(node)].append(node)
    for node in new:
        if joined.find(node) not in known and (twins := waiting.get(key(node))):
            joined.join(twins.popleft(), node)


def _attr(attr: object) -> str:
    if isinstance(attr, Tensor):
        return f"{attr.dtype} {attr.shape} {attr.digest!r}"
    return f"<{attr.name}: {len(attr)} nodes>" if isinstance(attr, Graph) else repr(attr)


def _group(before: list[Node], after: list[Node], removed: dict[str, str]) -> Group:
    before_nodes, after_nodes = tuple(before), tuple(after)
    if not after_nodes:
        why = next((removed[name] for node in before_nodes for name in _names(node) if name in removed), "")
        return Group(Kind.REMOVED, before_nodes, after_nodes, why=why)
    if not before_nodes:
        return Group(Kind.ADDED, before_nodes, after_nodes)
    fields = tuple(dict.fromkeys(field for field in _differences(before_nodes, after_nodes)))
    if len(before_nodes) == len(after_nodes) == 1:
        return Group(Kind.CHANGED if fields else Kind.SAME, before_nodes, after_nodes, fields)
    return Group(Kind.FUSED if len(before_nodes) >= len(after_nodes) else Kind.SPLIT, before_nodes, after_nodes, fields)


def _differences(before_nodes: Sequence[Node], after_nodes: Sequence[Node]) -> Iterator[str]:
    """What differs between the nodes that make the result."""
    one, other = before_nodes[-1], after_nodes[-1]
    if one.op_type != other.op_type or one.domain != other.domain:
        yield f"op {one.op_type}→{other.op_type}"
    else:
        for name in sorted({*one.attrs, *other.attrs} - _INTERNAL):
            old, new = one.attrs.get(name), other.attrs.get(name)
            if _attr(old) != _attr(new):
                yield f"{name} {_short(old)}→{_short(new)}"
    for old_value, new_value in zip(one.outputs, other.outputs, strict=False):
        old_desc, new_desc = old_value.desc, new_value.desc
        if old_desc.shape is None and new_desc.shape is not None:
            continue  # a model of which the shapes were not inferred
        if old_desc.dtype is not new_desc.dtype:
            yield f"dtype {old_desc.dtype.long}→{new_desc.dtype.long}"
        if old_desc.shape != new_desc.shape:
            yield f"shape {_dims(old_desc.shape)}→{_dims(new_desc.shape)}"
        if old_desc.format != new_desc.format:
            yield f"format {old_desc.format}→{new_desc.format}"
    if len(one.outputs) != len(other.outputs):
        yield f"outputs {len(one.outputs)}→{len(other.outputs)}"
    if one.engine is not None and other.engine is not None and one.engine is not other.engine:
        yield f"engine {one.engine.value}→{other.engine.value}"


def _dims(shape: object) -> str:
    return "?" if shape is None else "[" + ",".join(map(str, shape)) + "]"  # type: ignore[call-overload]


def _short(attr: object) -> str:
    text = "–" if attr is None else _attr(attr)
    return text if len(text) <= 40 else text[:37] + "…"

"""Groups of elementwise nodes and reductions that one kernel can compute but for its limits: which nodes qualify, and
which join.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from atcpy.ir import Engine, Graph, Node, Reject, Value
from atcpy.ir.order import depth_first_order
from atcpy.ir.shape import element_count
from atcpy.ir.symbolic import example, same
from atcpy.ops import Trait, find_opdef, is_view
from atcpy.ops.core.spans import Spans, cuts_rows, dims_of, repeats, within
from atcpy.ops.elementwise.graph_kernel import add_node, operand_spans, row_of
from atcpy.ops.elementwise.graph_program import (
    MAX_DIMS,
    MAX_ROW,
    MAX_WORDS,
    REGISTER_DTYPES,
    NoInstruction,
    Program,
    is_immediate,
)
from atcpy.passes.clusters import Cluster, join_clusters

MAX_NODES = 256  # of a group: all work is linear in the graph, and a kernel has far fewer
MAX_VIEWS = 16  # between a value and its reader, that are seen through
LAUNCH_COST = 8192  # beside 1 for a byte, or for a simple op on an element
STEP_COST = 128  # of an instruction for each tile
TILE = 1024  # elements, more or less; a row that is longer than half of it is one
LONG_ROW = 512  # what repeats along a row as long is computed once a row
_MOVES_OR_REDUCES = Trait.BROADCAST | Trait.REDUCTION


@dataclass(frozen=True, slots=True)
class Part:
    """What a node would be of a kernel: words of instructions, the cost of an element, how many it computes, how many
    of these it makes one of (1: it is no reduction); which operands are read, and how each is repeated.
    """

    words: int
    cost: int
    elements: int
    row: int
    reads: tuple[tuple[int, Spans], ...]

    @property
    def result_spans(self) -> Spans:
        """How the result is repeated within what is computed."""
        return _rows(self.row)


@dataclass(frozen=True, slots=True)
class _Edge:
    """A value that one group reads of another, and how it is repeated within the domain of each."""

    source: Node
    reader: Node
    above: Spans
    below: Spans | None


def views_behind(value: Value) -> list[Node]:
    """The views through which a value shows the memory of another, the nearest first."""
    found: list[Node] = []
    while len(found) < MAX_VIEWS and is_view(value.producer) and value.index == 0 and _is_settled(value.producer):
        found.append(value.producer)
        value = value.producer.operand(0)
    return found


def with_views(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, and in front of each the views that it reads its operands through."""
    found: dict[Node, None] = {}
    for node in nodes:
        for value in node.operands:
            found.update(dict.fromkeys(reversed(views_behind(value))))
        found[node] = None
    return list(found)


def _is_settled(node: Node) -> bool:
    """True if only the first operand is computed at run time."""
    return all(value.tensor is not None for value in node.operands[1:])


def _root(value: Value) -> Value:
    views = views_behind(value)
    return views[-1].operand(0) if views else value


class Groups:
    """The groups of a graph. `rejects` has the reasons for which neighbours are apart.

    parts: the nodes that can be in a kernel.
    read: the nodes and values behind the operands of each of these, views left out, and how they are repeated within
        its result; of a reduction, within what it reads.
    users: who reads the result of each, directly or through views; once for each use.
    """

    def __init__(self, graph: Graph) -> None:
        self.rejects: list[Reject] = []
        self.parts: dict[Node, Part] = {}
        self.read: dict[Node, list[tuple[Node, Value, Spans]]] = {}
        self.users: dict[Node, list[Node]] = {}
        self._readers: dict[Node, list[tuple[Node, Spans]]] = {}
        self._unfit: dict[Node, Reject] = {}
        self._spans: dict[Node, Spans] = {}  # of what each node computes within its group's domain
        self._row: dict[Cluster, int] = {}
        self._joint: tuple[_Edge, tuple[Spans, Spans]] | None = None  # of the groups that may join next
        self._known: dict[object, Part] = {}  # by all that decides what a node would be
        self._nodes = [node for node in graph.nodes if not node.is_structural and not is_view(node)]
        for node in self._nodes:
            self._add_part(node)
        for node, read in self.read.items():
            self.users[node] = list(_final_users(node))
            self._spans[node] = ()
            for source, _, own in read:
                self._readers.setdefault(source, []).append((node, own))

    def find(self) -> Iterator[list[Node]]:
        """The groups of two nodes and more, each in an order in which values follow what they depend on closely."""
        clusters = join_clusters(self._nodes, _producers, self._may_join, self._joining)
        for node, reject in self._unfit.items():
            if any(source in self.parts for source in _producers(node)) or self._is_read(node):
                self.rejects.append(reject)
        for cluster in clusters:
            for nodes in self._without_tail(cluster) if len(cluster.nodes) > 1 else ():
                yield self._depth_first(nodes)

    def outer_reads(self, node: Node) -> Iterator[tuple[Node, Value, Spans]]:
        """What a node reads: who makes it, the value, and how it is repeated within its group's results."""
        for source, value, own in self.read[node]:
            whole = within(self._spans[node], own)
            yield source, value, () if whole is None else whole

    def operand_spans(self, node: Node) -> Iterable[tuple[Value, Spans]]:
        """The same as graph_kernel's, computed once."""
        part = self.parts.get(node)
        if part is None:
            return operand_spans(node)
        operands = node.operands
        return [(operands[index], spans) for index, spans in part.reads]

    def is_alike(self, nodes: Iterable[Node]) -> bool:
        """True if all these compute as many elements, in the group's domain alike, or some one for each of its rows."""
        ways = {self._result_spans(node) for node in nodes}
        return len(ways) == 1 or (len(ways) == 2 and all(spans == () or _are_rows(spans) for spans in ways))

    def is_read_outside(self, node: Node, members: set[Node]) -> bool:
        """True if somebody else than the members reads a node's result, or a view of it."""
        return any(user not in members for user in self.users[node])

    # --- nodes -----------------------------------------------------------------------------------

    def _add_part(self, node: Node) -> None:
        opdef = find_opdef(node)
        if opdef is None or not (opdef.takes_elements(node) or opdef.has_any(_MOVES_OR_REDUCES)):
            return
        if node.engine not in (Engine.VECTOR, Engine.AICORE) or len(node.outputs) != 1:
            return
        if opdef.has_any(Trait.BROADCAST) and not _is_settled(node):
            return
        if same(element_count(node.output.desc.memory_shape) * row_of(node), 0):
            return  # nothing runs
        form = _form_of(node)
        part = self._known.get(form)
        if part is None:
            try:
                part = self._known[form] = _part_of(node)
            except NoInstruction as error:
                self._unfit[node] = error.reject
                return
        self.parts[node] = part
        roots = [_root(value) for value, _ in self.operand_spans(node)]
        self.read[node] = [(root.producer, root, own) for root, (_, own) in zip(roots, part.reads, strict=True)]

    def _is_read(self, node: Node) -> bool:
        return any(user in self.parts for user in _final_users(node))

    # --- groups ----------------------------------------------------------------------------------

    def _may_join(self, parent: Cluster, child: Cluster) -> bool:
        first, second = parent.nodes[0], child.nodes[0]
        if first not in self.parts or second not in self.parts or len(parent.nodes) + len(child.nodes) > MAX_NODES:
            return False
        edges = self._edges(parent, child)
        link = _link(edges)
        if link is None:
            reject: Reject | None = Reject("broadcast", edges[0].reader.name, reads(edges[0].source))
        else:
            reject = self._objection(parent, child, edges[0], link)
            self._joint = edges[0], link
        if reject is not None:
            self.rejects.append(reject)
        return reject is None

    def _objection(self, parent: Cluster, child: Cluster, edge: _Edge, link: tuple[Spans, Spans]) -> Reject | None:
        """Why two groups with this link between their domains stay apart."""
        source, reader = edge.source, edge.reader
        where, detail = reader.name, reads(source)
        above, below = link
        rows = self._rows_of(parent), self._rows_of(child)
        row = max(rows)
        is_along_rows = row > 1 and _rows(row) in link
        # Reductions are over rows of the whole domain, all of one length.
        is_apart = any(spans and own > 1 for spans, own in zip(link, rows, strict=True))
        if is_apart or (1 not in rows and rows[0] != rows[1]) or (below and not is_along_rows):
            return Reject("broadcast", where, detail)
        if not self._fits_domain(parent, above, row) or not self._fits_domain(child, below, row):
            return Reject("broadcast", where, detail)
        if not above:
            return None
        members = {*parent.nodes, *child.nodes}
        read_outside = (node for node in parent.nodes if self.is_read_outside(node, members))
        if any(not is_along_rows or self._result_spans(node) for node in read_outside):
            return Reject("second-consumer", where, detail)
        if self._recomputation(parent, reader, above) > 2 * example(source.output.desc.nbytes) + LAUNCH_COST:
            return Reject("recomputation", where, detail)
        return None

    def _edges(self, parent: Cluster, child: Cluster) -> list[_Edge]:
        """What nodes of a child read of a parent's."""
        if len(child.nodes) <= len(parent.nodes):
            members = set(parent.nodes)
            pairs = [(s, node, own) for node in child.nodes for s, _, own in self.read[node] if s in members]
        else:
            members = set(child.nodes)
            pairs = [(s, r, own) for s in parent.nodes for r, own in self._readers.get(s, ()) if r in members]
        return [_Edge(s, r, self._result_spans(s), within(self._spans[r], own)) for s, r, own in pairs]

    def _result_spans(self, node: Node) -> Spans:
        """How a node's result is repeated within its group's domain."""
        return self.parts[node].result_spans or self._spans[node]  # a reduction computes the whole domain

    def _rows_of(self, cluster: Cluster) -> int:
        """How many elements a group's reductions make one of; 1 if it has none."""
        return self._row.get(cluster, self.parts[cluster.nodes[0]].row)

    def _fits_domain(self, cluster: Cluster, spans: Spans, row: int) -> bool:
        """True if all nodes of a group can lie in a domain within which its own is repeated, with rows that are not cut
        where they are reduced.
        """
        if not spans and row == 1:
            return True
        placed = [within(spans, self._spans[node]) for node in cluster.nodes]
        if row > 1:
            placed += [
                own if whole is None else within(whole, own)
                for node, whole in zip(cluster.nodes, placed, strict=True)
                for *_, own in self.read[node]
            ]
        known = [whole for whole in placed if whole is not None]
        return len(known) == len(placed) and not cuts_rows(known, row)

    def _recomputation(self, parent: Cluster, reader: Node, spans: Spans) -> int:
        """What computing the parent's values for each of their repetitions costs more."""
        times = example(repeats(spans))
        low, high = map(example, spans[0])
        if low == 1 and high > LONG_ROW:
            times //= high
        parts = [(self.parts[node], self._spans[node]) for node in parent.nodes]
        return sum(part.cost * example(part.elements * repeats(own)) * (times - 1) for part, own in parts)

    def _joining(self, parent: Cluster, child: Cluster, is_joined: bool) -> None:
        """Lay two groups, about which `_may_join` was asked last, into one domain, or note that a cycle forbids it."""
        assert self._joint is not None
        edge, link = self._joint
        if not is_joined:
            self.rejects.append(Reject("cycle", edge.reader.name, reads(edge.source)))
            return
        self._row[parent] = self._row[child] = max(self._rows_of(parent), self._rows_of(child))
        for cluster, spans in zip((parent, child), link, strict=True):
            for node in cluster.nodes if spans else ():
                placed = within(spans, self._spans[node])
                assert placed is not None
                self._spans[node] = placed

    def _without_tail(self, cluster: Cluster) -> list[list[Node]]:
        """A group, and apart from it what reads only its reduced values, where that costs less: a kernel computes it
        for a few rows at a time.
        """
        row, members, tail = self._rows_of(cluster), set(cluster.nodes), set[Node]()
        for node in reversed(cluster.nodes) if row > 1 else ():
            if self._spans[node] and all(r in tail for r, _ in self._readers.get(node, ()) if r in members):
                tail.add(node)
        if not tail:
            return [cluster.nodes]
        rest = [node for node in cluster.nodes if node not in tail]
        read = {source for node in tail for source, *_ in self.read[node] if source in members and source not in tail}
        row = example(row)
        rows = max(example(self.parts[node].elements) for node in rest) // row
        extra = len(tail) * (rows * row // TILE + 1 if row <= TILE // 2 else rows) * STEP_COST
        if extra <= LAUNCH_COST + sum(2 * example(source.output.desc.nbytes) for source in read):
            return [cluster.nodes]
        return [rest, [node for node in cluster.nodes if node in tail]]

    def _depth_first(self, nodes: Sequence[Node]) -> list[Node]:
        members = set(nodes)
        return depth_first_order(nodes, lambda node: (s for s, *_ in self.read[node] if s in members))


def _form_of(node: Node) -> object:
    """All that decides what a node would be of a kernel."""
    operands = tuple((value.desc, value.tensor) for value in node.operands)
    return node.op_type, node.domain, tuple(node.attrs.items()), operands, node.output.desc


def _part_of(node: Node) -> Part:
    """Raises NoInstruction for a node that cannot be in a kernel."""
    row = row_of(node)
    elements = element_count(node.output.desc.memory_shape) * row
    spans = list(operand_spans(node))
    dims = dims_of(elements, [own for _, own in spans])
    if dims is None or len(dims) > MAX_DIMS:
        raise NoInstruction(Reject("rank", node.name, f"{MAX_DIMS} dims do not do"))
    if node.output.desc.dtype not in REGISTER_DTYPES:
        raise NoInstruction(Reject("dtype", node.name, node.output.desc.dtype.long))
    program = Program()
    add_node(program, node, dict.fromkeys((value for value, _ in spans), 0))
    if len(program.code) > MAX_WORDS:
        raise NoInstruction(Reject("too-many-instructions", node.name))
    indices = [index for index, value in enumerate(node.operands) if not is_immediate(value)]
    reads = tuple((index, own) for index, (_, own) in zip(indices, spans, strict=False))  # a move reads the first only
    return Part(len(program.code), program.cost, elements, row, reads)


def reads(source: Node) -> str:
    """The detail of a reason against two nodes in one kernel."""
    return f"reads {source.output.name}"


def _link(edges: Sequence[_Edge]) -> tuple[Spans, Spans] | None:
    """How the domains of those who make and of those who read are repeated within one for both; None if there is no
    such, or not the same for all.
    """
    links: set[tuple[Spans, Spans] | None] = set()
    for edge in edges:
        if edge.above == edge.below:
            links.add(((), ()))
        elif edge.above and edge.below:
            links.add(None)
        else:
            links.add(None if edge.below is None else (edge.below, edge.above))
    return links.pop() if len(links) == 1 else None


def _rows(row: int) -> Spans:
    return ((1, row),) if row > 1 else ()


def _are_rows(spans: Spans) -> bool:
    return len(spans) == 1 and spans[0][0] == 1 and spans[0][1] <= MAX_ROW


def _producers(node: Node) -> list[Node]:
    return [_root(value).producer for value in node.operands]


def _final_users(node: Node) -> Iterator[Node]:
    """Who reads a node's results, directly or through views; once for each use."""
    pending = [(value, 0) for value in node.outputs]
    while pending:
        value, depth = pending.pop()
        for user in value.users:
            if depth < MAX_VIEWS and is_view(user) and _is_settled(user) and user.input(0) is value:
                pending.append((user.output, depth + 1))
            else:
                yield user

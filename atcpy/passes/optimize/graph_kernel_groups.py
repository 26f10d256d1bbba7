"""Groups of elementwise nodes that one kernel can compute but for its limits: which nodes qualify, and which join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from atcpy.ir import Engine, Graph, Node, Reject, Value
from atcpy.ir.shape import element_count
from atcpy.ops import find_opdef, is_view
from atcpy.ops.graph_kernel import STRUCTURAL, add_node, operand_spans
from atcpy.ops.graph_program import MAX_DIMS, MAX_WORDS, REGISTER_DTYPES, NoInstruction, Program, is_immediate
from atcpy.ops.spans import Spans, dims_of, repeats, within
from atcpy.passes.clusters import Cluster, join_clusters

MAX_NODES = 256  # of a group: all work is linear in the graph, and a kernel has far fewer
MAX_VIEWS = 16  # between a value and its reader, that are seen through
LAUNCH_COST = 8192  # beside 1 for a byte, or for a simple op on an element
LONG_ROW = 512  # what repeats along a row as long is computed once a row


@dataclass(frozen=True, slots=True)
class Part:
    """What a node would be of a kernel: words of instructions, the cost of an element, how many it computes; which
    operands are read, and how each is repeated.
    """

    words: int
    cost: int
    elements: int
    reads: tuple[tuple[int, Spans], ...]


def views_behind(value: Value) -> list[Node]:
    """The views through which a value shows the memory of another, the nearest first."""
    found: list[Node] = []
    while len(found) < MAX_VIEWS and is_view(value.producer) and value.index == 0 and _is_settled(value.producer):
        found.append(value.producer)
        value = value.producer.operand(0)
    return found


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
        its result.
    users: who reads the result of each, directly or through views; once for each place.
    """

    def __init__(self, graph: Graph) -> None:
        self.rejects: list[Reject] = []
        self.parts: dict[Node, Part] = {}
        self.read: dict[Node, list[tuple[Node, Value, Spans]]] = {}
        self.users: dict[Node, list[Node]] = {}
        self._readers: dict[Node, list[tuple[Node, Spans]]] = {}
        self._unfit: dict[Node, Reject] = {}
        self._spans: dict[Node, Spans] = {}  # of each node's result within its group's
        self._known: dict[object, Part] = {}  # by all that decides what a node would be
        self._nodes = [node for node in graph.nodes if node.op_type not in STRUCTURAL and not is_view(node)]
        for node in self._nodes:
            self._look_at(node)
        for node, read in self.read.items():
            self.users[node] = list(_final_users(node))
            self._spans[node] = ()
            for source, _, own in read:
                self._readers.setdefault(source, []).append((node, own))

    def find(self) -> Iterator[list[Node]]:
        """The groups of two nodes and more, each in an order in which values follow what they depend on closely."""
        clusters = join_clusters(self._nodes, _producers, self._belong, self._told)
        for node, reject in self._unfit.items():
            if any(source in self.parts for source in _producers(node)) or self._is_read(node):
                self.rejects.append(reject)
        for cluster in clusters:
            if len(cluster.nodes) > 1:
                yield self._in_depth(cluster.nodes)

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
        return [(operands[place], spans) for place, spans in part.reads]

    def is_alike(self, nodes: Iterable[Node]) -> bool:
        """True if all these compute as many elements, in the group's domain alike."""
        return len({self._spans[node] for node in nodes}) == 1

    def is_read_outside(self, node: Node, members: set[Node]) -> bool:
        """True if somebody else than the members reads a node's result, or a view of it."""
        return any(user not in members for user in self.users[node])

    # --- nodes -----------------------------------------------------------------------------------

    def _look_at(self, node: Node) -> None:
        opdef = find_opdef(node)
        if opdef is None or not (opdef.takes_elements(node) or opdef.is_broadcast):
            return
        if node.engine not in (Engine.VECTOR, Engine.AICORE) or len(node.outputs) != 1:
            return
        if opdef.is_broadcast and not _is_settled(node):
            return
        if element_count(node.output.desc.memory_shape) == 0:
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

    def _belong(self, parent: Cluster, child: Cluster) -> bool:
        first, second = parent.nodes[0], child.nodes[0]
        if first not in self.parts or second not in self.parts or len(parent.nodes) + len(child.nodes) > MAX_NODES:
            return False
        reject = self._against(parent, child)
        if reject is not None:
            self.rejects.append(reject)
        return reject is None

    def _against(self, parent: Cluster, child: Cluster) -> Reject | None:
        edges = self._edges(parent, child)
        source, reader, spans = edges[0]
        where, detail = reader.name, f"reads {source.output.name}"
        if spans is None or any(other != spans for _, _, other in edges) or self._is_partial(edges):
            return Reject("broadcast", where, detail)
        if not spans:
            return None
        members = {*parent.nodes, *child.nodes}
        if any(self.is_read_outside(node, members) for node in parent.nodes):
            return Reject("second-consumer", where, detail)
        if self._extra(parent, reader, spans) > 2 * source.output.desc.nbytes + LAUNCH_COST:
            return Reject("recomputation", where, detail)
        return None

    def _edges(self, parent: Cluster, child: Cluster) -> list[tuple[Node, Node, Spans | None]]:
        """What nodes of a child read of a parent's, and how that is repeated within the child's results."""
        if len(child.nodes) <= len(parent.nodes):
            members = set(parent.nodes)
            pairs = [(s, node, own) for node in child.nodes for s, _, own in self.read[node] if s in members]
        else:
            members = set(child.nodes)
            pairs = [(s, r, own) for s in parent.nodes for r, own in self._readers.get(s, ()) if r in members]
        return [(source, reader, within(self._spans[reader], own)) for source, reader, own in pairs]

    def _is_partial(self, edges: Sequence[tuple[Node, Node, Spans | None]]) -> bool:
        """True if what is read is not whole in the group that makes it."""
        return any(self._spans[source] for source, _, _ in edges)

    def _extra(self, parent: Cluster, reader: Node, spans: Spans) -> int:
        """What computing the parent's values for each place where they are repeated costs more."""
        times = repeats(spans)
        low, high = spans[0]
        if low == 1 and high > LONG_ROW:
            times //= high
        parts = [(self.parts[node], self._spans[node]) for node in parent.nodes]
        return sum(part.cost * part.elements * repeats(own) * (times - 1) for part, own in parts)

    def _told(self, parent: Cluster, child: Cluster, is_joined: bool) -> None:
        source, reader, spans = self._edges(parent, child)[0]
        if not is_joined:
            self.rejects.append(Reject("cycle", reader.name, f"reads {source.output.name}"))
        elif spans:
            for node in parent.nodes:
                placed = within(spans, self._spans[node])
                assert placed is not None
                self._spans[node] = placed

    def _in_depth(self, nodes: Sequence[Node]) -> list[Node]:
        """What a node depends on comes right before it, as far as it has not come earlier."""
        members, found = set(nodes), dict[Node, None]()
        for root in nodes:
            pending = [root]
            while pending:
                node = pending[-1]
                waiting = [s for s, *_ in self.read[node] if s in members and s not in found]
                if waiting:
                    pending.append(waiting[0])
                else:
                    pending.pop()
                    found[node] = None
        return list(found)


def _form_of(node: Node) -> object:
    """All that decides what a node would be of a kernel."""
    operands = tuple((value.desc, value.tensor) for value in node.operands)
    return node.op_type, node.domain, tuple(node.attrs.items()), operands, node.output.desc


def _part_of(node: Node) -> Part:
    """Raises NoInstruction for a node that cannot be in a kernel."""
    elements = element_count(node.output.desc.memory_shape)
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
    places = [place for place, value in enumerate(node.operands) if not is_immediate(value)]
    reads = tuple((place, own) for place, (_, own) in zip(places, spans, strict=False))  # a move reads the first only
    return Part(len(program.code), program.cost, elements, reads)


def _producers(node: Node) -> list[Node]:
    return [_root(value).producer for value in node.operands]


def _final_users(node: Node) -> Iterator[Node]:
    """Who reads a node's results, directly or through views; once for each place."""
    pending = [(value, 0) for value in node.outputs]
    while pending:
        value, depth = pending.pop()
        for user in value.users:
            if depth < MAX_VIEWS and is_view(user) and _is_settled(user) and user.input(0) is value:
                pending.append((user.output, depth + 1))
            else:
                yield user

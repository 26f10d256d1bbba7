"""Graph: nodes in a topological order, with def-use chains that its mutators keep up to date.

Nodes form a doubly linked list, so that inserting before a node and erasing one take constant
time and never disturb an iteration that stands elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Any

from atcpy.ir.decisions import Decisions
from atcpy.ir.desc import UNKNOWN, TensorDesc
from atcpy.ir.inferred import Inferred
from atcpy.ir.node import Body, Node, Use, Value
from atcpy.ir.tensor import Tensor


class Graph(Body):
    """A graph or a subgraph. Its inputs are `Data` nodes, its outputs the inputs of its one
    `NetOutput` node, which is the last; constants are `Const` nodes.
    """

    def __init__(self, name: str, *, names: Names | None = None) -> None:
        self.name = name
        self.names = names if names is not None else Names()
        self.decisions = Decisions()
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0
        self._count_by_op: dict[str, int] = {}
        self.node_count_before = 0  # nodes of the model as it was read
        self.inferred: Inferred | None = None  # by the parser; the first inference in prepare takes it

    # --- reading ---------------------------------------------------------------------------

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in topological order. The node just yielded may be erased, and nodes may be
        inserted before or after it, while iterating.
        """
        node = self._first
        while node is not None:
            following = node._next
            yield node
            node = node._next if node.graph is self else self._next_of(node, following)

    def nodes_of(self, *op_types: str) -> Iterator[Node]:
        """Those of some ops of the standard; else as `nodes`. A graph without any is not walked."""
        node = self._first if self.has_any(op_types) else None
        requested = frozenset(op_types)
        while node is not None:
            following = node._next
            if node.op_type in requested and not node.domain:
                yield node
                following = self._next_of(node, following)
            node = following

    def _next_of(self, node: Node, following: Node | None) -> Node | None:
        """Where an iteration goes on behind `node`, which had the successor `following` when it was yielded: a node
        inserted right behind it is visited; erased ones are skipped.
        """
        after = node._next if node.graph is self else following
        while after is not None and after.graph is not self:
            after = after._next
        return after

    def __len__(self) -> int:
        return self._count

    def has_any(self, op_types: Iterable[str]) -> bool:
        """True if a node is of one of these ops, of whatever domain."""
        for op_type in op_types:  # noqa: SIM110  asked of every piece by many passes: `any` would take twice as long
            if self._count_by_op.get(op_type):
                return True
        return False

    @property
    def inputs(self) -> list[Node]:
        """The `Data` nodes in the order of the model's inputs."""
        found = islice((node for node in self.nodes if node.op_type == "Data"), self._count_by_op.get("Data", 0))
        return sorted(found, key=lambda node: node.int_attr("index", 0))

    @property
    def net_output(self) -> Node:
        """The node that ends the graph."""
        assert self._last is not None and self._last.op_type == "NetOutput"
        return self._last

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that the graph returns."""
        return tuple(self.net_output.operands)

    # --- building and changing -------------------------------------------------------------

    def append(
        self,
        op_type: str,
        inputs: Iterable[Value | None] = (),
        attrs: Mapping[str, object] | None = None,
        *,
        name: str = "",
        outputs: Sequence[str] = ("",),
        domain: str = "",
        before: Node | None = None,
    ) -> Node:
        """Adds a node at the end, or before the node `before`. `outputs` names its values; an
        empty name is made from the node's. Names that are taken get a number.
        """
        names = self.names
        node = Node(self, names.fresh_node(name or op_type), op_type, domain)
        if attrs:
            node.attrs.update(attrs)
        if len(outputs) == 1:  # nearly every node
            value_name = names.fresh_value(outputs[0] or node.name)
            node.outputs.append(Value(value_name, node, 0))
        else:
            value_names = [names.fresh_value(output) if output else "" for output in outputs]  # these choose first
            for index, output in enumerate(value_names):
                node.outputs.append(Value(output or names.fresh_value(node.name), node, index))
        _add_inputs(node, inputs)
        self._link(node, before)
        return node

    def add_const(self, tensor: Tensor, name: str, *, before: Node | None = None) -> Value:
        """Adds a constant, before the node `before` if given, else at the front of the graph."""
        node = self.append("Const", (), {"value": tensor}, name=name, outputs=(name,), before=before or self._first)
        node.output.desc = TensorDesc.plain(tensor.dtype, tensor.shape)
        return node.output

    def insert_after(
        self,
        anchor: Node,
        op_type: str,
        inputs: Iterable[Value | None],
        attrs: Mapping[str, object] | None = None,
        **names: Any,
    ) -> Node:
        """Adds a node right after `anchor`; `names` as in `append`."""
        return self.append(op_type, inputs, attrs, before=anchor._next, **names)

    def change_op(self, node: Node, op_type: str) -> None:
        """Makes a node of this graph one of another op of the standard; inputs, outputs and attributes stay."""
        self._count_by_op[node.op_type] -= 1
        node.op_type, node.domain = op_type, ""
        self._count_by_op[op_type] = self._count_by_op.get(op_type, 0) + 1

    def reorder(self, nodes: Sequence[Node]) -> None:
        """Gives all nodes of this graph another order."""
        assert len(nodes) == self._count
        for before, after in pairwise(nodes):
            before._next, after._prev = after, before
        if nodes:
            self._first, self._last = nodes[0], nodes[-1]
            self._first._prev = self._last._next = None

    def adopt(self, node: Node, *, before: Node | None = None) -> None:
        """Takes a node out of its graph and puts it here, at the end or before the node `before`; its
        links stay as they are.
        """
        assert node.graph is not None
        node.graph._unlink(node)
        self._link(node, before)

    def set_input(self, node: Node, index: int, value: Value | None) -> None:
        """Makes input `index` of a node read `value`."""
        old = node._inputs[index]
        if old is not None:
            del old._uses[_use((node, index))]
        node._inputs[index] = value
        if value is not None:
            value._uses[_use((node, index))] = None

    def set_inputs(self, node: Node, values: Iterable[Value | None]) -> None:
        """Replaces all inputs of a node."""
        self._drop_inputs(node)
        _add_inputs(node, values)

    def add_output(self, node: Node, name: str, desc: TensorDesc = UNKNOWN) -> Value:
        """Gives a node one more output."""
        value = Value(self.names.fresh_value(name), node, len(node.outputs), desc)
        node.outputs.append(value)
        return value

    def replace_uses(self, old: Value, new: Value) -> None:
        """Makes every reader of `old` read `new`."""
        assert old is not new
        for use in old._uses:
            use.node._inputs[use.input_index] = new
        new._uses.update(old._uses)
        old._uses.clear()

    def erase(self, node: Node) -> None:
        """Removes a node whose outputs nobody reads."""
        assert not node.is_read, f"{node.name} still has readers"
        for source in node.sources:
            self.decisions.erased[source] = self.decisions.running
        self._drop_inputs(node)
        self._unlink(node)

    def put_back(self, node: Node) -> None:
        """Takes in a node that was erased, at the end."""
        assert node.graph is None
        self._link(node, None)

    def take_name(self, new: Value, old: Value) -> None:
        """Lets `new` stand under the name of `old`, which is about to go."""
        old.name, new.name = new.name, old.name

    # --- links -----------------------------------------------------------------------------

    def _drop_inputs(self, node: Node) -> None:
        for index, value in enumerate(node._inputs):
            if value is not None:
                del value._uses[_use((node, index))]
        node._inputs.clear()

    def _link(self, node: Node, before: Node | None) -> None:
        after = self._last if before is None else before._prev
        node._prev, node._next = after, before
        if after is None:
            self._first = node
        else:
            after._next = node
        if before is None:
            self._last = node
        else:
            before._prev = node
        node.graph = self
        self._count += 1
        self._count_by_op[node.op_type] = self._count_by_op.get(node.op_type, 0) + 1

    def _unlink(self, node: Node) -> None:
        if node._prev is None:
            self._first = node._next
        else:
            node._prev._next = node._next
        if node._next is None:
            self._last = node._prev
        else:
            node._next._prev = node._prev
        node.graph = None
        node._prev = None  # _next is kept for the iteration that stands here
        self._count -= 1
        self._count_by_op[node.op_type] -= 1


class Names:
    """The names in use by a graph and its subgraphs; a taken name gets `.1`, `.2` …"""

    __slots__ = ("_nodes", "_values")

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}
        self._values: dict[str, int] = {}

    def fresh_node(self, requested: str) -> str:
        """A node name nobody has yet."""
        if requested in self._nodes:
            return _fresh(self._nodes, requested)
        self._nodes[requested] = 0
        return requested

    def fresh_value(self, requested: str) -> str:
        """A value name nobody has yet."""
        if requested in self._values:
            return _fresh(self._values, requested)
        self._values[requested] = 0
        return requested


def _fresh(taken: dict[str, int], requested: str) -> str:
    number = taken[requested]
    while True:
        number += 1
        name = f"{requested}.{number}"
        if name not in taken:
            taken[requested] = number
            taken[name] = 0
            return name


# Makes a Use without the call of Python that `Use(…)` is.
_use: Callable[[tuple[Node, int]], Use] = partial(tuple.__new__, Use)


def _add_inputs(node: Node, values: Iterable[Value | None]) -> None:
    """Gives a node that has no inputs these."""
    own = node._inputs
    own.extend(values)
    for index, value in enumerate(own):
        if value is not None:
            value._uses[_use((node, index))] = None


def with_bodies(graph: Graph) -> list[Graph]:
    """Return a graph and the bodies of its nodes, those of nodes further out first."""
    graphs = [graph]
    for outer in graphs:  # grows
        graphs.extend(body for node in outer.nodes for body in node.subgraphs)
    return graphs


def nodes_with_bodies(graph: Graph) -> list[Node]:
    """Return the nodes of a graph, then those of bodies, further out first. Tasks have indices in this list."""
    return [node for part in with_bodies(graph) for node in part.nodes]


def walk(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and, before each node that has them, of its subgraphs; iterative."""
    stack = [graph.nodes]
    entered: set[Node] = set()
    while stack:
        for node in stack[-1]:
            yield node
            if node.attrs and node.has_subgraphs and node not in entered:
                entered.add(node)
                stack.extend(body.nodes for body in reversed(list(node.subgraphs)))
                break
        else:
            stack.pop()

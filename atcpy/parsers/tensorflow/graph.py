"""A TensorFlow graph in plain form: nodes whose inputs are outputs of others, calls of functions put in place.

A file says an input as `node`, `node:1` or `^node`, and in the body of a function as `node:out_arg:1` or as the name of
an argument. Here all of them are `Ref`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from atcpy.errors import AtcError, ModelInvalid, ResourceLimit, Where, did_you_mean
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import AttrValue, FunctionDef, GraphDef, NodeDef
from atcpy.parsers.tensorflow.signatures import Signature, find_signature, plain_attr

MAX_NODES: Final = 10**7  # that calls may become
MAX_CALLS: Final = 256  # inside each other
CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
SWITCHES: Final = frozenset({"Switch", "RefSwitch", "_SwitchN"})
MAX_MARKS: Final = 8  # nodes between a Switch and what hangs on a side of it
BRANCHES: Final = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
ARGUMENT: Final = "_Arg"  # the op of a graph's inputs


class Ref(NamedTuple):
    """Output number `output` of the node `node`."""

    node: str
    output: int


@dataclass(slots=True)
class TfNode:
    """One node. `attrs` holds what the file says, as plain values; `bodies` the graphs that a node of control flow
    runs, by the name of the attribute that names them.
    """

    name: str
    op: str
    inputs: tuple[Ref, ...]
    attrs: Mapping[str, object]
    controls: tuple[str, ...] = ()
    bodies: Mapping[str, TfGraph] = field(default_factory=dict)
    called: tuple[str, ...] = ()  # the functions inside whose calls it stands, the outermost first
    proto: NodeDef | None = None  # as the file has it


@dataclass(slots=True)
class TfGraph:
    """Nodes by name, the names of those that are its inputs, and what it returns."""

    nodes: dict[str, TfNode]
    inputs: list[str]
    outputs: list[Ref]


class Library:
    """The functions of a file, and the signatures of its ops."""

    def __init__(
        self, functions: Iterable[FunctionDef] = (), signatures: Mapping[str, Signature] | None = None
    ) -> None:
        self._functions = {function.signature.name: function for function in functions}
        self._signatures = signatures or {}

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def find(self, name: str, where: Where) -> FunctionDef:
        """A function; E12013 if the file has none of that name."""
        function = self._functions.get(name)
        if function is None:
            hint = did_you_mean(name, self._functions)
            raise ModelInvalid("E12013", f'function "{name}" is not in the library', where=where, hint=hint)
        return function

    def signature(self, op: str) -> Signature | None:
        """What is known of an op: from the file, else from TensorFlow's registry."""
        return self._signatures.get(op) or find_signature(op)

    def body(self, name: str, called: tuple[str, ...], bindings: Mapping[str, object], where: Where) -> TfGraph:
        """The graph of a function whose placeholder attributes are bound; its arguments are nodes of op `_Arg`."""
        function = self.find(name, where)
        if name in called:
            what = "functions call each other: " + " → ".join((*called[called.index(name) :], name))
            raise ModelInvalid("E2100C", what, where=where)
        if len(called) >= MAX_CALLS:
            raise ResourceLimit("R0001", f"calls are nested more than {MAX_CALLS} deep", where=where)
        arguments = [arg.name for arg in function.signature.input_arg]
        reader = _BodyReader(self, function, arguments)
        nodes = {
            arg: TfNode(arg, ARGUMENT, (), {"index": index}, called=(*called, name))
            for index, arg in enumerate(arguments)
        }
        for proto in function.node_def:
            node = read_node(proto, reader.ref)
            node.attrs = {key: bindings.get(_placeholder(proto, key), value) for key, value in node.attrs.items()}
            node.called = (*called, name)
            nodes[proto.name] = node
        outputs = [reader.ref(function.ret[arg.name]) for arg in function.signature.output_arg]
        return TfGraph(nodes, arguments, outputs)


def _placeholder(proto: NodeDef, key: str) -> str:
    """The name of the attribute of the function that an attribute stands for; "" if it has a value of its own."""
    value: AttrValue = proto.attr[key]
    return value.placeholder if value.WhichOneof("value") == "placeholder" else ""


class _BodyReader:
    """Reads the inputs that the nodes of a function's body name."""

    def __init__(self, library: Library, function: FunctionDef, arguments: Sequence[str]) -> None:
        self._library = library
        self._arguments = frozenset(arguments)
        self._protos = {proto.name: proto for proto in function.node_def}

    def ref(self, text: str) -> Ref:
        """`argument`, `node:out_arg` or `node:out_arg:index`."""
        if text in self._arguments:
            return Ref(text, 0)
        name, _, rest = text.partition(":")
        argument, _, index = rest.partition(":")
        number = int(index) if index.isdigit() else 0
        proto = self._protos.get(name)
        if proto is None or not argument:
            return Ref(name, number)
        return Ref(name, self._first_of(proto, argument) + number)

    def _first_of(self, proto: NodeDef, argument: str) -> int:
        if proto.op in self._library:
            names = [arg.name for arg in self._library.find(proto.op, Where()).signature.output_arg]
            return names.index(argument) if argument in names else 0
        signature = self._library.signature(proto.op)
        first = 0
        for name, counted_by in signature.outputs if signature is not None else ():
            if name == argument:
                return first
            first += _count(proto, counted_by, signature)
        return 0


def _count(proto: NodeDef, counted_by: str, signature: Signature | None) -> int:
    if not counted_by:
        return 1
    given = plain_attr(proto.attr[counted_by]) if counted_by in proto.attr else None
    if given is None and signature is not None:
        given = signature.defaults.get(counted_by)
    return given if isinstance(given, int) else len(given) if isinstance(given, tuple) else 1


def main_ref(text: str) -> Ref:
    """`node` or `node:1`, as the main graph says it."""
    name, colon, index = text.rpartition(":")
    return Ref(name, int(index)) if colon and index.isdigit() else Ref(text, 0)


def read_node(proto: NodeDef, ref: Callable[[str], Ref] = main_ref) -> TfNode:
    """A node as the file has it; `ref` reads its inputs."""
    return TfNode(
        proto.name,
        proto.op,
        tuple([ref(text) for text in proto.input if not text.startswith("^")]),
        {key: plain_attr(value) for key, value in proto.attr.items()},
        tuple([text[1:] for text in proto.input if text.startswith("^")]),
        proto=proto,
    )


def read_graph(proto: GraphDef, problems: list[AtcError]) -> dict[str, TfNode]:
    """The nodes of the main graph by name."""
    nodes: dict[str, TfNode] = {}
    for item in proto.node:
        if item.name in nodes:
            what = f'two nodes are named "{item.name}"'
            problems.append(ModelInvalid("E13009", what, where=Where(node=item.name, op=item.op)))
        nodes[item.name] = read_node(item)
    return nodes


def needed(graph: TfGraph, problems: list[AtcError]) -> TfGraph:
    """The part that the outputs depend on by data, in an order in which nodes come after what they read; calls of
    functions are put in place by `inline_calls` before. Cycles are left to those who rebuild loops of TensorFlow 1,
    and the Switches on which constants hang by control edges stay for them.
    """
    order: dict[str, TfNode] = {}
    entered: set[str] = set()
    missing: set[str] = set()
    stack: list[tuple[TfNode, Iterator[Ref]]] = []

    def enter(name: str, reader: TfNode | None) -> None:
        node = graph.nodes.get(name)
        if node is None:
            if name not in missing:
                missing.add(name)
                where = Where() if reader is None else Where(node=reader.name, op=reader.op)
                hint = did_you_mean(name, graph.nodes) or "is this a part cut out of a graph? freeze it again"
                problems.append(
                    ModelInvalid("E12009", f'"{name}" is read, which the graph does not have', where=where, hint=hint)
                )
        elif name not in entered:
            entered.add(name)
            stack.append((node, iter(node.inputs or list(_sides(node, graph.nodes)))))

    for output in graph.outputs:
        enter(output.node, None)
        while stack:
            node, inputs = stack[-1]
            ref = next(inputs, None)
            if ref is None:
                order[node.name] = node
                stack.pop()
            else:
                enter(ref.node, node)
    for name in graph.inputs:
        if name in graph.nodes:
            order.setdefault(name, graph.nodes[name])
    return TfGraph(order, graph.inputs, graph.outputs)


def _sides(node: TfNode, nodes: Mapping[str, TfNode]) -> Iterator[Ref]:
    """The sides of conditions on which a node without inputs hangs: a constant of a branch."""
    for name in node.controls:
        if _is_side(nodes.get(name), nodes):
            yield Ref(name, 0)


def _is_side(node: TfNode | None, nodes: Mapping[str, TfNode], depth: int = 0) -> bool:
    if node is None or depth > MAX_MARKS:
        return False
    above: tuple[str, ...] = ()
    if node.op in ("Identity", "NoOp"):
        above = node.controls if node.op == "NoOp" else tuple([ref.node for ref in node.inputs[:1]])
    return node.op in SWITCHES or any(_is_side(nodes.get(name), nodes, depth + 1) for name in above)


def inline_calls(graph: TfGraph, library: Library) -> TfGraph:
    """The graph with the body of each function in the place of its call, and of the calls in that; names get the
    call's in front.
    """
    nodes: dict[str, TfNode] = {}
    stands_for: dict[Ref, Ref] = {}
    waiting = list(reversed(graph.nodes.values()))
    while waiting:
        node = waiting.pop()
        name = function_of(node, library)
        if name is None:
            nodes[node.name] = node
            continue
        body = library.body(name, node.called, node.attrs, Where(node=node.name, op=node.op))
        place = _Place(node, body)
        for inner in reversed(body.nodes.values()):
            if inner.op != ARGUMENT:
                waiting.append(place.put(inner))
        for index, output in enumerate(body.outputs):
            stands_for[Ref(node.name, index)] = place.ref(output)
        if len(nodes) + len(waiting) > MAX_NODES:
            raise ResourceLimit(
                "R0001", f"calls of functions become more than {MAX_NODES} nodes", where=Where(node=node.name)
            )
    if stands_for:
        for node in nodes.values():
            node.inputs = tuple([_resolved(ref, stands_for) for ref in node.inputs])
    return TfGraph(nodes, graph.inputs, [_resolved(ref, stands_for) for ref in graph.outputs])


def function_of(node: TfNode, library: Library) -> str | None:
    """The function that a node calls, or None."""
    if node.op in CALLS:
        return function_name(node.attrs.get("f"))
    return node.op if node.op in library else None


def function_name(attr: object) -> str:
    """The name in an attribute that names a function."""
    name = getattr(attr, "name", "")
    return name if isinstance(name, str) else ""


class _Place:
    """Where the body of a function is put: for a call."""

    def __init__(self, call: TfNode, body: TfGraph) -> None:
        self._prefix = call.name + "/"
        self._arguments = dict(zip(body.inputs, call.inputs, strict=False))

    def ref(self, ref: Ref) -> Ref:
        """What a reference in the body means outside."""
        argument = self._arguments.get(ref.node)
        return argument if argument is not None else Ref(self._prefix + ref.node, ref.output)

    def put(self, node: TfNode) -> TfNode:
        """A node of the body."""
        inputs = tuple([self.ref(ref) for ref in node.inputs])
        controls = tuple([self._prefix + name for name in node.controls if name not in self._arguments])
        attrs = node.attrs
        frame = attrs.get("frame_name")
        if isinstance(frame, bytes):  # each call runs loops of its own
            attrs = {**attrs, "frame_name": self._prefix.encode() + frame}
        name = self._prefix + node.name
        return TfNode(name, node.op, inputs, attrs, controls, called=node.called, proto=node.proto)


def _resolved(ref: Ref, stands_for: Mapping[Ref, Ref]) -> Ref:
    seen = 0
    while ref in stands_for and seen <= len(stands_for):
        ref = stands_for[ref]
        seen += 1
    return ref

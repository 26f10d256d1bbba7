"""The functions of a file, and inlining of their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from atcpy.errors import ModelInvalid, ResourceLimit, Where, did_you_mean
from atcpy.parsers.tensorflow.graph import ARGUMENT, BRANCHES, LOOPS, Ref, TfGraph, TfNode, output_number, read_node
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import FunctionDef, NodeDef
from atcpy.parsers.tensorflow.signatures import Signature, find_signature, plain_attr

MAX_NODES: Final = 1_000_000  # of a graph, when the functions that it calls are in place
MAX_NAMES: Final = 2**28  # characters that the names of these nodes have together
MAX_CALLS: Final = 256  # inside each other
_TOO_DEEP: Final = f"calls are nested more than {MAX_CALLS} deep"
_SMALLER: Final = "take a part of the model: --out_nodes"
CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


@dataclass(frozen=True, slots=True)
class _Body:
    """A function of the file: its graph, and the attributes of nodes that refer to an attribute of the function."""

    graph: TfGraph
    open_attrs: Mapping[str, Mapping[str, str]]  # by node


class Library:
    """The functions of a file, and the signatures of its ops. `aliases` are other names of functions."""

    def __init__(
        self,
        functions: Iterable[FunctionDef] = (),
        signatures: Mapping[str, Signature] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self._functions = {function.signature.name: function for function in functions}
        self._signatures = signatures or {}
        for name, alias in (aliases or {}).items():
            if name in self._functions:
                self._functions.setdefault(alias, self._functions[name])
        self._bodies: dict[str, _Body] = {}
        self._sizes: dict[str, _Size] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def find(self, name: str, where: Where) -> FunctionDef:
        """A function; E12013 if the file has none of that name."""
        function = self._functions.get(name)
        if function is None:
            hint = did_you_mean(name, self._functions) or "the file is a part of a model: export it again"
            raise ModelInvalid("E12013", f'function "{name}" is not in the library', where=where, hint=hint)
        return function

    def signature(self, op: str) -> Signature | None:
        """What is known of an op: from the file, else from TensorFlow's registry."""
        return self._signatures.get(op) or find_signature(op)

    def body(self, name: str, called: tuple[str, ...], bindings: Mapping[str, object], where: Where) -> TfGraph:
        """Return the graph of a function with its open attributes bound; its arguments are nodes of op `_Arg`. `called`
        are the functions in whose calls it is, the outermost first.
        """
        body = self._body(name, where)
        if name in called:
            raise _recursion((*called[called.index(name) :], name), where)
        if len(called) >= MAX_CALLS:
            raise ResourceLimit("R0001", _TOO_DEEP, where=where, hint=_SMALLER)
        inside = (*called, name)
        nodes: dict[str, TfNode] = {}
        for node in body.graph.nodes.values():
            attrs = node.attrs
            if (open_attrs := body.open_attrs.get(node.name)) is not None:
                attrs = {**attrs, **{key: bindings[source] for key, source in open_attrs.items() if source in bindings}}
            nodes[node.name] = TfNode(
                node.name, node.op, node.inputs, attrs, node.controls, called=inside, proto=node.proto
            )
        return TfGraph(nodes, body.graph.inputs, body.graph.outputs)

    def _body(self, name: str, where: Where) -> _Body:
        found = self._bodies.get(name)
        if found is None:
            found = self._bodies[name] = _read_body(self, self.find(name, where))
        return found

    # --- the size of inlined calls -----------------------------------------------------------------

    def check_size(self, graph: TfGraph) -> None:
        """Refuse calls that never end, and those that exceed the limits, before they are inlined."""
        size = self._sum(graph.nodes.values())
        if size.nodes > MAX_NODES:
            what = f"the graph has {size.nodes} nodes when the functions that it calls are in place"
            raise ResourceLimit("R0001", f"{what}, the limit is {MAX_NODES}", hint=_SMALLER)
        if size.characters > MAX_NAMES:
            what = (
                f"the names of nodes have {size.characters} characters when the functions that are called are inlined"
            )
            raise ResourceLimit("R0001", f"{what}, the limit is {MAX_NAMES}", hint=_SMALLER)

    def _sum(self, nodes: Iterable[TfNode], called: tuple[str, ...] = ()) -> _Size:
        """The size of nodes that stand in calls of these functions, the outermost first."""
        total = characters = depth = 0
        for node in nodes:
            where = Where(node=node.name, op=node.op)
            name = function_of(node, self)
            if name is None:
                total += 1
                characters += len(node.name)
            else:
                size = self._size(name, called, where)
                total += size.nodes
                characters += size.characters + size.nodes * (len(node.name) + 1)
                depth = max(depth, size.depth)
            for run in self._run_by(node):
                size = self._size(run, called, where)
                total += size.nodes
                depth = max(depth, size.depth)
        return _Size(total, characters, depth + 1)

    def _size(self, name: str, called: tuple[str, ...], where: Where) -> _Size:
        """The size of a function that is called inside others."""
        if name in called:
            raise _recursion((*called[called.index(name) :], name), where)
        if name not in self._sizes and len(called) < MAX_CALLS:
            self._sizes[name] = self._sum(self._body(name, where).graph.nodes.values(), (*called, name))
        size = self._sizes.get(name)
        if size is None or size.depth > MAX_CALLS:
            raise ResourceLimit("R0001", _TOO_DEEP, where=where, hint=_SMALLER)
        return size

    def _run_by(self, node: TfNode) -> list[str]:
        """The functions that a branch or loop runs, as far as the file has them."""
        if node.op not in BRANCHES and node.op not in LOOPS:
            return []
        values = chain(*[value if isinstance(value, tuple) else (value,) for value in node.attrs.values()])
        return [name for value in values if (name := function_name(value)) in self._functions]


@dataclass(frozen=True, slots=True)
class _Size:
    """How many nodes a function becomes where it is called, how long their names are without the call's, and how deep
    its calls are nested.
    """

    nodes: int
    characters: int
    depth: int


def _recursion(names: Iterable[str], where: Where) -> ModelInvalid:
    what = "functions call each other: " + " → ".join(names)
    return ModelInvalid("E2100C", what, where=where, hint="write the recursion as a loop: tf.while_loop")


# --- reading -------------------------------------------------------------------------------------


def _read_body(library: Library, function: FunctionDef) -> _Body:
    arguments = [arg.name for arg in function.signature.input_arg]
    nodes = {name: TfNode(name, ARGUMENT, (), {"index": index}) for index, name in enumerate(arguments)}
    reader = _BodyReader(library, function)
    open_attrs: dict[str, dict[str, str]] = {}
    for proto in function.node_def:
        nodes[proto.name] = read_node(proto, reader.ref)
        for key, value in proto.attr.items():
            if value.WhichOneof("value") == "placeholder":
                open_attrs.setdefault(proto.name, {})[key] = value.placeholder
    outputs = [reader.ref(function.ret[arg.name]) for arg in function.signature.output_arg]
    return _Body(TfGraph(nodes, arguments, outputs), open_attrs)


class _BodyReader:
    """Reads the inputs that the nodes of a function's body name."""

    def __init__(self, library: Library, function: FunctionDef) -> None:
        self._library = library
        self._arguments = frozenset(arg.name for arg in function.signature.input_arg)
        self._protos = {proto.name: proto for proto in function.node_def}

    def ref(self, text: str) -> Ref:
        """`argument`, `node:out_arg` or `node:out_arg:index`."""
        if text in self._arguments:
            return Ref(text, 0)
        name, _, rest = text.partition(":")
        argument, _, index = rest.partition(":")
        number = output_number(index) or 0
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
    count = plain_attr(proto.attr[counted_by]) if counted_by in proto.attr else None
    if count is None and signature is not None:
        count = signature.defaults.get(counted_by)
    return count if isinstance(count, int) else len(count) if isinstance(count, tuple) else 1


# --- inlining --------------------------------------------------------------------------------------


def inline_calls(graph: TfGraph, library: Library) -> TfGraph:
    """Replace each call by the body of its function, and the calls in that. Names of inlined nodes begin with the
    name of the call.
    """
    library.check_size(graph)
    nodes: dict[str, TfNode] = {}
    replaced: dict[Ref, Ref] = {}
    waiting = list(reversed(graph.nodes.values()))
    while waiting:
        node = waiting.pop()
        name = function_of(node, library)
        if name is None:
            nodes[node.name] = node
            continue
        body = _inlined(node, library.body(name, node.called, node.attrs, Where(node=node.name, op=node.op)))
        waiting.extend(reversed(body.nodes.values()))
        replaced.update((Ref(node.name, index), output) for index, output in enumerate(body.outputs))
        if len(nodes) + len(waiting) > MAX_NODES:  # functions that attributes name are not counted before
            what = f"calls of functions become more than {MAX_NODES} nodes"
            raise ResourceLimit("R0001", what, where=Where(node=node.name, op=node.op), hint=_SMALLER)
    if not replaced:
        return TfGraph(nodes, graph.inputs, graph.outputs)
    resolved = _resolver(replaced)
    for node in nodes.values():
        if any(ref in replaced for ref in node.inputs):
            nodes[node.name] = replace(node, inputs=tuple([resolved(ref) for ref in node.inputs]))
    return TfGraph(nodes, graph.inputs, [resolved(ref) for ref in graph.outputs])


def _inlined(call: TfNode, body: TfGraph) -> TfGraph:
    """The body of a function under the names that its nodes have in the place of a call."""
    if len(call.inputs) > len(body.inputs):
        what = f"the function takes {len(body.inputs)} inputs, {len(call.inputs)} are given"
        raise ModelInvalid("E12009", what, where=Where(node=call.name, op=call.op))
    prefix, arguments = f"{call.name}/", dict(zip(body.inputs, call.inputs, strict=False))

    def outside(ref: Ref) -> Ref:
        return arguments.get(ref.node) or Ref(prefix + ref.node, ref.output)

    nodes: dict[str, TfNode] = {}
    for node in body.nodes.values():
        if node.op == ARGUMENT:
            continue
        attrs, frame = node.attrs, node.attrs.get("frame_name")
        if isinstance(frame, bytes):  # each call runs loops of its own
            attrs = {**attrs, "frame_name": prefix.encode() + frame}
        nodes[node.name] = TfNode(
            prefix + node.name,
            node.op,
            tuple([outside(ref) for ref in node.inputs]),
            attrs,
            tuple([prefix + name for name in node.controls if name not in arguments]),
            called=node.called,
            proto=node.proto,
        )
    return TfGraph(nodes, [], [outside(ref) for ref in body.outputs])


def function_of(node: TfNode, library: Library) -> str | None:
    """The function that a node calls, or None."""
    if node.op in CALLS:
        return function_name(node.attrs.get("f"))
    return node.op if node.op in library else None


def function_name(attr: object) -> str:
    """The name in an attribute that names a function."""
    name = getattr(attr, "name", "")
    return name if isinstance(name, str) else ""


def _resolver(replaced: dict[Ref, Ref]) -> Callable[[Ref], Ref]:
    """Return the function that follows references to results of calls: a function may return an argument, or the
    result of another call.
    """

    def resolved(ref: Ref) -> Ref:
        passed: dict[Ref, None] = {}
        while ref in replaced and ref not in passed:
            passed[ref] = None
            ref = replaced[ref]
        for earlier in passed:  # so that no chain is walked twice
            replaced[earlier] = ref
        return ref

    return resolved

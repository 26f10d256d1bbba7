"""A TensorFlow graph in plain form: nodes whose inputs are outputs of others.

A file says an input as `node`, `node:1` or `^node`, and in the body of a function as `node:out_arg:1` or as the name of
an argument (`functions.py`). Here all of them are `Ref`s.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from atcpy.errors import AtcError, ModelInvalid, Where, did_you_mean, raise_all
from atcpy.ir.tensor import Array
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import GraphDef, NodeDef, TensorProto
from atcpy.parsers.tensorflow.signatures import plain_attr
from atcpy.parsers.tensorflow.tensors import read_tensor

SWITCHES: Final = frozenset({"Switch", "_SwitchN"})
_OF_REFERENCES: Final = frozenset({"RefEnter", "RefMerge", "RefSwitch", "RefNextIteration", "RefExit", "RefIdentity"})
_MAX_DIGITS: Final = 10  # of the number of an output
BRANCHES: Final = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
LOOPS: Final = frozenset({"While", "StatelessWhile"})
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


def main_ref(text: str) -> Ref:
    """`node` or `node:1`, as the main graph says it."""
    name, colon, index = text.rpartition(":")
    number = output_number(index) if colon else None
    return Ref(text, 0) if number is None else Ref(name, number)


def output_number(text: str) -> int | None:
    """The number of an output that a text is; None if it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def read_node(proto: NodeDef, ref: Callable[[str], Ref] = main_ref) -> TfNode:
    """A node as the file has it; `ref` reads its inputs. An op of references is read as that of values: a graph that
    is converted has constants in the place of variables.
    """
    return TfNode(
        proto.name,
        proto.op.removeprefix("Ref") if proto.op in _OF_REFERENCES else proto.op,
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


def needed(graph: TfGraph, problems: list[AtcError], *, pivots: Collection[str] = ()) -> TfGraph:
    """Return the part that the outputs depend on by data, in topological order but for the cycles of frames; calls are
    inlined before. Control edges count only where loops and conditions need them later: those from Switches to
    constants, and those from nodes of the ops `pivots`.
    """
    switch_pivots = find_pivots(graph.nodes)
    order: dict[str, TfNode] = {}
    entered: set[str] = set()
    missing: set[str] = set()
    stack: list[tuple[TfNode, Iterator[str]]] = []

    def above(node: TfNode) -> Iterator[str]:
        names = [ref.node for ref in node.inputs]
        for name in node.controls:
            if (name in switch_pivots and not node.inputs) or (name in graph.nodes and graph.nodes[name].op in pivots):
                names.append(name)
        return iter(names)

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
            stack.append((node, above(node)))

    for output in graph.outputs:
        enter(output.node, None)
        while stack:
            node, names = stack[-1]
            name = next(names, None)
            if name is None:
                order[node.name] = node
                stack.pop()
            elif name not in entered:
                enter(name, node)
    for name in graph.inputs:
        if name in graph.nodes:
            order.setdefault(name, graph.nodes[name])
    return TfGraph(order, graph.inputs, graph.outputs)


def redirect(graph: TfGraph, replaced: Mapping[Ref, Ref]) -> TfGraph:
    """Return the graph in which what reads some outputs reads others instead."""
    if not replaced:
        return graph
    nodes = {
        node.name: replace(node, inputs=tuple([replaced.get(ref, ref) for ref in node.inputs]))
        if any(ref in replaced for ref in node.inputs)
        else node
        for node in graph.nodes.values()
    }
    return TfGraph(nodes, graph.inputs, [replaced.get(ref, ref) for ref in graph.outputs])


def constant_of(nodes: Mapping[str, TfNode], ref: Ref) -> Array | None:
    """Return the elements of a constant, also behind Identity nodes; None if it is no constant."""
    node = nodes.get(ref.node)
    for _ in range(len(nodes)):
        if node is None or node.op != "Identity" or not node.inputs:
            break
        node = nodes.get(node.inputs[0].node)
    proto = node.attrs.get("value") if node is not None and node.op == "Const" else None
    return read_tensor(proto, Where(node=ref.node)).array if isinstance(proto, TensorProto) else None


def part(graph: TfGraph, inputs: Sequence[int], outputs: Sequence[int]) -> TfGraph:
    """Return the part of a graph that has only these of its inputs and outputs."""
    names, refs = [graph.inputs[index] for index in inputs], [graph.outputs[index] for index in outputs]
    problems: list[AtcError] = []
    cut = needed(TfGraph(graph.nodes, names, refs), problems)
    raise_all(problems)
    return cut


def find_pivots(nodes: Mapping[str, TfNode]) -> set[str]:
    """Return the pivots of conditions: Switches, and the Identity and NoOp nodes that stand for one of their sides.
    Constants of a branch have control edges from them.
    """
    waiting = [node.name for node in nodes.values() if node.op in SWITCHES]
    if not waiting:
        return set()
    readers: dict[str, list[str]] = {}
    for node in nodes.values():
        if node.op in ("Identity", "NoOp"):
            for name in node.controls if node.op == "NoOp" else [ref.node for ref in node.inputs[:1]]:
                readers.setdefault(name, []).append(node.name)
    pivots: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in pivots:
            pivots.add(name)
            waiting.extend(readers.get(name, ()))
    return pivots

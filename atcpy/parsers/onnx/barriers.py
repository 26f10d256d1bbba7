"""Reading a model whose graph is to be written as ONNX again: what cannot be one node of the IR becomes a barrier.

A node is upgraded as always. If that makes several nodes of it, or fails, it is undone: the node stays whole, under
a name that no pass knows. So do ops of other domains than the standard's own, and the nodes that the user names.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import onnx

from atcpy.errors import AtcError
from atcpy.ir import Graph, Node, Value
from atcpy.ir.origin import BARRIER, PURE, ModelWords, Origin
from atcpy.parsers.onnx.microsoft.table import IN_PLACE
from atcpy.parsers.onnx.types import Types
from atcpy.parsers.onnx.upgrade import Upgrade, run_upgrade


@dataclass(frozen=True, slots=True)
class _Before:
    """A node before its upgrade."""

    op_type: str
    attrs: Mapping[str, object]
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    names: tuple[str, ...]


class WordKeeper:
    """Notes the origin of each node in `words`, and makes the barriers."""

    def __init__(self, words: ModelWords, keep: Iterable[str]) -> None:
        self.words = words
        self._keep = frozenset(keep)

    def keep(
        self,
        node: Node,
        proto: onnx.NodeProto,
        opset: int,
        types: Types,
        *,
        unknown: bool,
        changes: bool,
    ) -> list[Value | None]:
        """Upgrades a node that has just been read if it `changes`; the values that its outputs became."""
        ops, op_type = self.words.ops, node.op_type
        ops[op_type] = ops.get(op_type, 0) + 1
        if not (changes or unknown or node.domain or self._keep):
            inputs = node.inputs
            places = _all_places(len(inputs)) if None not in inputs else _places_of(inputs)
            self.words.origins[node] = Origin(
                proto, op_type, dict(node.attrs), inputs, places, len(node.outputs), opset
            )
            return [*node.outputs]
        before = _Before(
            node.op_type, dict(node.attrs), node.inputs, tuple(node.outputs), tuple(v.name for v in node.outputs)
        )
        name = proto.name or node.name
        if name in self._keep or node.name in self._keep:
            self.words.kept.add(name)
            _make_barrier(node, before, node.domain, opset, pure=False)
        elif node.domain:
            stays = unknown or (node.domain, node.op_type) in IN_PLACE
            _make_barrier(node, before, node.domain, opset, pure=not stays)
        elif unknown:
            _make_barrier(node, before, "", opset, pure=False)
        elif changes:
            state = Upgrade(node, types)
            if _upgrades_to_one(state, opset) and not any(proto.output[index] in self._reads for index in state.gone):
                self._note(node, proto, before, opset)
                return state.results
            _undo(state, before)
            _make_barrier(node, before, "", opset, pure=True)
        self._note(node, proto, before, opset)
        return list(before.outputs)

    @cached_property
    def _reads(self) -> frozenset[str]:
        """Every name that a node or a graph of the model reads."""
        return frozenset(_names_read(self.words.model))

    def _note(self, node: Node, proto: onnx.NodeProto, before: _Before, opset: int) -> None:
        places: list[int | None] = []
        free = list(range(node.input_count))
        for value in before.inputs:
            place = None if value is None else next((i for i in free if node.inputs[i] is value), -1)
            if place == -1:
                return  # an input became something else: the exporter says it anew
            if place is not None:
                free.remove(place)
            places.append(place)
        self.words.origins[node] = Origin(
            proto, node.op_type, dict(node.attrs), node.inputs, tuple(places), len(node.outputs), opset
        )


@cache
def _all_places(count: int) -> tuple[int | None, ...]:
    return tuple(range(count))


def _places_of(inputs: Iterable[Value | None]) -> tuple[int | None, ...]:
    return tuple([None if value is None else place for place, value in enumerate(inputs)])


def _upgrades_to_one(state: Upgrade, opset: int) -> bool:
    """Runs the upgrade; True if what it added beside the node computes constants, or the Shape of Shape(start, end)."""
    try:
        run_upgrade(state, opset)
    except AtcError:
        return False
    if state.node.graph is None:
        return False
    constant: set[Value] = set()
    for added in state.added:
        if added.op_type == "Const" or all(v.tensor is not None or v in constant for v in added.operands):
            constant.update(added.outputs)
        elif added.op_type != "Shape" or state.node.op_type != "Slice":
            return False
    return True


def _undo(state: Upgrade, before: _Before) -> None:
    """The node as it was, and nothing of what the upgrade added."""
    graph, node = state.graph, state.node
    made = [each for each in (*state.added, node) if each.graph is graph]
    for each in made:
        graph.set_inputs(each, ())
    node.outputs[:] = before.outputs
    for value, name in zip(before.outputs, before.names, strict=True):
        value.name = name
    for each in made:
        if each is not node:
            graph.erase(each)
    if node.graph is None:
        node.op_type = before.op_type
        graph.put_back(node)
    graph.set_inputs(node, before.inputs)


def _make_barrier(node: Node, before: _Before, domain: str, opset: int, *, pure: bool) -> None:
    graph = node.graph
    assert isinstance(graph, Graph)
    graph.change_op(node, f"{domain or 'ai.onnx'}@{opset}::{before.op_type}")
    node.domain = BARRIER
    node.attrs.clear()
    node.attrs.update(before.attrs)
    if pure:
        node.attrs[PURE] = 1


def _names_read(model: onnx.ModelProto) -> Iterator[str]:
    yield from (info.name for info in model.graph.output)
    pending = [model.graph.node, *(function.node for function in model.functions)]
    for function in model.functions:
        yield from function.output
    while pending:
        for node in pending.pop():
            yield from node.input
            for attr in node.attribute:
                for graph in (attr.g, *attr.graphs):
                    if graph.node or graph.output:
                        yield from (info.name for info in graph.output)
                        pending.append(graph.node)

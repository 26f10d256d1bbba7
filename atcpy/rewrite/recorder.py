"""Records while a model is read where each node comes from, and turns what the IR cannot express into barriers.

A node is upgraded as always. If that results in several nodes, or fails, it is undone: the node stays whole, as an op
that no pass knows. So do ops outside the standard domain, and the nodes that the user names with --keep.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import onnx

from atcpy.errors import AtcError
from atcpy.ir import Node, Tensor, Value
from atcpy.ir.barrier import BARRIER, PURE
from atcpy.ops import find_opdef
from atcpy.parsers.onnx.inference import TypeInference
from atcpy.parsers.onnx.upgrade import Upgrade
from atcpy.rewrite.source_model import Origin, SourceModel, StoredTensor


@dataclass(frozen=True, slots=True)
class _Before:
    """A node before its upgrade."""

    op_type: str
    attrs: Mapping[str, object]
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    names: tuple[str, ...]


class SourceRecorder:
    """Notes the origin of each node and constant in `source`, and creates the barriers."""

    def __init__(self, source: SourceModel, keep: Iterable[str]) -> None:
        self.source = source
        self._keep = frozenset(keep)

    def constant(self, tensor: Tensor, proto: onnx.TensorProto, data: memoryview | None) -> None:
        """Notes how the model stores a constant."""
        self.source.tensors[tensor] = StoredTensor(proto, data)

    def node(
        self,
        node: Node,
        proto: onnx.NodeProto,
        opset: int,
        inference: TypeInference,
        *,
        unknown: bool,
        changes: bool,
    ) -> list[Value | None]:
        """Upgrade a node that has just been read if its op `changes` up to the canonical opset; return the values that
        its outputs became.
        """
        ops, op_type = self.source.ops, node.op_type
        ops[op_type] = ops.get(op_type, 0) + 1
        opdef = find_opdef(node)
        is_contrib = opdef is not None and opdef.is_contrib
        if not (changes or unknown or node.domain or is_contrib or self._keep):
            inputs = node.inputs
            indices = _all_indices(len(inputs)) if None not in inputs else _present_indices(inputs)
            self.source.origins[node] = Origin(
                proto, op_type, dict(node.attrs), inputs, indices, len(node.outputs), opset
            )
            return [*node.outputs]
        before = _Before(
            node.op_type, dict(node.attrs), node.inputs, tuple(node.outputs), tuple(v.name for v in node.outputs)
        )
        name = proto.name or node.name
        is_pure: bool | None = None  # as a barrier; None: it stays an op
        if name in self._keep or node.name in self._keep:
            self.source.kept.add(name)
            is_pure = False
        elif node.domain or is_contrib or unknown:
            updates = opdef is not None and opdef.signature is not None and opdef.signature.updates
            is_pure = not (unknown or updates)
        elif changes:
            state = Upgrade(node, inference)
            before_upgrade = len(inference.problems)
            if _upgrades_to_one(state, opset) and not any(proto.output[i] in self._names_read for i in state.gone):
                self._note(node, proto, before, opset)
                return state.results
            _undo(state, before)
            del inference.problems[before_upgrade:]
            is_pure = True
        if is_pure is not None:
            _make_barrier(node, before, opset, pure=is_pure)
        self._note(node, proto, before, opset)
        return list(before.outputs)

    @cached_property
    def _names_read(self) -> frozenset[str]:
        """Every name that a node or a graph of the model reads."""
        return frozenset(_names_read(self.source.model))

    def _note(self, node: Node, proto: onnx.NodeProto, before: _Before, opset: int) -> None:
        indices: list[int | None] = []
        free = list(range(node.input_count))
        for value in before.inputs:
            index = None if value is None else next((i for i in free if node.inputs[i] is value), -1)
            if index == -1:
                return  # an input became something else: the exporter writes the node anew
            if index is not None:
                free.remove(index)
            indices.append(index)
        self.source.origins[node] = Origin(
            proto, node.op_type, dict(node.attrs), node.inputs, tuple(indices), len(node.outputs), opset
        )


@cache
def _all_indices(count: int) -> tuple[int | None, ...]:
    return tuple(range(count))


def _present_indices(inputs: Iterable[Value | None]) -> tuple[int | None, ...]:
    return tuple([None if value is None else index for index, value in enumerate(inputs)])


def _upgrades_to_one(state: Upgrade, opset: int) -> bool:
    """Run the upgrade; return whether all that it added beside the node computes constants, or is the Shape of
    Shape(start, end).
    """
    try:
        state.run(opset)
    except AtcError:
        return False
    if state.node.graph is None:
        return False
    constant: set[Value] = set()
    for added in state.created:
        if added.op_type == "Const" or all(v.tensor is not None or v in constant for v in added.operands):
            constant.update(added.outputs)
        elif added.op_type != "Shape" or state.node.op_type != "Slice":
            return False
    return True


def _undo(state: Upgrade, before: _Before) -> None:
    """Restore the node as it was, and remove what the upgrade added."""
    graph, node = state.graph, state.node
    present = [each for each in (*state.created, node) if each.graph is graph]
    for each in present:
        graph.set_inputs(each, ())
    node.outputs[:] = before.outputs
    for value, name in zip(before.outputs, before.names, strict=True):
        value.name = name
    for each in present:
        if each is not node:
            graph.erase(each)
    if node.graph is None:
        node.op_type = before.op_type
        graph.put_back(node)
    graph.set_inputs(node, before.inputs)


def _make_barrier(node: Node, before: _Before, opset: int, *, pure: bool) -> None:
    assert node.graph is not None
    node.graph.change_op(node, f"{node.domain or 'ai.onnx'}@{opset}::{before.op_type}")
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

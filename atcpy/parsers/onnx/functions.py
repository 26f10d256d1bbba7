"""Model-local functions: what a call expands to, and that it ends.

Functions of the ONNX standard stay ops; only what the model brings is inlined.
"""

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

import onnx

from atcpy.errors import ModelInvalid, ResourceLimit, Where
from atcpy.parsers.onnx.text import are_texts, not_text

MAX_DEPTH = 256
MAX_NODES = 1_000_000

FunctionKey = tuple[str, str, str]


class Functions:
    """The functions of a model by domain, name and overload; calls are finite and within the limits."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._protos: dict[FunctionKey, onnx.FunctionProto] = {}
        for proto in model.functions:
            defaults = (attr.name for attr in proto.attribute_proto)
            names = (proto.domain, proto.name, proto.overload, *proto.input, *proto.output, *proto.attribute, *defaults)
            if not are_texts(names):
                raise not_text("a name in a function", Where())
            key = (_plain(proto.domain), proto.name, proto.overload)
            if key in self._protos:
                what = f"function {proto.domain}::{proto.name} is defined twice"
                raise ModelInvalid("E13009", what, hint="keep one definition")
            self._protos[key] = proto
        if self._protos:
            self._check(model.graph)

    def find(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        """The function that the node calls, or None if it is an op."""
        if not self._protos:
            return None
        return self._protos.get(_key(node))

    def opsets(self) -> Iterator[tuple[str, int]]:
        """The opsets that functions import."""
        for proto in self._protos.values():
            yield from ((_plain(entry.domain), entry.version) for entry in proto.opset_import)

    def _check(self, graph: onnx.GraphProto) -> None:
        """Sizes bottom up: refuses cycles, nesting below MAX_DEPTH and more than MAX_NODES nodes in all."""
        calls = {key: list(self._calls(proto.node)) for key, proto in self._protos.items()}
        sizes: dict[FunctionKey, int] = {}
        depths: dict[FunctionKey, int] = {}
        try:
            for key in TopologicalSorter(calls).static_order():  # a function comes after those that it calls
                own = sum(1 for _ in all_nodes(self._protos[key].node))
                sizes[key] = own + sum(sizes[called] for called in calls[key])
                depths[key] = 1 + max((depths[called] for called in calls[key]), default=0)
        except CycleError as error:
            names = " → ".join(name for _, name, _ in reversed(error.args[1]))
            raise ModelInvalid("E2100C", f"functions call each other in a cycle: {names}") from error
        if max(depths.values()) > MAX_DEPTH:
            raise ResourceLimit("R0001", f"functions are nested {max(depths.values())} deep, the limit is {MAX_DEPTH}")
        total = sum(1 for _ in all_nodes(graph.node)) + sum(sizes[key] for key in self._calls(graph.node))
        if total > MAX_NODES:
            raise ResourceLimit(
                "R0001",
                f"the model has {total} nodes when its functions are inlined, the limit is {MAX_NODES}",
                where=Where(graph=graph.name),
            )

    def _calls(self, nodes: Iterable[onnx.NodeProto]) -> Iterator[FunctionKey]:
        for node in all_nodes(nodes):
            key = _key(node)
            if key in self._protos:
                yield key


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes and those of all graphs in their attributes."""
    pending = [nodes]
    while pending:
        for node in pending.pop():
            yield node
            for attr in node.attribute:
                if attr.type == onnx.AttributeProto.GRAPH:
                    pending.append(attr.g.node)
                elif attr.type == onnx.AttributeProto.GRAPHS:
                    pending.extend(graph.node for graph in attr.graphs)


def _key(node: onnx.NodeProto) -> FunctionKey:
    return _plain(node.domain), node.op_type, node.overload


def _plain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain

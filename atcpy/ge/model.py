"""A graph of operators → a model of ONNX, which goes through the stages as any other.

Operators of a body belong to it unless the graph around it has them: then the body reads their values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from onnx import helper

from atcpy.errors import AtcError, ModelInvalid, Where, raise_all
from atcpy.ge.constructors import Const, Data
from atcpy.ge.graph import Graph
from atcpy.ge.operator import Operator, Output
from atcpy.parsers.onnx.rules import NEWEST
from atcpy.sizes import ANY_SIZE


def model_of(graph: Graph) -> Path | onnx.ModelProto:
    """What the stages compile. Raises ModelInvalid with all that is wrong with the operators."""
    if graph.source is not None:
        return graph.source
    writer = _Writer(graph)
    proto = writer.write(writer.collect(graph))
    raise_all(writer.problems)
    opsets = [helper.make_opsetid(domain, NEWEST.get(domain, 1)) for domain in sorted(writer.domains)]
    return helper.make_model(proto, opset_imports=opsets, ir_version=onnx.IR_VERSION)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The operators of one graph, in order of execution but for cycles, and the scopes of the graphs inside."""

    graph: Graph
    operators: Sequence[Operator]
    bodies: dict[tuple[Operator, str], _Scope] = field(default_factory=dict)


class _Writer:
    def __init__(self, root: Graph) -> None:
        self.root = root
        self.problems: list[AtcError] = []
        self.domains = {""}
        self._by_name: dict[str, Operator] = {}
        self._used: defaultdict[Operator, int] = defaultdict(int)  # how many outputs are read, with those in front

    def collect(self, graph: Graph, around: frozenset[Operator] = frozenset(), above: tuple[Graph, ...] = ()) -> _Scope:
        """Find the operators of a graph and of its bodies, note which outputs are read, and check each operator."""
        for output in graph.outputs:
            self._note(output)
        operators = list(_in_order(graph, around))
        scope = _Scope(graph, operators)
        visible = around.union(operators)
        for item in operators:
            self._check(item, graph)
            for link in item.inputs():
                if link is not None:
                    self._note(link)
            for name, build in item.subgraphs.items():
                body = build()
                if not isinstance(body, Graph) or body in (graph, *above):
                    what = f'the builder of "{name}" returns {body!r}, not a graph of its own'
                    self.problems.append(ModelInvalid("E13014", what, where=item.where))
                    continue
                scope.bodies[item, name] = self.collect(body, visible, (*above, graph))
        return scope

    def _note(self, output: Output) -> None:
        self._used[output.source] = max(self._used[output.source], output.index + 1)

    def _check(self, item: Operator, graph: Graph) -> None:
        if self._by_name.setdefault(item.GetName(), item) is not item:
            what = f'two operators are named "{item.GetName()}"'
            self.problems.append(ModelInvalid("E13009", what, where=item.where, hint="names are unique"))
        if isinstance(item, Data) and item not in graph.inputs:
            what = f'Data "{item.GetName()}" is no input of the graph "{graph.GetName()}"'
            self.problems.append(ModelInvalid("E12009", what, where=item.where, hint="list it in SetInputs"))
        self.problems.extend(item.problems())

    def write(self, scope: _Scope) -> onnx.GraphProto:
        """The message of a graph."""
        graph = scope.graph
        proto = onnx.GraphProto(name=graph.GetName())
        proto.input.extend(self._input(item, graph) for item in self._ordered_inputs(graph))
        proto.output.extend(helper.make_empty_tensor_value_info(_value_name(output)) for output in graph.outputs)
        for item in scope.operators:
            if isinstance(item, Const):
                for attr in item.attrs:
                    tensor = proto.initializer.add()
                    tensor.CopyFrom(attr.t)
                    tensor.name = item.GetName()
            elif not isinstance(item, Data):
                self._write_node(item, scope, proto)
        return proto

    def _write_node(self, item: Operator, scope: _Scope, proto: onnx.GraphProto) -> None:
        count = max(item.required_output_count, self._used[item])
        node = proto.node.add(op_type=item.GetOpType(), domain=item.prototype.domain, name=item.GetName())
        inputs = ["" if link is None else _value_name(link) for link in item.inputs()]
        while inputs and not inputs[-1]:
            inputs.pop()
        node.input.extend(inputs)
        node.output.extend(_value_name(Output(item, index)) for index in range(count))
        node.attribute.extend(item.attrs)
        for name in item.subgraphs:
            if (item, name) in scope.bodies:
                node.attribute.append(helper.make_attribute(name, self.write(scope.bodies[item, name])))
        self.domains.add(item.prototype.domain)

    def _ordered_inputs(self, graph: Graph) -> Sequence[Data]:
        """The inputs by their index, if that is set for any."""
        indices = [item.GetAttr("index") for item in graph.inputs]
        if not any(indices):
            return graph.inputs
        if sorted(indices) != list(range(len(indices))):
            what = f"the inputs have the indices {indices}, not each of 0 to {len(indices) - 1} once"
            self.problems.append(ModelInvalid("E13014", what, where=Where(graph=graph.GetName())))
        return sorted(graph.inputs, key=lambda item: int(item.GetAttr("index")))

    def _input(self, item: Data, graph: Graph) -> onnx.ValueInfoProto:
        if item.desc is None and graph is not self.root:
            return helper.make_empty_tensor_value_info(item.GetName())
        if item.desc is None:
            what, hint = f'the input "{item.GetName()}" has no type', "update_output_desc_y(TensorDesc(…))"
            self.problems.append(ModelInvalid("E13014", what, where=item.where, hint=hint))
            return helper.make_empty_tensor_value_info(item.GetName())
        shape = [None if dim == ANY_SIZE else dim for dim in item.desc.shape]
        return helper.make_tensor_value_info(item.GetName(), item.desc.dtype.onnx, shape)


def _value_name(output: Output) -> str:
    """GE's name of an output, `node:index`; the first is named as its operator is."""
    name = output.source.GetName()
    return f"{name}:{output.index}" if output.index else name


def _in_order(graph: Graph, around: frozenset[Operator]) -> Iterator[Operator]:
    """Yield the inputs, and the operators that lead to outputs and are not `around` the graph, sources first."""
    yield from graph.inputs
    seen: set[Operator] = set(graph.inputs)
    stack: list[tuple[Operator | None, Iterator[Output | None]]] = [(None, iter(graph.outputs))]
    while stack:
        item, links = stack[-1]
        source = next((link.source for link in links if link is not None), None)
        if source is None:
            stack.pop()
            if item is not None:
                yield item
        elif source not in seen and source not in around:
            seen.add(source)
            stack.append((source, source.inputs()))

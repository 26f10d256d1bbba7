"""The error of each quantised node: its own, with exact inputs, and that which it has in the model.

The own error is measured in one model, in which each quantised node reads the values of the float model:

    t → QuantizeLinear → DequantizeLinear → node       becomes       t of the float model → … → node
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto

from atcpy.quantization.errors import ErrorSum, QuantizationError
from atcpy.quantization.selection import MOVES
from atcpy.quantization.sessions import open_float
from atcpy.verify.inputs import Array, Feeds

_FED = "::float"  # inputs that take values of the float model
_EXACT = "::exact"  # what is computed from them
_ERROR = "::error"
_WAS_OUTPUT = "_QuantizeLinear_Input"  # what the quantizer appends to the name of a value that is an output


@dataclass(frozen=True, slots=True)
class Layer:
    """A quantised node: the value of the float model that it computes, and that value in the quantised model."""

    node: str
    op: str
    value: str
    result: str


@dataclass(frozen=True, slots=True)
class LayerError:
    """The errors of a layer: `own` with exact inputs, `total` with those that the quantised model has."""

    node: str
    op: str
    own: QuantizationError
    total: QuantizationError


def find_layers(quantized: onnx.ModelProto, nodes: Iterable[str]) -> list[Layer]:
    """The nodes that read dequantised values, of those that were to be quantised, but for moves, which add no error."""
    chosen, dequantized = set(nodes), _dequantized(quantized)
    read = {value for values in dequantized.values() for value in values}
    constant = {tensor.name for tensor in quantized.graph.initializer}
    read |= {n.output[0] for n in quantized.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in constant}
    layers = []
    for node in quantized.graph.node:
        if node.name in chosen and node.op_type not in MOVES and read.intersection(node.input):
            name = node.output[0]
            result = next(iter(dequantized.get(name, ())), name)
            layers.append(Layer(node.name, node.op_type, name.removesuffix(_WAS_OUTPUT), result))
    return layers


def _dequantized(model: onnx.ModelProto) -> dict[str, list[str]]:
    """The values that QuantizeLinear and DequantizeLinear make of each computed value."""
    constant = {tensor.name for tensor in model.graph.initializer}
    integers = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "QuantizeLinear"}
    found: dict[str, list[str]] = {}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in integers:
            value = integers[node.input[0]]
            if value not in constant:
                found.setdefault(value, []).append(node.output[0])
    return found


class LayerRuns:
    """Runs the float model, the quantised one, and the quantised one with exact inputs at each layer."""

    def __init__(self, model: onnx.ModelProto, quantized: onnx.ModelProto, nodes: Sequence[str], threads: int) -> None:
        self.layers = find_layers(quantized, nodes)
        inputs = {value.name for value in model.graph.input}
        values = {name for node in model.graph.node for name in node.output}
        cut = {
            value: made
            for value, made in _dequantized(quantized).items()
            if value not in inputs and value.removesuffix(_WAS_OUTPUT) in values
        }
        self._cut = sorted({value.removesuffix(_WAS_OUTPUT) for value in cut})
        self._names = sorted({*self._cut, *(layer.value for layer in self.layers)})
        results = sorted({layer.result for layer in self.layers})
        self._results = results
        self._float = _open(model, self._names, threads)
        self._quantized = _open(quantized, results, threads)
        self._exact = _open(_with_exact_inputs(quantized, cut), results, threads)

    def run(self, feeds: Feeds) -> tuple[Feeds, Feeds, Feeds]:
        """The values of the layers in the float model, their results with exact inputs, and in the quantised model."""
        values: Feeds = dict(zip(self._names, self._float.run(self._names, feeds), strict=True))
        wanted = {port.name for port in self._exact.get_inputs()}
        exact_feeds = {name: array for name, array in feeds.items() if name in wanted}
        exact_feeds |= {name + _FED: values[name] for name in self._cut}
        own = dict(zip(self._results, self._exact.run(self._results, exact_feeds), strict=True))
        total = dict(zip(self._results, self._quantized.run(self._results, feeds), strict=True))
        return (
            {layer.node: values[layer.value] for layer in self.layers},
            {layer.node: own[layer.result] for layer in self.layers},
            {layer.node: total[layer.result] for layer in self.layers},
        )

    def errors(self, samples: Iterable[Feeds]) -> list[LayerError]:
        """The errors of all layers over samples, in the order of the model."""
        own = {layer.node: ErrorSum() for layer in self.layers}
        total = {layer.node: ErrorSum() for layer in self.layers}
        for feeds in samples:
            values, own_results, total_results = self.run(feeds)
            for name, value in values.items():
                own[name].add(own_results[name], value)
                total[name].add(total_results[name], value)
        return [LayerError(each.node, each.op, own[each.node].error, total[each.node].error) for each in self.layers]


def _open(model: onnx.ModelProto, outputs: Iterable[str], threads: int) -> Any:
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    own = {value.name for value in whole.graph.output}
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs if name not in own)
    return open_float(whole, threads)


def _with_exact_inputs(quantized: onnx.ModelProto, cut: Mapping[str, Sequence[str]]) -> onnx.ModelProto:
    """Give the readers of each dequantised value a second pair of QuantizeLinear and DequantizeLinear, of an input."""
    model = onnx.ModelProto()
    model.CopyFrom(quantized)
    graph = model.graph
    renamed = {result: result + _EXACT for results in cut.values() for result in results}
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in renamed:
                node.input[index] = renamed[name]
    integers = {node.output[0]: node for node in graph.node if node.op_type == "QuantizeLinear"}
    pairs = []
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or node.output[0] not in renamed:
            continue
        before = integers[node.input[0]]
        source = before.input[0].removesuffix(_WAS_OUTPUT) + _FED
        for each, inputs, output in (
            (before, source, before.output[0] + _EXACT),
            (node, before.output[0] + _EXACT, renamed[node.output[0]]),
        ):
            copied = onnx.NodeProto()
            copied.CopyFrom(each)
            copied.name += _EXACT
            copied.input[0], copied.output[0] = inputs, output
            pairs.append(copied)
    known = {node.output[0]: node for node in pairs}
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*known.values(), *rest])
    for name in sorted({value.removesuffix(_WAS_OUTPUT) for value in cut}):
        graph.input.append(_float_input(name + _FED))
    return model


def _float_input(name: str) -> onnx.ValueInfoProto:
    value = onnx.ValueInfoProto(name=name)
    value.type.tensor_type.elem_type = TensorProto.FLOAT
    return value


class ErrorEffects:
    """Runs the float model with errors added to values of layers."""

    def __init__(self, model: onnx.ModelProto, layers: Sequence[Layer], threads: int) -> None:
        injected = onnx.ModelProto()
        injected.CopyFrom(model)
        graph = injected.graph
        self._layers = layers
        self._values = sorted({layer.value for layer in layers})
        chosen = set(self._values)
        nodes = []
        for node in graph.node:
            nodes.append(node)
            for index, name in enumerate(node.output):
                if name in chosen:
                    node.output[index] = name + _EXACT
                    add = onnx.helper.make_node("Add", [name + _EXACT, name + _ERROR], [name], name=name + _ERROR)
                    nodes.append(add)
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
        graph.input.extend(_float_input(name + _ERROR) for name in self._values)
        self._outputs = [value.name for value in graph.output]
        self._session = open_float(injected, threads)

    def shares(self, feeds: Feeds, values: Feeds, own: Feeds, zero: Array) -> dict[str, float]:
        """For each layer, the largest share that the energy of its own error takes of an output's."""
        none = {name + _ERROR: zero for name in self._values}
        expected = self._session.run(self._outputs, {**feeds, **none})
        found = {}
        for layer in self._layers:
            error = own[layer.node] - values[layer.node]
            actual = self._session.run(self._outputs, {**feeds, **none, layer.value + _ERROR: error})
            shares = []
            for a, e in zip(actual, expected, strict=True):
                total = ErrorSum()
                total.add(a, e)
                shares.append(total.noise_share)
            found[layer.node] = max(shares)
        return found

"""A part of an ONNX model as a model of its own: some of its nodes, what they read from outside as inputs.

Constants stay constants, wherever they come from; inputs get the types and sizes of arrays that were seen there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from atcpy.ir import DType
from atcpy.ir.tensor import Array
from atcpy.parsers.onnx.order import captured_names


class IndexedModel:
    """A model with an index of who makes and who reads each value; nodes are numbers in the order of the file."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        graph = model.graph
        self._constants: dict[str, onnx.TensorProto] = {tensor.name: tensor for tensor in graph.initializer}
        self._sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
        self.nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            tensor = _constant(node)
            if tensor is None:
                self.nodes.append(node)
            else:
                self._constants[node.output[0]] = tensor
        self._reads = [
            tuple(dict.fromkeys(filter(None, (*node.input, *sorted(captured_names(node)))))) for node in self.nodes
        ]
        self._maker = {name: index for index, node in enumerate(self.nodes) for name in node.output if name}
        self._readers: dict[str, list[int]] = {}
        for index, names in enumerate(self._reads):
            for name in names:
                self._readers.setdefault(name, []).append(index)
        self._results = [value.name for value in graph.output]

    def find(self, sources: Iterable[str]) -> list[int]:
        """The nodes of these names; a name of a node inside a function's body is the call's."""
        named = {node.name or next(filter(None, node.output), ""): index for index, node in enumerate(self.nodes)}
        found: dict[int, None] = {}
        for source in sources:
            name = source
            while name and name not in named:
                name = name.rpartition("/")[0]
            if name:
                found[named[name]] = None
        return sorted(found)

    def around(self, nodes: Iterable[int], distance: int) -> list[int]:
        """These nodes and those that so many steps along the edges, in either direction, lead to."""
        reached = set(nodes)
        frontier = reached
        for _ in range(distance):
            frontier = {other for node in frontier for other in self._neighbours(node)} - reached
            reached |= frontier
        return sorted(reached)

    def _neighbours(self, node: int) -> Iterator[int]:
        for name in self._reads[node]:
            if name in self._maker:
                yield self._maker[name]
        for name in self.nodes[node].output:
            yield from self._readers.get(name, ())

    def inputs(self, nodes: Collection[int]) -> list[str]:
        """What these nodes read from outside, but for constants."""
        produced = {name for node in nodes for name in self.nodes[node].output}
        read = dict.fromkeys(name for node in sorted(nodes) for name in self._reads[node])
        return [name for name in read if name not in produced and not self._is_constant(name)]

    def values(self, nodes: Iterable[int]) -> list[str]:
        """What these nodes read and make, but for constants."""
        names = dict.fromkeys(name for node in nodes for name in (*self._reads[node], *self.nodes[node].output))
        return [name for name in names if name and not self._is_constant(name)]

    def outputs(self, nodes: Collection[int]) -> list[str]:
        """What these nodes make and somebody outside reads, or nobody at all."""
        inside = set(nodes)
        results = set(self._results)
        produced = [name for node in sorted(inside) for name in self.nodes[node].output if name]
        return [
            name
            for name in produced
            if name in results or not all(reader in inside for reader in self._readers.get(name, [-1]))
        ]

    def cut(self, nodes: Collection[int], arrays: Mapping[str, Array]) -> onnx.ModelProto:
        """The model of these nodes; `arrays` holds what comes in."""
        chosen = sorted(nodes)
        read = dict.fromkeys(name for node in chosen for name in self._reads[node])
        graph = onnx.GraphProto(name=self.model.graph.name or "cut")
        graph.node.extend(self.nodes[node] for node in chosen)
        for name in self.inputs(chosen):
            array = np.asarray(arrays[name])
            graph.input.append(
                helper.make_tensor_value_info(name, DType.from_numpy(array.dtype).onnx, list(array.shape))
            )
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.outputs(chosen))
        graph.initializer.extend(self._constants[name] for name in read if name in self._constants)
        graph.sparse_initializer.extend(self._sparse[name] for name in read if name in self._sparse)
        part = onnx.ModelProto(ir_version=self.model.ir_version, producer_name="atcpy passes bisect", graph=graph)
        part.opset_import.extend(self.model.opset_import)
        part.functions.extend(self.model.functions)
        return part

    def _is_constant(self, name: str) -> bool:
        return name in self._constants or name in self._sparse


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """What a Constant holds, as an initializer; None for other nodes, and for what is no tensor."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.name == "value":
        tensor = attribute.t
    elif attribute.name in {"value_int", "value_ints"}:
        tensor = numpy_helper.from_array(np.array(helper.get_attribute_value(attribute), np.int64))
    elif attribute.name in {"value_float", "value_floats"}:
        tensor = numpy_helper.from_array(np.array(helper.get_attribute_value(attribute), np.float32))
    else:
        return None
    named = onnx.TensorProto()
    named.CopyFrom(tensor)
    named.name = node.output[0]
    return named

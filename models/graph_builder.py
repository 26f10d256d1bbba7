"""Builds ONNX graphs like those of an exporter, with random weights from fixed seeds.

Names follow the module path: inside `scope("layer1", "0")` a Conv is the node `/layer1/0/Conv`, its result
`/layer1/0/Conv_output_0`, and its weight `layer1.0.weight`. Weights are described while the graph is built and drawn
by `to_model`.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

OPSET: Final = 17
IR_VERSION: Final = 8

Array = npt.NDArray[Any]


def noise(key: str, shape: Sequence[int], low: float, high: float) -> npt.NDArray[np.float32]:
    """Returns float32 noise in [low, high) that depends on `key` and `shape` alone.

    NumPy may change its distributions, but not the output of PCG64, and converting its upper 23 bits to a fraction is
    exact: the values are the same with every version and on every machine.
    """
    count = math.prod(shape)
    words = np.random.PCG64(zlib.crc32(key.encode())).random_raw((count + 1) // 2).astype("<u8")
    fraction = ((words.view("<u4")[:count] >> 9).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-23)
    return (fraction * np.float32(high - low) + np.float32(low)).reshape(tuple(shape))


@dataclass(frozen=True)
class Weight:
    """An initializer whose values are drawn only when needed."""

    shape: tuple[int, ...]
    draw: Callable[[], Array]


class Graph:
    """An ONNX graph under construction; values are identified by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self._producers: dict[str, onnx.NodeProto] = {}
        self._weights: dict[str, Weight] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._metadata: dict[str, str] = {}
        self._path: list[str] = []
        self._serials: Counter[str] = Counter()

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.nodes)

    @property
    def weight_count(self) -> int:
        """The number of values in all initializers."""
        return sum(math.prod(weight.shape) for weight in self._weights.values())

    @contextmanager
    def scope(self, *path: str) -> Iterator[None]:
        """Prefixes the names of everything added inside with a module path."""
        self._path.extend(path)
        yield
        del self._path[-len(path) :]

    def input(self, name: str, *shape: int | str, dtype: npt.DTypeLike = np.float32, below: int | None = None) -> str:
        """Adds a graph input; integers must be in [0, below), which the model's metadata records as `below:NAME`."""
        self._inputs.append(_value_info(name, shape, dtype))
        if below is not None:
            self._metadata[f"below:{name}"] = str(below)
        return name

    def output(self, value: str, name: str, *shape: int | str, dtype: npt.DTypeLike = np.float32) -> str:
        """Makes `value` a graph output called `name`; nothing may have used it yet, since its producer is renamed."""
        producer = self._producers.pop(value)
        producer.output[list(producer.output).index(value)] = name
        self._producers[name] = producer
        self._outputs.append(_value_info(name, shape, dtype))
        return name

    def ops(self, count: int, op_type: str, *inputs: str, **attributes: Any) -> list[str]:
        """Adds a node with `count` outputs and returns their names."""
        stem = "/" + "/".join([*self._path, op_type])
        serial = self._serials[stem]
        self._serials[stem] += 1
        name = f"{stem}_{serial}" if serial else stem
        outputs = [f"{name}_output_{index}" for index in range(count)]
        node = helper.make_node(op_type, inputs, outputs, name=name, **attributes)
        self.nodes.append(node)
        self._producers.update(dict.fromkeys(outputs, node))
        return outputs

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one output and returns its name."""
        return self.ops(1, op_type, *inputs, **attributes)[0]

    def integers(self, values: npt.ArrayLike) -> str:
        """Adds an int64 Constant node, the exporter's form of shapes, axes and indices."""
        return self._constant(np.asarray(values, np.int64))

    def floats(self, values: npt.ArrayLike) -> str:
        """Adds a float32 Constant node."""
        return self._constant(np.asarray(values, np.float32))

    def reshape(self, x: str, *shape: int) -> str:
        """Adds a Reshape to a literal shape."""
        return self.op("Reshape", x, self.integers(shape), allowzero=0)

    def transpose(self, x: str, *perm: int) -> str:
        """Adds a Transpose."""
        return self.op("Transpose", x, perm=perm)

    def weight(self, leaf: str, array: Array) -> str:
        """Adds an initializer of the given value."""
        return self._add_weight(leaf, array.shape, lambda name: array)

    def random(self, leaf: str, *shape: int, std: float, mean: float = 0.0) -> str:
        """Adds a float32 initializer of uniform noise with the given mean and deviation."""
        reach = std * math.sqrt(3.0)
        low, high = mean - reach, mean + reach
        return self._add_weight(leaf, shape, lambda name: noise(f"{self.name}/{name}", shape, low, high))

    def to_model(self) -> onnx.ModelProto:
        """Draws the weights and returns the model."""
        graph = helper.make_graph(self.nodes, self.name, self._inputs, self._outputs)
        for name, weight in self._weights.items():
            graph.initializer.append(numpy_helper.from_array(weight.draw(), name))
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="make_models")
        helper.set_model_props(model, self._metadata)
        return model

    def _constant(self, value: Array) -> str:
        return self.op("Constant", value=numpy_helper.from_array(value))

    def _add_weight(self, leaf: str, shape: tuple[int, ...], draw: Callable[[str], Array]) -> str:
        name = ".".join([*self._path, leaf])
        if name in self._weights:
            raise ValueError(f"two weights are called {name}")
        self._weights[name] = Weight(shape, lambda: draw(name))
        return name


def _value_info(name: str, shape: Sequence[int | str], dtype: npt.DTypeLike) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

"""Builder of random ONNX graphs: typed values of static shapes, and nodes that compute them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

from atcpy.ir import DType
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array

T = TypeVar("T")
OPSET = onnx.defs.onnx_opset_version()
FLOATS = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)
SIGNED = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)
UNSIGNED = (DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64)
INTS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTS
BOOL = (DType.BOOL,)
EVERY = NUMBERS + BOOL
# Dtypes of inputs, repeated according to how common they are in models.
COMMON = [DType.FLOAT32] * 12 + [*FLOATS, *FLOATS, *INTS, DType.INT32, DType.INT64, DType.BOOL]
_SIZES = [1, 1, 2, 3, 3, 4, 5, 7, 16, 17]
_LONG = [513, 600, 768, 1000, 1030, 2048, 4096]  # row lengths of one tile of a graph kernel or more
_MAX_ELEMENTS = 8192  # of a value
_SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, 3.0, 1e-3, 100.0]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph."""

    name: str
    dtype: DType
    shape: StaticShape


@dataclass(frozen=True, slots=True)
class Case:
    """A model and its feeds."""

    model: onnx.ModelProto
    feeds: dict[str, Array]


@dataclass(slots=True)
class Builder:
    """Adds random nodes to a graph; all randomness comes from `rng`."""

    rng: np.random.Generator
    values: list[Value] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < share)

    def below(self, end: int) -> int:
        """A random integer in [0, end)."""
        return int(self.rng.integers(0, end))

    def pick(self, items: Sequence[T]) -> T:
        """A random item."""
        return items[self.below(len(items))]

    def numbers(self, dtype: DType, shape: StaticShape) -> Array:
        """Random elements: floats near 0 and some special values, small integers and a few large ones."""
        if dtype is DType.BOOL:
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        if dtype.is_float:
            array = self.rng.normal(0, 2, shape)
            array = np.where(self.rng.random(shape) < 0.1, self.rng.choice(_SPECIAL, shape), array)
            return np.asarray(array.astype(dtype.numpy))
        limits = np.iinfo(dtype.numpy)
        small = self.rng.integers(max(limits.min, -9), 10, shape).astype(dtype.numpy)
        large = self.rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
        return np.where(self.rng.random(shape) < 0.05, large, small)

    def constant(self, array: Array) -> Value:
        """Add a constant."""
        array = np.asarray(array)
        value = Value(f"c{len(self.constants)}", DType.from_numpy(array.dtype), array.shape)
        proto = numpy_helper.from_array(array, value.name)
        self.constants.append(proto)
        return value

    def input(self, dtype: DType, shape: StaticShape) -> Value:
        """Add a graph input with random feeds."""
        value = Value(f"x{len(self.inputs)}", dtype, shape)
        self.inputs.append(value)
        self.feeds[value.name] = self.numbers(dtype, shape)
        self.values.append(value)
        return value

    def first_input(self, dtypes: Sequence[DType]) -> None:
        """Add an input with one of the dtypes and a small shape, or with a few long rows."""
        rank = self.pick([0, 1, 2, 2, 3, 3, 4, 4, 4, 5])
        shape = tuple(self.pick(_SIZES) for _ in range(rank))
        while np.prod(shape, dtype=int) > 4000:
            shape = tuple(max(1, size // 2) for size in shape)
        if self.chance(0.25):
            row = self.pick(_LONG)
            while np.prod(shape, dtype=int) * row > _MAX_ELEMENTS:
                shape = tuple(max(1, size // 2) for size in shape)
            shape = (*shape[-4:], row)
        if rank and self.chance(0.03):
            shape = (*shape[:-1], 0)
        self.input(self.pick(dtypes), shape)

    def value(
        self, dtypes: Collection[DType], accepts: Callable[[StaticShape], bool] = lambda shape: True
    ) -> Value | None:
        """A suitable value, newer ones more likely; None if there is none."""
        fitting = [value for value in self.values if value.dtype in dtypes and accepts(value.shape)]
        if not fitting:
            return None
        return fitting[len(fitting) - 1 - min(self.below(len(fitting)), self.below(len(fitting)))]

    def partner(self, x: Value, dtype: DType | None = None, *, one_way: bool = False) -> Value:
        """A second operand that broadcasts with x (to x if `one_way`): an existing value, a constant or a new input."""
        dtype = dtype or x.dtype
        if self.chance(0.5):
            found = self.value({dtype}, lambda shape: _broadcasts(shape, x.shape, one_way=one_way))
            if found is not None:
                return found
        shape = tuple(1 if self.chance(0.3) else size for size in x.shape)
        shape = shape[self.below(len(shape) + 1) if self.chance(0.3) else 0 :]
        if not one_way and self.chance(0.1):
            shape = tuple(2 if a == 1 and self.chance(0.5) else a for a in shape)
            shape = shape if _broadcasts(shape, x.shape, one_way=False) else ()
        if len(self.inputs) < 4 and self.chance(0.3):
            return self.input(dtype, shape)
        return self.constant(self.numbers(dtype, shape))

    def add(
        self, op_type: str, inputs: Sequence[Value | None], dtype: DType, shape: StaticShape, **attrs: object
    ) -> Value:
        """Add a node with one output of the given type."""
        value = Value(f"v{len(self.nodes)}", dtype, tuple(int(size) for size in shape))
        names = ["" if item is None else item.name for item in inputs]
        self.nodes.append(helper.make_node(op_type, names, [value.name], name=f"n{len(self.nodes)}", **attrs))
        self.values.append(value)
        return value

    def add_multi_output(
        self, op_type: str, inputs: Sequence[Value], types: Sequence[tuple[DType, StaticShape]], **attrs: object
    ) -> None:
        """Add a node with several outputs, of which a random non-empty subset may be used by later nodes."""
        results = [
            Value(f"v{len(self.nodes)}_{index}" if index else f"v{len(self.nodes)}", dtype, shape)
            for index, (dtype, shape) in enumerate(types)
        ]
        names = [value.name for value in inputs]
        outputs = [value.name for value in results]
        self.nodes.append(helper.make_node(op_type, names, outputs, name=f"n{len(self.nodes)}", **attrs))
        usable = [value for value in results if self.chance(0.6)] or [self.pick(results)]
        self.values += usable

    def case(self) -> Case:
        """Finish the model; its outputs are all unread values, and some others."""
        computed = [value for value in self.values if value.name.startswith("v")]
        read = {name for node in self.nodes for name in node.input}
        outputs = [value for value in computed if value.name not in read or self.chance(0.15)]
        read |= {value.name for value in outputs}
        inputs = [value for value in self.inputs if value.name in read]
        model = make_model(self.nodes, inputs, outputs, [c for c in self.constants if c.name in read])
        return Case(model, {value.name: self.feeds[value.name] for value in inputs})


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    constants: Sequence[onnx.TensorProto],
) -> onnx.ModelProto:
    """Build and check a model of the newest opset."""
    infos = [
        [helper.make_tensor_value_info(value.name, value.dtype.onnx, value.shape) for value in values]
        for values in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "random", *infos, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    onnx.checker.check_model(model)
    return model


def broadcast(*shapes: StaticShape) -> StaticShape:
    """The shape that these broadcast to."""
    return tuple(np.broadcast_shapes(*shapes))


def _broadcasts(shape: StaticShape, target: StaticShape, *, one_way: bool) -> bool:
    try:
        result = np.broadcast_shapes(shape, target)
    except ValueError:
        return False
    return result == target if one_way else np.prod(result, dtype=int) <= _MAX_ELEMENTS

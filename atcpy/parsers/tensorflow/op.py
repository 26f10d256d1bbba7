"""What a mapping function sees: one node of a TensorFlow graph, and the means to say it in ops of ONNX.

    @maps("BiasAdd")
    def bias_add(op: Op) -> Value:
        '''Add along the channels'''

A function returns the value, or the values, of the node's outputs. What it adds has its type at once, so that it may
ask for the shapes of what it reads: sizes are numbers or symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from atcpy.errors import ModelInvalid, Unsupported, Where
from atcpy.ir import DType, Graph, Tensor, Value
from atcpy.ir.shape import Shape
from atcpy.ir.tensor import Array
from atcpy.ops.infer import KnownValues, infer_node
from atcpy.parsers.tensorflow.evaluation import find_constant
from atcpy.parsers.tensorflow.graph import Ref, TfGraph, TfNode
from atcpy.parsers.tensorflow.tensors import find_dtype, type_name

Results = Value | Sequence[Value | None]
MappingFunction = Callable[["Op"], Results]


class Bodies(Protocol):
    """Who reads the graphs that a node of control flow runs, and the constants that variables are. `lists` has the
    lists whose elements have no shape yet, with their element types: the value is their size. `growing` has the arrays
    that grow when they are written behind their end. `imaginary` has what makes a value complex: the value is the real
    part only. `devices` has the first device of each collective. `random` has the numbers that are drawn, with the
    range that they are in.
    """

    lists: dict[Value, DType]
    growing: set[Value]
    imaginary: dict[Value, Value]
    devices: dict[Hashable, str]
    random: dict[Value, tuple[float, float]]

    def variable(self, node: TfNode, where: Where) -> Tensor:
        """The content of a variable, from the checkpoint that belongs to the graph."""

    def find_body(self, op: Op, function: object) -> TfGraph:
        """The graph of a function that an attribute names."""

    def read_body(self, op: Op, label: str, body: TfGraph, graph: Graph, arguments: Sequence[Value]) -> list[Value]:
        """Reads a graph into `graph`, its arguments being these values; what it returns."""


@dataclass(slots=True)
class Op:
    """One node on its way into the IR. `inputs` are what its data inputs have become."""

    node: TfNode
    inputs: list[Value]
    graph: Graph
    known: KnownValues
    defaults: Mapping[str, object]
    bodies: Bodies
    read: Collection[Ref]  # what is read of the outputs in its graph

    # --- what the node says ----------------------------------------------------------------

    @property
    def where(self) -> Where:
        """Its place, for errors."""
        return Where(graph=self.graph.name, node=self.node.name, op=self.node.op)

    def input(self, index: int) -> Value:
        """Input `index`; ModelInvalid if there are fewer."""
        if index >= len(self.inputs) or index < -len(self.inputs):
            what = f"it has {len(self.inputs)} inputs, number {index} is needed"
            raise ModelInvalid("E12009", what, where=self.where)
        return self.inputs[index]

    def attr(self, name: str) -> object:
        """An attribute, or its default; None if it has neither."""
        value = self.node.attrs.get(name)
        return self.defaults.get(name) if value is None else value

    def int_attr(self, name: str) -> int:
        """An integer."""
        value = self.attr(name)
        return value if isinstance(value, int) else self._wrong(name, value)

    def float_attr(self, name: str) -> float:
        """A number."""
        value = self.attr(name)
        return float(value) if isinstance(value, int | float) else self._wrong(name, value)

    def bool_attr(self, name: str) -> bool:
        """True or false."""
        return bool(self.attr(name))

    def text_attr(self, name: str) -> str:
        """A text."""
        value = self.attr(name)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else self._wrong(name, value)

    def ints_attr(self, name: str) -> tuple[int, ...]:
        """A list of integers."""
        value = self.attr(name)
        return value if isinstance(value, tuple) else self._wrong(name, value)

    def dtype_attr(self, name: str) -> DType:
        """An element type; Unsupported for those that hold no elements, such as `resource`."""
        value = self.attr(name)
        if not isinstance(value, int):
            return self._wrong(name, value)
        dtype = find_dtype(value)
        if dtype is None:
            raise self.refuse(f"values of type {type_name(value)}")
        return dtype

    def _wrong(self, name: str, value: object) -> NoReturn:
        if value is None:
            raise ModelInvalid("E13014", f"the attribute {name} is missing", where=self.where)
        raise ModelInvalid("E13014", f"the attribute {name} is {value!r}", where=self.where)

    def body(self, name: str) -> TfGraph:
        """The graph that an attribute names."""
        made = self.node.bodies.get(name)
        return made if made is not None else self.bodies.find_body(self, self.attr(name))

    def is_read(self, output: int) -> bool:
        """Does anyone read this output?"""
        return Ref(self.node.name, output) in self.read

    # --- what is known of its inputs ---------------------------------------------------------

    def dtype(self, index: int) -> DType:
        """The element type of an input."""
        return self.input(index).desc.dtype

    def shape(self, index: int) -> Shape:
        """The shape of an input; Unsupported if its rank is not known."""
        return self.shape_of(self.input(index))

    def shape_of(self, value: Value) -> Shape:
        """The shape of a value; Unsupported if its rank is not known."""
        if value.desc.shape is None:
            hint = "give the shapes of the inputs: --input_shape"
            raise self.refuse(f'the rank of "{value.name}" is not known', hint)
        return value.desc.shape

    def rank(self, index: int) -> int:
        """The number of dims of an input; Unsupported if it is not known."""
        return len(self.shape(index))

    def array(self, index: int) -> Array:
        """The elements of an input that must be constant."""
        value = self.input(index)
        array = find_constant(value, self.known)
        if array is None:
            raise self.refuse(f'input {index}, "{value.name}", is computed when the model runs')
        return array

    def is_constant(self, index: int) -> bool:
        """True if `array` has an answer."""
        return find_constant(self.input(index), self.known) is not None

    def ints(self, index: int) -> tuple[int, ...]:
        """The integers of an input that must be constant; a scalar is a list of one."""
        if not self.dtype(index).is_int:
            what = f"input {index} has elements of type {self.dtype(index).long} instead of integers"
            raise ModelInvalid("E13014", what, where=self.where)
        return tuple(int(item) for item in self.array(index).reshape(-1))

    def axes(self, index: int, rank: int) -> tuple[int, ...]:
        """The axes of a constant input, counted from the front."""
        axes = tuple(axis + rank if axis < 0 else axis for axis in self.ints(index))
        if not all(0 <= axis < rank for axis in axes):
            raise ModelInvalid("E13014", f"the axes {self.ints(index)} of {rank} dims", where=self.where)
        return axes

    def shape_input(self, index: int) -> Value:
        """An input of integers in the 64 bits that ONNX wants sizes, axes and places in."""
        return self.cast(self.input(index), DType.INT64)

    # --- what becomes of it --------------------------------------------------------------------

    def add(self, op_type: str, *inputs: Value | None, **attrs: object) -> Value:
        """A new node of an op of the standard; its output."""
        return self.add_many(op_type, *inputs, outputs=1, **attrs)[0]

    def add_many(self, op_type: str, *inputs: Value | None, outputs: int, **attrs: object) -> list[Value]:
        """The same with so many outputs."""
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        name = f"{self.node.name}/{op_type}"
        node = self.graph.append(op_type, inputs, attrs, name=name, outputs=("",) * outputs)
        node.sources = (self.node.name,)
        infer_node(node, self.known)
        return node.outputs

    def const(self, array: npt.ArrayLike, dtype: DType = DType.INT64) -> Value:
        """A constant; Unsupported if the type has no such number."""
        try:
            held = np.asarray(array, dtype.numpy)
        except OverflowError as error:
            raise self.refuse(f"values of type {dtype.long}") from error
        return self.graph.add_const(Tensor.of(held, dtype), f"{self.node.name}/const")

    def like(self, number: float, value: Value) -> Value:
        """A scalar of the type of a value."""
        return self.const(number, value.desc.dtype)

    def complex_of(self, real: Value, imaginary: Value) -> Value:
        """A value that is complex."""
        value = self.add("Identity", real)
        self.bodies.imaginary[value] = imaginary
        return value

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """A value with its dims in another order."""
        return value if list(perm) == list(range(len(perm))) else self.add("Transpose", value, perm=tuple(perm))

    def cast(self, value: Value, dtype: DType) -> Value:
        """A value in another element type."""
        return value if value.desc.dtype is dtype else self.add("Cast", value, to=dtype.onnx)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """A value in another shape; −1 once, and no 0 but for a size that is 0."""
        return self.add("Reshape", value, self.const(shape), allowzero=int(0 in shape and -1 not in shape))

    def squeeze(self, value: Value, *axes: int) -> Value:
        """A value without dims of size 1."""
        return self.add("Squeeze", value, self.const(axes))

    def unsqueeze(self, value: Value, *axes: int) -> Value:
        """A value with new dims of size 1."""
        return self.add("Unsqueeze", value, self.const(axes))

    def refuse(self, what: str, hint: str = "") -> Unsupported:
        """The error for what has no place here."""
        return Unsupported("E10055", what, where=self.where, hint=hint)


@dataclass(frozen=True, slots=True)
class Rule:
    """How an op of TensorFlow is said: the function, and the sentence of the page of operators."""

    function: MappingFunction
    note: str


MAPPINGS: dict[str, Rule] = {}
COMPLEX: dict[str, MappingFunction] = {}  # how an op is said where an input is complex


def maps(*ops: str) -> Callable[[MappingFunction], MappingFunction]:
    """Registers the function for these ops; its docstring is what users read about them."""

    def register(function: MappingFunction) -> MappingFunction:
        for op in ops:
            assert op not in MAPPINGS, f"{op} is mapped twice"
            MAPPINGS[op] = Rule(function, (function.__doc__ or "").strip().split("\n")[0])
        return function

    return register


def maps_complex(*ops: str) -> Callable[[MappingFunction], MappingFunction]:
    """Registers the function for these ops where an input of theirs is complex."""

    def register(function: MappingFunction) -> MappingFunction:
        for op in ops:
            assert op not in COMPLEX, f"{op} is mapped twice for complex numbers"
            COMPLEX[op] = function
        return function

    return register

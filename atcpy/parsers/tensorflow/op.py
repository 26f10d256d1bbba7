"""OpBuilder: what a mapping function sees of a node of a TensorFlow graph, and how it creates the ops of ONNX for it.

    @maps("BiasAdd")
    def bias_add(b: OpBuilder) -> Value:
        '''Add along the channels'''

A function returns the value, or the values, of the node's outputs. Types are inferred as nodes are created, so that a
function may ask for the shape of any value: sizes are numbers or symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from inspect import signature
from typing import NoReturn, Protocol, TypeVar

from atcpy.errors import ModelInvalid, Where
from atcpy.ir import Builder, DType, Graph, Node, Tensor, TensorDesc, Value
from atcpy.ir.arithmetic import Expr, IndexExpr
from atcpy.ir.shape import Dim, Shape
from atcpy.ir.tensor import Array
from atcpy.ops.core.infer import KnownValues
from atcpy.parsers.tensorflow.evaluation import find_constant
from atcpy.parsers.tensorflow.graph import Ref, TfGraph, TfNode
from atcpy.parsers.tensorflow.tables import Table
from atcpy.parsers.tensorflow.tensors import find_dtype, type_name

Results = Value | Sequence[Value | None]
MappingFunction = Callable[["OpBuilder"], Results]
COMPLEX_PARTS = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}  # the types of their parts
ScanStep = Callable[["OpBuilder", list[Value]], tuple[Sequence[Value], Sequence[Value]]]
_Attr = TypeVar("_Attr")


class Bodies(Protocol):
    """What mapping functions share: the importer, which reads bodies and variables, and what is known of values.

    `lists` has the tensor lists whose elements have no shape yet, with their element types; such a value is the size of
    the list. `growing` has the TensorArrays that grow when an element is written behind their end. `imaginary` has the
    imaginary parts of complex values. `devices` has the first device of each collective. `random` has the range of
    each random number. `tables` are those that handles number.
    """

    lists: dict[Value, DType]
    growing: set[Value]
    imaginary: dict[Value, Value]
    devices: dict[Hashable, str]
    random: dict[Value, tuple[float, float]]
    tables: list[Table]

    def infer(self, node: Node) -> None:
        """Sets the types of the outputs of a new node."""

    def variable(self, node: TfNode, where: Where) -> Tensor:
        """The content of a variable, from the checkpoint that belongs to the graph."""

    def find_table(self, node: TfNode, where: Where) -> Table:
        """The content of a lookup table, from what initialises it."""

    def find_body(self, b: OpBuilder, function: object) -> TfGraph:
        """The graph of a function that an attribute names."""

    def read_body(
        self, b: OpBuilder, label: str, body: TfGraph, graph: Graph, arguments: Sequence[Value]
    ) -> list[Value]:
        """Reads a graph into `graph`, its arguments being these values; what it returns."""


class OpBuilder(Builder):
    """Creates the nodes for one node of a TensorFlow graph. `inputs` are the values of its data inputs, and `read` the
    outputs that are read in its graph.
    """

    def __init__(
        self,
        node: TfNode,
        inputs: list[Value],
        graph: Graph,
        known: KnownValues,
        defaults: Mapping[str, object],
        bodies: Bodies,
        read: Collection[Ref],
    ) -> None:
        super().__init__(graph, name=node.name, sources=(node.name,), infer=bodies.infer)
        self.node = node
        self.inputs = inputs
        self.known = known
        self.bodies = bodies
        self._defaults = defaults
        self._read = read

    def changed(
        self, *, node: TfNode | None = None, inputs: list[Value] | None = None, graph: Graph | None = None
    ) -> OpBuilder:
        """Return a builder for another node, other inputs, or in another graph."""
        other = copy(self)
        other.node = node or self.node
        other.inputs = self.inputs if inputs is None else inputs
        other.graph = graph or self.graph
        return other

    # --- the node --------------------------------------------------------------------------

    @property
    def where(self) -> Where:
        """The node that errors name."""
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
        return self._defaults.get(name) if value is None else value

    def int_attr(self, name: str) -> int:
        """An integer."""
        return self._attr_of(name, int)

    def float_attr(self, name: str) -> float:
        """A number."""
        value = self.attr(name)
        return float(value) if isinstance(value, int) else self._attr_of(name, float)

    def bool_attr(self, name: str) -> bool:
        """True or false."""
        return bool(self.attr(name))

    def text_attr(self, name: str) -> str:
        """A text."""
        return self._attr_of(name, bytes).decode("utf-8", "replace")

    def ints_attr(self, name: str) -> tuple[int, ...]:
        """A list of integers."""
        return self._attr_of(name, tuple)

    def dtype_attr(self, name: str) -> DType:
        """An element type; Unsupported for those that hold no elements, such as `resource`."""
        number = self.int_attr(name)
        dtype = find_dtype(number)
        if dtype is None:
            raise self.unsupported(f"values of type {type_name(number)}")
        return dtype

    def _attr_of(self, name: str, kind: type[_Attr]) -> _Attr:
        """An attribute of this Python type; ModelInvalid if it has another, or is missing."""
        value = self.attr(name)
        if not isinstance(value, kind):
            raise self.invalid(f"the attribute {name} is {'missing' if value is None else repr(value)}")
        return value

    def body(self, name: str) -> TfGraph:
        """The graph that an attribute names."""
        body = self.node.bodies.get(name)
        return body if body is not None else self.bodies.find_body(self, self.attr(name))

    def is_read(self, output: int) -> bool:
        """Whether this output is read."""
        return Ref(self.node.name, output) in self._read

    # --- what is known of its inputs ---------------------------------------------------------

    def dtype(self, index: int) -> DType:
        """The element type of an input."""
        return self.input(index).desc.dtype

    def shape(self, index: int) -> Shape:
        """The shape of an input; Unsupported if its rank is not known."""
        return self.shape_of(self.input(index))

    def rank(self, index: int) -> int:
        """The number of dims of an input; Unsupported if it is not known."""
        return len(self.shape(index))

    def dim_of(self, value: Value, axis: int) -> Dim:
        """A dim of a value. Raises Unsupported if its rank is not known, ModelInvalid if it has no such axis."""
        shape = self.shape_of(value)
        if not -len(shape) <= axis < len(shape):
            raise ModelInvalid(
                "EZ8888", f'"{value.name}" has {len(shape)} dims, there is no axis {axis}', where=self.where
            )
        return shape[axis]

    def array(self, index: int) -> Array:
        """The elements of an input that must be constant."""
        value = self.input(index)
        array = find_constant(value, self.known)
        if array is None:
            raise self.unsupported(f'input {index}, "{value.name}", is computed when the model runs')
        return array

    def is_constant(self, index: int) -> bool:
        """Whether `array` can return the elements of an input."""
        return find_constant(self.input(index), self.known) is not None

    def ints(self, index: int) -> tuple[int, ...]:
        """The integers of an input that must be constant; a scalar is a list of one."""
        if not self.dtype(index).is_int:
            what = f"input {index} has elements of type {self.dtype(index).long} instead of integers"
            raise self.invalid(what)
        return tuple(int(item) for item in self.array(index).reshape(-1))

    def axes(self, index: int, rank: int) -> tuple[int, ...]:
        """The axes of a constant input, counted from the front."""
        axes = tuple(axis + rank if axis < 0 else axis for axis in self.ints(index))
        if not all(0 <= axis < rank for axis in axes):
            raise self.invalid(f"the axes {self.ints(index)} of {rank} dims")
        return axes

    # --- its inputs in the form that a mapping needs -----------------------------------------

    def expr(self, index: int) -> Expr:
        """An input for arithmetic."""
        return Expr(self, self.input(index))

    def int64_input(self, index: int) -> Value:
        """An input of integers as int64, the type of sizes, axes and indices in ONNX."""
        return self.cast(self.input(index), DType.INT64)

    def size_input(self, index: int) -> Value:
        """An input that is one integer, as an int64 list of one element."""
        return self.reshape(self.int64_input(index), [1])

    def index_input(self, index: int) -> IndexExpr:
        """An input of integers of any shape, folded where they are constant."""
        if self.is_constant(index):
            return IndexExpr.of(self, self.ints(index)).reshape(*self.input(index).desc.static_shape)
        return IndexExpr(self, self.int64_input(index))

    def index_items(self, index: int) -> list[IndexExpr]:
        """The integers of an input, each as a list of one element; how many there are must be known."""
        value = self.input(index)
        if not value.desc.is_static:
            raise self.unsupported(f'how many numbers input {index}, "{value.name}", holds is not known')
        if self.is_constant(index):
            return [IndexExpr.of(self, [number]) for number in self.ints(index)]
        known = self.known(value) or (None,) * value.desc.elements
        parts = value.producer.operands if value.producer.op_type == "Concat" else []
        if not all(part.desc.is_static and part.desc.shape == (1,) for part in parts):
            parts = []
        flat = self.int64_input(index)
        if len(value.desc.static_shape) != 1:
            flat = self.reshape(flat, (-1,))

        def item(at: int) -> Value:
            if parts:
                return self.cast(parts[at], DType.INT64)
            return flat if len(known) == 1 else self.slice(flat, at, at + 1, 0)

        return [
            IndexExpr.of(self, [number]) if isinstance(number, int) else IndexExpr(self, item(at))
            for at, number in enumerate(known)
        ]

    def number(self, index: int, name: str) -> int:
        """The only integer of a constant input; `name` stands in the error if it has more or none."""
        numbers = self.ints(index)
        if len(numbers) != 1:
            raise self.invalid(f"{name}: one number, not {len(numbers)}")
        return numbers[0]

    # --- values --------------------------------------------------------------------------------

    def reshape(self, value: Value, shape: Sequence[int], *, allowzero: bool = True) -> Value:
        """Change the shape. One −1 stands for the size that is left; TensorFlow's 0 is a size."""
        return super().reshape(value, shape, allowzero=allowzero and 0 in shape and -1 not in shape)

    def widen(self, value: Value) -> Value:
        """Convert integers of 8 and 16 bits to int32, for ops whose standard leaves them out."""
        dtype = value.desc.dtype
        return self.cast(value, DType.INT32) if dtype.is_int and dtype.bits < 32 else value

    def filled_like(self, value: Value, number: float) -> Value:
        """Create a tensor of the shape and element type of a value whose elements are all this number."""
        return self.op("Expand", self.like(number, value), self.op("Shape", value))

    def scan(self, states: Mapping[str, Value], items: Mapping[str, Value], step: ScanStep) -> list[Value]:
        """Create a Scan; return the final states and the stacked outputs. `step` gets the states and one element of
        each of the items, and returns the new states and the outputs of one iteration.
        """
        body = Graph(f"{self.node.name}/body", names=self.graph.names)
        arguments: list[Value] = []
        for index, (name, value) in enumerate({**states, **items}.items()):
            data = body.append("Data", (), {"index": index}, name=f"{self.node.name}/{name}")
            shape = self.shape_of(value)
            data.output.desc = TensorDesc.plain(value.desc.dtype, shape if name in states else shape[1:])
            arguments.append(data.output)
        inner = self.changed(graph=body)
        new_states, outputs = step(inner, arguments)
        results = [
            *new_states,
            *[inner.op("Identity", output) for output in outputs],
        ]  # a graph returns each value once
        body.append("NetOutput", results, name="NetOutput", outputs=())
        inputs, attrs = [*states.values(), *items.values()], {"body": body, "num_scan_inputs": len(items)}
        names = ("",) * len(results)
        node = self.graph.append("Scan", inputs, attrs, name=f"{self.node.name}/Scan", outputs=names)
        node.sources = self.sources
        count = self.dim_of(inputs[-1], 0)
        for value, result in zip(node.outputs, results, strict=True):
            shape = self.shape_of(result)
            value.desc = TensorDesc.plain(result.desc.dtype, shape if value.index < len(states) else (count, *shape))
        return list(node.outputs)

    def complex_of(self, real: Value, imaginary: Value) -> Value:
        """Return a complex value of these parts."""
        value = self.op("Identity", real)
        self.bodies.imaginary[value] = imaginary
        return value


@dataclass(frozen=True, slots=True)
class Rule:
    """The mapping function of an op, and its sentence on the page of operators."""

    function: MappingFunction
    note: str


MAPPINGS: dict[str, Rule] = {}
COMPLEX: dict[str, MappingFunction] = {}  # of ops with a complex input


def maps(*ops: str, note: str = "") -> Callable[[MappingFunction], MappingFunction]:
    """Registers the function for these ops; `note`, or the first line of its docstring, is what users read of them."""

    def register(function: MappingFunction) -> MappingFunction:
        for op in ops:
            assert op not in MAPPINGS, f"{op} is mapped twice"
            MAPPINGS[op] = Rule(function, note or (function.__doc__ or "").strip().split("\n")[0])
        return function

    return register


def maps_all(rows: Mapping[str, tuple[str, MappingFunction]]) -> None:
    """Registers a table: ops, separated by spaces, what users read of them, and the function."""
    for ops, (note, function) in rows.items():
        maps(*ops.split(), note=note)(function)


def formula(function: Callable[..., Expr]) -> MappingFunction:
    """Return the mapping function that computes a formula of the first inputs."""
    count = len(signature(function).parameters)
    return lambda b: function(*[b.expr(index) for index in range(count)]).value


def refused(what: str, hint: str = "") -> MappingFunction:
    """Return the mapping function that refuses a node; `{op}` in the message stands for its op."""

    def refuse(b: OpBuilder) -> NoReturn:
        raise b.unsupported(what.format(op=b.node.op), hint)

    return refuse


def maps_complex(*ops: str) -> Callable[[MappingFunction], MappingFunction]:
    """Registers the function for these ops where an input of theirs is complex."""

    def register(function: MappingFunction) -> MappingFunction:
        for op in ops:
            assert op not in COMPLEX, f"{op} is mapped twice for complex numbers"
            COMPLEX[op] = function
        return function

    return register

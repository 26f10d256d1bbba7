"""Builder: creates the nodes and constants that stand for a source node, at one position of a graph.

Importers, op expansions, rewrites and custom ops all build through this class, so that names, provenance
(`sources`, `passes`) and types are set the same way everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from atcpy.errors import ModelInvalid, Unsupported, Where
from atcpy.ir.desc import TensorDesc
from atcpy.ir.dtype import DType
from atcpy.ir.graph import Graph
from atcpy.ir.node import Node, Value
from atcpy.ir.shape import Shape
from atcpy.ir.symbolic import is_symbolic
from atcpy.ir.tensor import Tensor

INT64_MAX = 2**63 - 1  # beyond the end of any axis, as the end of a Slice


class Builder:
    """Creates nodes before `anchor`, or at the end of the graph where it is None.

    `name` is the stem of the names of new nodes and constants; every new node gets `sources`. `infer` sets the types
    of a new node's outputs at once. Without it the types are inferred later, and a method that must know one of them
    (`like`, `dim` …) emits a node that works for all.
    """

    def __init__(
        self,
        graph: Graph,
        anchor: Node | None = None,
        *,
        name: str,
        sources: tuple[str, ...] = (),
        passes: tuple[str, ...] = (),
        infer: Callable[[Node], None] | None = None,
    ) -> None:
        self.graph = graph
        self.anchor = anchor
        self.name = name
        self.sources = sources
        self.passes = passes
        self.const_sources = sources  # of constants that are like no other
        self.const_passes: tuple[str, ...] = ()
        self.created: dict[Node, None] = {}  # in order; a dict for fast lookups
        self.infer = infer

    def inside(self, anchor: Node) -> Builder:
        """Return a builder that creates nodes before one of a body, on behalf of the same source node."""
        assert anchor.graph is not None
        inner = Builder(
            anchor.graph, anchor, name=self.name, sources=self.sources, passes=self.passes, infer=self.infer
        )
        inner.created = self.created
        return inner

    # --- nodes and constants ------------------------------------------------------------------

    def op(self, op_type: str, *inputs: Value | None, **attrs: object) -> Value:
        """Create a node with one output and return that output. Trailing inputs that are None are dropped. An op of
        another domain than the standard's is written as `com.microsoft::Gelu`.
        """
        return self.ops(op_type, *inputs, outputs=1, **attrs)[0]

    def ops(self, op_type: str, *inputs: Value | None, outputs: int, **attrs: object) -> list[Value]:
        """Create a node with this number of outputs and return them."""
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        domain, _, op_type = op_type.rpartition("::")
        name, empty = self._node_name(op_type), ("",) * outputs
        node = self.graph.append(op_type, inputs, attrs, name=name, outputs=empty, domain=domain, before=self.anchor)
        node.sources, node.passes = self.sources, self.passes
        self.created[node] = None
        if self.infer is not None:
            self.infer(node)
        return list(node.outputs)

    def const(
        self,
        array: npt.ArrayLike,
        dtype: DType | None = None,
        *,
        like: Value | None = None,
        name: str = "",
        label: str = "const",
    ) -> Value:
        """Create a constant. `like` lends its name, and its element type unless `dtype` is given. Without either, the
        element type is that of the array; that of Python integers, or of an empty list, is int64. A constant without
        a name is called after the builder and `label`. A list of sizes some of which are symbolic becomes a ShapeValue.
        """
        if isinstance(array, list | tuple) and any(map(is_symbolic, array)):
            integer = dtype if dtype is not None and dtype.is_int else DType.INT64
            sizes = self.op("ShapeValue", elements=tuple(array), dtype=integer.name)
            sizes.desc = TensorDesc.plain(integer, (len(array),))
            return sizes if dtype in (None, integer) else self.cast(sizes, dtype)
        if dtype is None and like is not None:
            dtype = like.desc.dtype
        elements = np.asarray(array) if dtype is None else np.asarray(array, dtype.numpy)
        if elements.size == 0 and dtype is None and not isinstance(array, np.ndarray):
            elements = elements.astype(np.int64)
        name = name or (like.name if like is not None else self._const_name(label))
        value = self.graph.add_const(Tensor.of(elements, dtype), name, before=self.anchor)
        value.producer.sources = self.const_sources if like is None else like.producer.sources
        value.producer.passes = self.const_passes
        self.created[value.producer] = None
        return value

    def like(self, number: float, value: Value, *, label: str = "number") -> Value:
        """Create a scalar of the element type of `value`, by CastLike where that is not known yet. Raises ModelInvalid
        if the type cannot hold the number.
        """
        dtype = self.dtype_of(value)
        if dtype is None:
            return self.op("CastLike", self.const(number, DType.FLOAT32, label=label), value)
        if not dtype.can_hold(number):
            raise self.invalid(f'{number:g} is no number of the type of "{value.name}", {dtype.long}')
        return self.const(number, dtype, label=label)

    # --- types and shapes ---------------------------------------------------------------------

    def dtype_of(self, value: Value) -> DType | None:
        """Return the element type of a value, or None if it is not known yet."""
        return None if value.desc.dtype is DType.UNDEFINED else value.desc.dtype

    def shape_of(self, value: Value) -> Shape:
        """Return the shape of a value, whose sizes may be symbols. Raises Unsupported if its rank is not known."""
        if value.desc.shape is None:
            raise self.unsupported(
                f'the rank of "{value.name}" is not known', "give the shapes of the inputs: --input_shape"
            )
        return value.desc.shape

    def cast(self, value: Value, dtype: DType) -> Value:
        """Convert a value to an element type; one that has it already is returned as it is."""
        return value if self.dtype_of(value) is dtype else self.op("Cast", value, to=dtype.onnx)

    def cast_like(self, value: Value, like: Value) -> Value:
        """Convert a value to the element type of another, by CastLike where that is not known yet."""
        dtype = self.dtype_of(like)
        return self.op("CastLike", value, like) if dtype is None else self.cast(value, dtype)

    def reshape(self, value: Value, shape: Sequence[int], *, allowzero: bool = False) -> Value:
        """Change the shape. One −1 stands for the size that is left; 0 keeps the dim, unless `allowzero` makes it a
        size.
        """
        attrs = {"allowzero": 1} if allowzero else {}
        return self.op("Reshape", value, self.const(shape, DType.INT64, label="shape"), **attrs)

    def scalar(self, value: Value) -> Value:
        """Drop all dims of a value with one element."""
        return value if value.desc.shape == () else self.reshape(value, ())

    def squeeze(self, value: Value, *axes: int) -> Value:
        """Drop dims of size 1."""
        return self.op("Squeeze", value, self.const(axes, label="axes"))

    def unsqueeze(self, value: Value, *axes: int) -> Value:
        """Insert dims of size 1, which have these axes in the result."""
        return self.op("Unsqueeze", value, self.const(axes, label="axes"))

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Permute the dims. The identity creates no node, and a Transpose of one created here becomes one with it."""
        inner = value.producer
        first = inner.ints_attr("perm") if inner.op_type == "Transpose" and inner in self.created else ()
        if first:
            return self.transpose(inner.operand(0), [first[axis] for axis in perm])
        return value if list(perm) == list(range(len(perm))) else self.op("Transpose", value, perm=tuple(perm))

    def slice(self, value: Value, start: Value | int, end: Value | int, axis: int) -> Value:
        """Cut `value[start:end]` out of one axis; bounds that are values are lists of one element."""
        bounds = [self.const([bound], label="bound") if isinstance(bound, int) else bound for bound in (start, end)]
        return self.op("Slice", value, *bounds, self.const([axis], label="axes"))

    def dim(self, value: Value, axis: int) -> Value:
        """Return the size of an axis as an int64 list of one element: a constant where it is known."""
        shape = value.desc.shape
        if shape is not None and -len(shape) <= axis < len(shape) and isinstance(size := shape[axis], int):
            return self.const([size], label="dim")
        return self.slice(self.op("Shape", value), axis, axis + 1 if axis != -1 else INT64_MAX, 0)

    # --- arithmetic ---------------------------------------------------------------------------

    def scale(self, value: Value, factor: float) -> Value:
        """Multiply a value by a number of its element type; by 1 creates no node."""
        return value if factor == 1.0 else self.op("Mul", value, self.like(factor, value))

    def sum(self, first: Value, *others: Value | None) -> Value:
        """Add up those values that are not None."""
        for other in others:
            if other is not None:
                first = self.op("Add", first, other)
        return first

    def zeros(self, shape: Value, like: Value) -> Value:
        """Create zeros of the element type of `like`; the shape is a list of integers."""
        return self.op("Expand", self.like(0.0, like), self.cast(shape, DType.INT64))

    def iota(self, count: Value, start: Value | None = None) -> Value:
        """Create the int64 list 0, 1, … of `count` numbers, or start, start + 1, …; both have one element."""
        zero, one = self.const(0, label="zero"), self.const(1, label="one")
        numbers = self.op("Range", zero, self.scalar(count), one)
        return numbers if start is None else self.op("Add", numbers, start)

    # --- errors and names ---------------------------------------------------------------------

    @property
    def where(self) -> Where | Node:
        """The node that errors name."""
        return self.anchor or Where(graph=self.graph.name, node=self.name)

    def invalid(self, what: str) -> ModelInvalid:
        """Return the error that says what is wrong with the node."""
        return ModelInvalid("E13014", what, where=self.where)

    def unsupported(self, what: str, hint: str = "") -> Unsupported:
        """Return the error that says what cannot be converted, and what to do instead."""
        return Unsupported("E10055", what, where=self.where, hint=hint)

    def _node_name(self, op_type: str) -> str:
        return f"{self.name}/{op_type}"

    def _const_name(self, label: str) -> str:
        return f"{self.name}/{label}"

"""A node of ONNX Runtime's own on its way to ops of the standard: what the functions of this folder see."""

from collections.abc import Callable, Sequence
from math import isfinite

import numpy.typing as npt

from atcpy.errors import AtcError
from atcpy.ir import DType, Graph, Node, TensorDesc, Value
from atcpy.parsers.onnx.inference import dtype_of, rank_of
from atcpy.parsers.onnx.upgrade import Upgrade

FLOAT16_MOST = 65504.0
# What `each` writes for one place: from the elements there to the results.
Each = Callable[..., Sequence[Value]]


class Expansion:
    """Builds nodes in front of the one that goes; shapes are computed where the model leaves them open."""

    def __init__(self, up: Upgrade, inputs: Sequence[str]) -> None:
        self._up = up
        self._names = inputs

    @property
    def node(self) -> Node:
        """The node that goes."""
        return self._up.node

    @property
    def up(self) -> Upgrade:
        """What the rules of the standard's own ops work on."""
        return self._up

    # --- what the node has --------------------------------------------------------------------

    def input(self, name: str) -> Value | None:
        """An input by its name, or None if it is left out."""
        return self.node.input(self._names.index(name))

    def operand(self, name: str) -> Value:
        """An input that must be there."""
        value = self.input(name)
        if value is None:
            raise self.invalid(f"input {name} is missing")
        return value

    def every(self, name: str) -> list[Value]:
        """All that stands at the last name of the signature; nothing of it may be left out."""
        first = self._names.index(name)
        return [self._given(index) for index in range(first, self.node.input_count)]

    def _given(self, index: int) -> Value:
        value = self.node.input(index)
        if value is None:
            raise self.invalid(f"input {index} is missing")
        return value

    def asks(self, index: int) -> bool:
        """May somebody read output `index`?"""
        return index < len(self.node.outputs)

    def refuse_inputs(self, names: str, hint: str) -> None:
        """Refuses the node if one of these inputs is given."""
        for name in names.split():
            if self.input(name) is not None:
                raise self.unsupported(f"input {name} is given", hint)

    def refuse_attrs(self, names: str, hint: str) -> None:
        """Refuses the node if one of these flags is set."""
        for name in names.split():
            if self.node.int_attr(name, 0):
                raise self.unsupported(f"{name} = {self.node.int_attr(name, 0)}", hint)

    # --- what the graph tells -----------------------------------------------------------------

    def rank(self, value: Value, hint: str = "") -> int:
        """The rank of a value, without which the op has no meaning here."""
        rank = rank_of(value)
        if rank is None and (shape := self.declared(value).shape) is not None:
            rank = len(shape)
        if rank is None:
            raise self.unsupported(
                f'the rank of "{value.name}" is not known', hint or "export the model with the shapes of its inputs"
            )
        return rank

    def dtype(self, value: Value) -> DType | None:
        """The element type of a value, or None if it is not known."""
        return dtype_of(value)

    def declared(self, value: Value) -> TensorDesc:
        """The type of a value, or the one that the model declares where inference knows no shape."""
        return self._up.declared(value)

    # --- building -----------------------------------------------------------------------------

    def op(self, op_type: str, *inputs: Value | None, **attrs: object) -> Value:
        """A new node; its output."""
        return self._up.insert(op_type, inputs, attrs)

    def ops(self, op_type: str, outputs: int, *inputs: Value | None, **attrs: object) -> list[Value]:
        """A new node of several outputs."""
        return list(self._up.insert(op_type, inputs, attrs, outputs=outputs).producer.outputs)

    def const(self, label: str, array: npt.ArrayLike, dtype: DType = DType.INT64) -> Value:
        """A new constant."""
        return self._up.const(label, array, dtype)

    def number(self, number: float, like: Value) -> Value:
        """A scalar of the type of a value, whatever that turns out to be."""
        dtype = self.dtype(like)
        if dtype is None:
            return self.cast_like(self.const("number", number, DType.FLOAT32), like)
        if not _can_hold(dtype, number):
            raise self.invalid(f'{number:g} is no number of the type of "{like.name}", {dtype.long}')
        return self.const("number", number, dtype)

    def count(self, name: str, default: int = 0) -> int:
        """An attribute that counts something."""
        count = self.node.int_attr(name, default)
        if not 1 <= count < 2**31:
            raise self.invalid(f"{name} = {count}")
        return count

    def axis(self, name: str, default: int, rank: int) -> int:
        """An attribute that names an axis, counted from the front."""
        axis = self.node.int_attr(name, default)
        if not -rank <= axis < rank:
            raise self.invalid(f"{name} = {axis} of a tensor of rank {rank}")
        return axis % rank

    def scaled(self, value: Value, factor: float) -> Value:
        """value · factor"""
        return value if factor == 1.0 else self.op("Mul", value, self.number(factor, value))

    def sum(self, first: Value, *others: Value | None) -> Value:
        """The sum of those that are given."""
        for other in others:
            if other is not None:
                first = self.op("Add", first, other)
        return first

    def transpose(self, value: Value, *perm: int) -> Value:
        """The axes of a value in another order; of one that is transposed already, its source's axes."""
        before = value.producer.ints_attr("perm") if value.producer.op_type == "Transpose" else ()
        if len(before) == len(perm):
            return self.transpose(value.producer.operand(0), *(before[axis] for axis in perm))
        return value if perm == tuple(range(len(perm))) else self.op("Transpose", value, perm=perm)

    def cast_like(self, value: Value, like: Value) -> Value:
        """A value in the type of another, whatever that turns out to be."""
        dtype = self.dtype(like)
        if dtype is None:
            return self.op("CastLike", value, like)
        return value if self.dtype(value) is dtype else self.op("Cast", value, to=dtype.onnx)

    def reshape(self, value: Value, *dims: int) -> Value:
        """0 keeps a dim, one −1 takes what is left."""
        return self.op("Reshape", value, self.const("shape", dims))

    def unsqueeze(self, value: Value, *axes: int) -> Value:
        """New dims of size 1."""
        return self.op("Unsqueeze", value, self.const("axes", axes))

    def slice(self, value: Value, start: Value | int, end: Value | int, axis: int) -> Value:
        """value[start:end] along one axis."""
        bounds = [self.const("bound", [b]) if isinstance(b, int) else b for b in (start, end)]
        return self.op("Slice", value, *bounds, self.const("axes", [axis]))

    def dim(self, value: Value, axis: int) -> Value:
        """The size of an axis as a list of one element; a constant where the model tells it."""
        shape = value.desc.shape
        if shape is not None and -len(shape) <= axis < len(shape) and isinstance(size := shape[axis], int):
            return self.const("dim", [size])
        sizes = self.op("Shape", value)
        return self.slice(sizes, axis, axis + 1 if axis != -1 else 2**63 - 1, 0)

    def positions(self, start: Value | None, count: Value) -> Value:
        """start, start + 1 … of `count` numbers; both are lists of one element."""
        zero, one = self.const("zero", 0), self.const("one", 1)
        numbers = self.op("Range", zero, self.reshape(count), one)
        return numbers if start is None else self.op("Add", numbers, start)

    def zeros(self, shape: Value, like: Value) -> Value:
        """Zeros of a shape that is a value."""
        return self.op("Expand", self.number(0.0, like), self.op("Cast", shape, to=DType.INT64.onnx))

    def scalar(self, value: Value) -> Value:
        """The one element of a value, without dims."""
        return value if value.desc.shape == () else self.reshape(value)

    def each(self, sequences: Sequence[Value], function: Each, results: int) -> list[Value]:
        """Sequences of what the function gives for each place of the given ones: written out where one of them was
        joined of a known number of tensors, by SequenceMap elsewhere.
        """
        count = next((seq.producer.input_count for seq in sequences if seq.producer.op_type == "SequenceConstruct"), 0)
        if not count:
            return self._map(sequences, function, results)
        rows = [function(self, *(self.element(seq, place) for seq in sequences)) for place in range(count)]
        return [self.op("SequenceConstruct", *column) for column in zip(*rows, strict=True)]

    def element(self, sequence: Value, place: int) -> Value:
        """A tensor of a sequence."""
        made = sequence.producer
        if made.op_type != "SequenceConstruct":
            return self.op("SequenceAt", sequence, self.const("place", place))
        if place >= made.input_count:
            raise self.invalid(f'"{sequence.name}" has {made.input_count} tensors, others have more')
        return made.operand(place)

    def _map(self, sequences: Sequence[Value], function: Each, results: int) -> list[Value]:
        body = Graph(f"{self.node.name}/body", names=self._up.graph.names)
        inputs = [body.append("Data", (), {"index": index}, name="element") for index in range(len(sequences))]
        end = body.append("NetOutput", (), name="NetOutput", outputs=())
        inside = self._up.inside(end)
        body.set_inputs(end, function(Expansion(inside, ()), *(node.output for node in inputs)))
        return self.ops("SequenceMap", results, *sequences, body=body)

    # --- the end ------------------------------------------------------------------------------

    def update(self, held: Value, new: Value) -> None:
        """ONNX Runtime writes `new` into the memory of `held`. There is no memory from run to run here: if `held` is an
        input of the model, `new` is an output more, which the caller feeds back.
        """
        self._up.updates.append((held, new))

    def finish(self, *results: Value | str) -> None:
        """Takes the node away; these values stand for its outputs, a text says why there is none."""
        self._up.replace_by(*results)

    def invalid(self, what: str) -> AtcError:
        """The error that says what is wrong with the node."""
        return self._up.invalid(what)

    def unsupported(self, what: str, hint: str) -> AtcError:
        """The error that says what cannot be converted, and the way round."""
        return self._up.unsupported(what, hint)


def _can_hold(dtype: DType, number: float) -> bool:
    if dtype is DType.FLOAT16:
        return abs(number) <= FLOAT16_MOST or not isfinite(number)
    if not dtype.long.startswith(("int", "uint")):
        return dtype is not DType.STRING
    low = 0 if dtype.long.startswith("uint") else -(2 ** (dtype.bits - 1))
    return float(number).is_integer() and low <= number < low + 2**dtype.bits

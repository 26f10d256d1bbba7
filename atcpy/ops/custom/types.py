"""What a user's operator sees of the compiler: types of tensors, and the context of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from atcpy.errors import Unsupported
from atcpy.ir import DType, Graph, Node, Sym, Tensor, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ir.tensor import Array
from atcpy.sizes import MAX_DIM, MAX_RANK


class OpenDim(str):
    """A size that only the run tells. One with a name is equal to those of that name; what is computed from one is
    open, and has no name.
    """

    __slots__ = ()

    def _unnamed(self, *_: object) -> OpenDim:
        return OpenDim()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _unnamed
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = _unnamed


Size = int | str | None
AttrValue = Any  # int, float, str, a tuple of these, or an array


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape of a tensor. An open size has a name; in a result, None or a new name is one that
    only the run will tell.
    """

    dtype: np.dtype[Any]
    shape: tuple[Size, ...]

    def __init__(self, dtype: Any, shape: Iterable[Size]) -> None:
        object.__setattr__(self, "dtype", np.dtype(dtype))
        object.__setattr__(self, "shape", tuple(shape))

    def with_shape(self, shape: Iterable[Size]) -> TensorType:
        """The same element type in another shape."""
        return TensorType(self.dtype, shape)

    @staticmethod
    def of(value: TensorDesc | Array) -> TensorType | None:
        """The type of a value or an array; None as long as its element type or its rank is not known."""
        if isinstance(value, np.ndarray):
            return TensorType(value.dtype, value.shape)
        if value.dtype is DType.UNDEFINED or value.shape is None:
            return None
        return TensorType(
            value.dtype.numpy, [dim if isinstance(dim, int) else OpenDim(dim.name) for dim in value.shape]
        )

    def desc(self, new_name: str) -> TensorDesc:
        """The same for the compiler; `new_name` is the stem of names for sizes that have none. ValueError for what is
        no type of a tensor.
        """
        try:
            dtype = DType.from_numpy(self.dtype)
        except KeyError:
            raise ValueError(f"ONNX has no elements of type {self.dtype}") from None
        if len(self.shape) > MAX_RANK:
            raise ValueError(f"{len(self.shape)} dims are more than {MAX_RANK}")
        return TensorDesc.plain(dtype, tuple(_dim(size, f"{new_name}.{i}") for i, size in enumerate(self.shape)))


def _dim(size: object, new_name: str) -> Dim:
    if isinstance(size, OpenDim) and size:
        return Sym(str(size))
    if size is None or isinstance(size, str):
        return Sym(new_name)
    if type(size) is not int and (isinstance(size, bool) or not hasattr(size, "__index__")):
        raise ValueError(f"{size!r} is no size")
    number = index(size)
    if not 0 <= number <= MAX_DIM:
        raise ValueError(f"{number} is no size")
    return number


class OpContext:
    """What belongs to one call of an operator: its attributes, the name of its node, what `forward` keeps for
    `backward`, and, for `infer`, the inputs that are constant.
    """

    def __init__(
        self, attrs: Mapping[str, AttrValue] | None = None, node: str = "", constants: Sequence[Array | None] = ()
    ) -> None:
        self.attrs = dict(attrs or {})
        self.node = node
        self.constants = tuple(constants)
        self.saved: tuple[Any, ...] = ()

    def save(self, *values: Any) -> None:
        """Keeps values for `backward`, which finds them in `saved`."""
        self.saved = values

    @staticmethod
    def broadcast(*shapes: Iterable[Size]) -> tuple[Size, ...]:
        """The shape that all of these broadcast to, by numpy's rule."""
        columns = [tuple(shape) for shape in shapes]
        rank = max(map(len, columns), default=0)
        padded = [(1,) * (rank - len(shape)) + shape for shape in columns]
        return tuple(_broadcast(sizes) for sizes in zip(*padded, strict=True))


def _broadcast(sizes: tuple[Size, ...]) -> Size:
    wide = list(dict.fromkeys(size for size in sizes if size != 1))
    numbers = [size for size in wide if isinstance(size, int)]
    if len(numbers) > 1:
        raise ValueError(f"sizes {numbers[0]} and {numbers[1]} do not broadcast")
    if numbers:
        return numbers[0]
    if len(wide) > 1:
        return None
    return wide[0] if wide else 1


def attributes(node: Node) -> dict[str, AttrValue]:
    """The attributes of a node as users see them: numbers, texts, tuples of these, and arrays."""
    return {name: _attribute(node, name, value) for name, value in node.attrs.items()}


def _attribute(node: Node, name: str, value: object) -> AttrValue:
    if isinstance(value, Graph) or (isinstance(value, tuple) and any(isinstance(item, Graph) for item in value)):
        what = f"{node.op_type}: attribute {name} is a graph, which a custom operator cannot have"
        raise Unsupported("E10055", what, where=node, hint="make the graph a node of its own: If, Loop, Scan")
    return value.array if isinstance(value, Tensor) else value


def type_of_all(node: Node) -> list[TensorType | None] | None:
    """The types of a node's inputs, None for one that is left out; None as long as one is not known."""
    types = [None if value is None else TensorType.of(value.desc) for value in node.inputs]
    known = all(value is None or found is not None for value, found in zip(node.inputs, types, strict=True))
    return types if known else None

"""Layers as MindSpore has them: a `Cell` whose `construct` computes, and those of the article on static graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from atcpy.ir.tensor import Array
from atcpy.jit.config import CALLED_CELLS, GRAPH_MODE, current_context
from atcpy.jit.function import JitFunction, jit
from atcpy.jit.ops import namespace


class Cell:
    """A layer or a network: a subclass computes in `construct`, and calling it calls that.

    With GRAPH_MODE (`atcpy.set_context`) the whole is compiled. An array that becomes an attribute is copied, and the
    copy cannot be written to: whoever changes a weight assigns a new array, and the next call compiles again.
    """

    _graph: ClassVar[JitFunction[..., Any] | None] = None

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value = value.copy()
            value.flags.writeable = False
        object.__setattr__(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs."""
        cells = CALLED_CELLS.get()
        if cells is not None:
            cells.append(self)
        elif current_context().mode == GRAPH_MODE:
            return _compiled_construct(type(self)).__get__(self)(*args, **kwargs)
        return self.construct(*args, **kwargs)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: for subclasses."""
        raise NotImplementedError(f"{type(self).__name__} has no construct")

    def state(self) -> tuple[object, ...]:
        """All values among the attributes of this Cell and of those in it, which a compiled graph depends on."""
        return tuple(_values(vars(self)))


def _values(value: object) -> Iterator[object]:
    """The values in containers and Cells. A Cell is one of them: its place may be taken by another."""
    waiting = [value]
    seen: set[int] = set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, Cell):
            yield item
            if id(item) in seen:
                continue
            seen.add(id(item))
            item = vars(item)
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
        else:
            yield item


def _compiled_construct(kind: type[Cell]) -> JitFunction[..., Any]:
    """The `construct` of a class, compiled; kept with the class."""
    found = vars(kind).get("_graph")
    if not isinstance(found, JitFunction):
        found = kind.construct if isinstance(kind.construct, JitFunction) else jit(kind.construct)
        kind._graph = found
    return found


class Dense(Cell):
    """A linear layer: x·Wᵀ + b, from [..., in_channels] to [..., out_channels].

    Weights and biases are uniform in ±1/√in_channels, as those of MindSpore's Dense, from `rng`.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, has_bias: bool = True, rng: np.random.Generator | None = None
    ) -> None:
        rng = rng or np.random.default_rng()
        bound = in_channels**-0.5
        self.weight: Array = rng.uniform(-bound, bound, (out_channels, in_channels)).astype(np.float32)
        self.bias: Array | None = rng.uniform(-bound, bound, out_channels).astype(np.float32) if has_bias else None

    def construct(self, x: Any) -> Any:
        """Compute the layer."""
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


class Flatten(Cell):
    """All axes but the first made one."""

    def construct(self, x: Any) -> Any:
        """Compute the layer."""
        size = int(np.prod([int(dim) for dim in x.shape[1:]]))
        return namespace(x).reshape(x, (-1, size))


class ReLU(Cell):
    """The larger of x and 0."""

    def construct(self, x: Any) -> Any:
        """Compute the layer."""
        return namespace(x).maximum(x, 0)


class SequentialCell(Cell):
    """Cells one after the other."""

    def __init__(self, *cells: Cell) -> None:
        self.cells = cells

    def construct(self, x: Any) -> Any:
        """Compute the layers."""
        for cell in self.cells:
            x = cell(x)
        return x

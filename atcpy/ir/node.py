"""Value and Node: the edges and vertices of the graph. Only Graph's mutators change links."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from atcpy.errors import Where
from atcpy.ir.desc import UNKNOWN, TensorDesc
from atcpy.ir.engine import Engine
from atcpy.ir.tensor import Array, Tensor

if TYPE_CHECKING:
    from atcpy.ir.graph import Graph

_SOURCES: Final = frozenset({"Data", "Const"})
_STRUCTURAL: Final = _SOURCES | {"NetOutput"}


class Body:
    """What a graph is to the node that holds it in an attribute."""

    __slots__ = ()


class Use(NamedTuple):
    """A read of a value, by input `input_index` of `node`."""

    node: Node
    input_index: int


class Value:
    """One output of one node. `uses` is kept up to date by the graph's mutators; readers in a
    subgraph that captures the value count as uses.
    """

    __slots__ = ("_uses", "desc", "index", "name", "producer")

    def __init__(self, name: str, producer: Node, index: int, desc: TensorDesc = UNKNOWN) -> None:
        self.name = name
        self.producer = producer
        self.index = index
        self.desc = desc
        self._uses: dict[Use, None] = {}

    @property
    def uses(self) -> tuple[Use, ...]:
        """Who reads this value, oldest reader first."""
        return tuple(self._uses)

    @property
    def use_count(self) -> int:
        """Number of reads."""
        return len(self._uses)

    @property
    def users(self) -> Iterator[Node]:
        """The nodes that read this value; one that reads it twice comes twice."""
        return (use.node for use in self.uses)

    def user_beyond(self, nodes: Collection[Node]) -> Node | None:
        """The oldest reader that is none of these nodes; those behind it are not looked at."""
        return next((use.node for use in self._uses if use.node not in nodes), None)

    @property
    def tensor(self) -> Tensor | None:
        """The constant that this value is, or None."""
        if self.producer.op_type != "Const":
            return None
        value = self.producer.attrs["value"]
        assert isinstance(value, Tensor)
        return value

    @property
    def array(self) -> Array:
        """The elements of a constant value; asking any other value is a bug of the caller."""
        tensor = self.tensor
        assert tensor is not None, f"{self.name} is not a constant"
        return tensor.array

    def __repr__(self) -> str:
        return f"Value({self.name}: {self.desc})"


class Node:
    """One operation. `sources` names the nodes of the source model that it stands for, `passes` the passes that created
    it; the rewriter carries both along.
    """

    __slots__ = (
        "_inputs",
        "_next",
        "_prev",
        "attrs",
        "domain",
        "engine",
        "graph",
        "name",
        "op_type",
        "outputs",
        "passes",
        "sources",
    )

    def __init__(self, graph: Graph, name: str, op_type: str, domain: str) -> None:
        self.graph: Graph | None = graph
        self.name = name
        self.op_type = op_type
        self.domain = domain
        self.attrs: dict[str, object] = {}
        self.outputs: list[Value] = []
        self.engine: Engine | None = None
        self.sources: tuple[str, ...] = ()
        self.passes: tuple[str, ...] = ()
        self._inputs: list[Value | None] = []
        self._prev: Node | None = None
        self._next: Node | None = None

    @property
    def inputs(self) -> tuple[Value | None, ...]:
        """The values that it reads; None where an optional input is left out."""
        return tuple(self._inputs)

    @property
    def input_count(self) -> int:
        """Number of inputs, counting optional ones that are left out."""
        return len(self._inputs)

    def input(self, index: int) -> Value | None:
        """Input `index`, or None if it is left out or beyond the last one."""
        return self._inputs[index] if index < len(self._inputs) else None

    def operand(self, index: int) -> Value:
        """Input `index`, which the op's schema requires."""
        value = self._inputs[index]
        assert value is not None, f"{self.op_type} {self.name}: input {index} is missing"
        return value

    @property
    def operands(self) -> list[Value]:
        """The inputs that are there."""
        inputs = self._inputs
        if None in inputs:
            return [value for value in inputs if value is not None]
        return cast("list[Value]", inputs.copy())  # the case of nearly every node, in half the time

    @property
    def output(self) -> Value:
        """The first output."""
        return self.outputs[0]

    @property
    def is_structural(self) -> bool:
        """Whether it is an input, a constant or the outputs of the graph: nothing computes."""
        return self.op_type in _STRUCTURAL

    @property
    def is_source(self) -> bool:
        """Whether it is an input or a constant of the graph."""
        return self.op_type in _SOURCES

    @property
    def is_read(self) -> bool:
        """True if somebody reads one of its outputs."""
        for value in self.outputs:  # noqa: SIM110  asked of every node again and again: `any` would take twice as long
            if value._uses:
                return True
        return False

    @property
    def where(self) -> Where:
        """The location that errors name: the source node if known, else this node."""
        name = self.sources[0] if self.sources else self.name
        return Where(graph=self.graph.name if self.graph else "", node=name, op=self.op_type, domain=self.domain)

    @property
    def subgraphs(self) -> Iterator[Graph]:
        """The graphs in its attributes: bodies of If, Loop, Scan, Case."""
        found: list[Body] = []
        for attr in self.attrs.values():
            if isinstance(attr, Body):
                found.append(attr)
            elif type(attr) is tuple and attr and isinstance(attr[0], Body):
                found.extend(attr)
        return iter(cast("list[Graph]", found))

    @property
    def has_subgraphs(self) -> bool:
        """True if there are graphs in its attributes."""
        for attr in self.attrs.values():
            if isinstance(attr, Body) or (type(attr) is tuple and attr and isinstance(attr[0], Body)):
                return True
        return False

    def int_attr(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.attrs.get(name, default)
        assert isinstance(value, int), f"{self.name}: {name} is {value!r}"
        return value

    def ints_attr(self, name: str, default: Iterable[int] = ()) -> tuple[int, ...]:
        """A list of integers."""
        value = self.attrs.get(name)
        if value is None:
            return tuple(default)
        assert isinstance(value, tuple), f"{self.name}: {name} is {value!r}"
        return value

    def float_attr(self, name: str, default: float) -> float:
        """A floating-point attribute. ONNX has them in float32, the standard's defaults included."""
        value = self.attrs.get(name)
        if value is None:
            return float(np.float32(default))
        assert isinstance(value, int | float), f"{self.name}: {name} is {value!r}"
        return float(value)

    def str_attr(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self.attrs.get(name, default)
        assert isinstance(value, str), f"{self.name}: {name} is {value!r}"
        return value

    def __repr__(self) -> str:
        return f"Node({self.name}: {self.op_type})"

"""What a graph keeps of the model that it was read from, so that it can be written in the model's own words.

`optimize` writes nodes that no pass touched as the model has them. Nodes that the compiler's IR cannot say
as one node (ops of other domains, old meanings, nodes that the user wants kept) are barriers: passes see an op that
they do not know, between values that keep their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from atcpy.ir.node import Node, Value
from atcpy.ir.tensor import Tensor

BARRIER = "atcpy.barrier"  # the domain of barriers; their op is `domain@opset::name`
PURE = "pure"  # the attribute of barriers that may go when nobody reads them


def is_barrier(node: Node) -> bool:
    """Is this a node that passes leave alone?"""
    return node.domain == BARRIER


def may_vanish(node: Node) -> bool:
    """May the node go when nobody reads it? What an unknown op does besides computing, nobody knows."""
    return node.domain != BARRIER or PURE in node.attrs


@dataclass(slots=True)  # not frozen: a model has tens of thousands, and to freeze one takes longer than to make it
class Origin:
    """A node of the model, and what it was in the IR before the first pass. `places` says which input of the IR's
    node each of the model's is.
    """

    proto: Any  # onnx.NodeProto, its attributes bound
    op_type: str
    attrs: Mapping[str, object]
    inputs: tuple[Value | None, ...]
    places: tuple[int | None, ...]
    outputs: int
    opset: int

    def still_is(self, node: Node) -> bool:
        """Is the node what it was but for the values that it reads in the places of the model's?"""
        if node.op_type != self.op_type or len(node.outputs) != self.outputs:
            return False
        if node.inputs == self.inputs:
            return node.attrs == self.attrs
        # Nodes with bodies got what those capture as operands behind their own.
        if node.input_count != len(self.inputs) and not node.has_subgraphs:
            return False
        own = {place for place in self.places if place is not None}
        for place, (now, then) in enumerate(zip(node.inputs, self.inputs, strict=False)):
            if now is not then and (
                (now is None) is not (then is None) or (place not in own and not _equal(now, then))
            ):
                return False
        return node.attrs == self.attrs


def _equal(now: Value | None, then: Value | None) -> bool:
    return now is not None and then is not None and now.tensor is not None and _holds(then, now.tensor)


def _holds(value: Value, tensor: Tensor) -> bool:
    own = value.producer.attrs.get("value")
    return isinstance(own, Tensor) and own.equals(tensor)


@dataclass(slots=True)  # as above
class StoredTensor:
    """A constant as the model stores it; `data` are its bytes where they stayed in a file."""

    proto: Any  # onnx.TensorProto
    data: memoryview | None = None


@dataclass(slots=True)
class ModelWords:
    """The words of a model: what it says of itself, its nodes and its constants. Large weights are not in `model`."""

    model: Any  # onnx.ModelProto
    read: Callable[[Any], memoryview]  # the bytes of a TensorProto that lie in a data file
    origins: dict[Node, Origin] = field(default_factory=dict)
    tensors: dict[Tensor, StoredTensor] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)  # of the nodes that the user wants kept, those that are there
    ops: dict[str, int] = field(default_factory=dict)  # how often, in all bodies and calls, without Constant
    inline: Mapping[int, memoryview] = field(default_factory=dict)  # by number of initializer
    nbytes: int = 0
    is_external: bool = False  # the model has data files of its own

    @property
    def nodes(self) -> int:
        """The nodes of the model, its functions inlined, without Constant."""
        return sum(self.ops.values())

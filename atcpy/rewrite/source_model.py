"""What `optimize` keeps of the model that it read, so that unchanged parts are written exactly as they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import onnx

from atcpy.ir import Node, Tensor, Value
from atcpy.parsers.onnx.reader import ModelFile


@dataclass(slots=True)  # not frozen: a model has tens of thousands, and to freeze one takes longer than to create it
class Origin:
    """A node of the model, and what it was in the IR before the first pass. `input_indices` says which input of the
    IR's node each input of the model's node is.
    """

    proto: onnx.NodeProto  # its attributes bound, if it comes from a function
    op_type: str
    attrs: Mapping[str, object]
    inputs: tuple[Value | None, ...]
    input_indices: tuple[int | None, ...]
    output_count: int
    opset: int

    def matches(self, node: Node) -> bool:
        """Whether the node is unchanged except for the values that the inputs of the model's node read."""
        if node.op_type != self.op_type or len(node.outputs) != self.output_count:
            return False
        if node.inputs == self.inputs:
            return node.attrs == self.attrs
        # The values that bodies capture were added as operands after the node's own.
        if node.input_count != len(self.inputs) and not node.has_subgraphs:
            return False
        own = {index for index in self.input_indices if index is not None}
        for index, (now, before) in enumerate(zip(node.inputs, self.inputs, strict=False)):
            if now is before:
                continue
            if (now is None) is not (before is None) or (index not in own and not _are_equal_constants(now, before)):
                return False
        return node.attrs == self.attrs


def _are_equal_constants(now: Value | None, before: Value | None) -> bool:
    if now is None or before is None or now.tensor is None:
        return False
    own = before.producer.attrs.get("value")
    return isinstance(own, Tensor) and own.equals(now.tensor)


@dataclass(slots=True)  # as above
class StoredTensor:
    """A constant as the model stores it; `data` are its bytes if they stayed in a file."""

    proto: onnx.TensorProto
    data: memoryview | None = None


@dataclass(slots=True)
class SourceModel:
    """The model that is optimised: its header, and the origins of the IR's nodes and constants. `model` lacks the bytes
    of large weights.
    """

    model: onnx.ModelProto
    read: Callable[[onnx.TensorProto], memoryview]  # the bytes of a tensor that lie in a data file
    origins: dict[Node, Origin] = field(default_factory=dict)
    tensors: dict[Tensor, StoredTensor] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)  # the nodes named by --keep that the model has
    ops: dict[str, int] = field(default_factory=dict)  # nodes per op in all bodies and calls, without Constant
    inline: Mapping[int, memoryview] = field(default_factory=dict)  # bytes of large weights by number of initializer
    nbytes: int = 0
    is_external: bool = False  # the model has data files of its own

    @classmethod
    def of(cls, file: ModelFile) -> SourceModel:
        """The model of a file, before any of its nodes is read."""
        inline = file.external.inline
        return cls(
            file.model,
            inline=inline,
            read=file.external.read,
            nbytes=file.model.ByteSize() + sum(map(len, inline.values())),
            is_external=any(
                tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in file.model.graph.initializer
            ),
        )

    @property
    def node_count(self) -> int:
        """The nodes of the model, its functions inlined, without Constant."""
        return sum(self.ops.values())

"""What `optimize` hands to the importer, to learn where the nodes and constants of a graph come from."""

from typing import Protocol

import onnx

from atcpy.ir import Node, Tensor, Value
from atcpy.parsers.onnx.inference import TypeInference


class Recorder(Protocol):
    """Is called for each node and constant that is read. Unknown ops are no error when there is a recorder, and the
    defaults of inputs stay inputs that a caller may override.
    """

    def constant(self, tensor: Tensor, proto: onnx.TensorProto, data: memoryview | None) -> None:
        """Takes note of a constant; `data` are its bytes where they are not in the message."""

    def node(
        self, node: Node, proto: onnx.NodeProto, opset: int, inference: TypeInference, *, unknown: bool, changes: bool
    ) -> list[Value | None]:
        """Takes the importer's place in upgrading a node; returns the values that its outputs became."""

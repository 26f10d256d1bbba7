"""What is known of a graph before its first pass, so that no pass has to infer it again."""

from __future__ import annotations

from dataclasses import dataclass, field

from atcpy.ir.dtype import DType
from atcpy.ir.node import Node, Value
from atcpy.ir.shape import Dim


@dataclass(slots=True)
class Inferred:
    """The result of type inference while a graph was read. It holds as long as nothing rewrites the graph."""

    elements: dict[Value, tuple[Dim, ...]] = field(default_factory=dict)  # of small integer tensors
    nodes: dict[Node, tuple[Value | None, ...]] = field(default_factory=dict)  # with the inputs they had then
    declared: dict[Value, DType] = field(default_factory=dict)  # what the model says; UNDEFINED: that it is no tensor

"""What every reader of models hands over."""

from __future__ import annotations

from dataclasses import dataclass

from atcpy.errors import AtcWarning
from atcpy.ir import Graph, Source
from atcpy.ir.origin import ModelWords


@dataclass(frozen=True, slots=True)
class ParsedModel:
    """The graph of a model at the canonical opset, where it came from, and what there is to say about it; with
    `words` if the options ask for what it takes to write the graph as ONNX again.
    """

    graph: Graph
    source: Source
    warnings: tuple[AtcWarning, ...]
    words: ModelWords | None = None

"""The result of every importer."""

from __future__ import annotations

from dataclasses import dataclass

from atcpy.errors import AtcWarning
from atcpy.ir import Graph, Source


@dataclass(frozen=True, slots=True)
class ParsedModel:
    """The imported graph at the canonical opset, where it came from, and the warnings collected while reading it."""

    graph: Graph
    source: Source
    warnings: tuple[AtcWarning, ...]

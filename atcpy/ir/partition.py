"""What split hands to optimize: the root graph and one piece a cluster."""

from dataclasses import dataclass

from atcpy.ir.engine import Engine
from atcpy.ir.graph import Graph
from atcpy.ir.node import Node


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The nodes of one engine that run without a border between them, as a graph of its own.
    Values come in through PlaceHolder nodes and leave through End nodes.
    """

    graph: Graph
    engine: Engine
    rank: int


@dataclass(frozen=True, slots=True)
class Border:
    """A cut edge: what `end` takes in its subgraph comes out of `placeholder` in another."""

    end: Node
    placeholder: Node


@dataclass(frozen=True, slots=True)
class Partition:
    """`root` keeps Data and NetOutput; `subgraphs` are in topological order; `order` is that of
    all nodes before the cut.
    """

    root: Graph
    subgraphs: tuple[Subgraph, ...]
    borders: tuple[Border, ...]
    order: tuple[Node, ...]

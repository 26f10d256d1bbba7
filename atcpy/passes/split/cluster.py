"""Clusters of the split: neighbouring nodes on one engine."""

from __future__ import annotations

from dataclasses import dataclass

from atcpy.ir import Engine, Node
from atcpy.passes import clusters


@dataclass(frozen=True, eq=False, slots=True)
class Cluster:
    """Nodes of one engine, in topological order; `index` names it."""

    index: int
    engine: Engine
    nodes: list[Node]


def make_clusters(nodes: list[Node]) -> list[Cluster]:
    """The clusters of placed nodes given in topological order, themselves in such an order.
    Constants belong to whoever reads them and are left out.
    """
    placed = [node for node in nodes if not node.is_structural]
    joined = clusters.join_clusters(placed, _read, _belong)
    return [Cluster(cluster.index, _engine(cluster), cluster.nodes) for cluster in _in_topological_order(joined)]


def _read(node: Node) -> list[Node]:
    return [value.producer for value in node.operands]


def _belong(parent: clusters.Cluster, child: clusters.Cluster) -> bool:
    return parent.nodes[0].engine is child.nodes[0].engine


def _engine(cluster: clusters.Cluster) -> Engine:
    engine = cluster.nodes[0].engine
    assert engine is not None
    return engine


def _in_topological_order(alive: list[clusters.Cluster]) -> list[clusters.Cluster]:
    """One that follows a way to its end before it takes the next."""
    waiting = {cluster: len(cluster.parents) for cluster in alive}
    ready = [cluster for cluster in reversed(alive) if not cluster.parents]
    ordered: list[clusters.Cluster] = []
    while ready:
        cluster = ready.pop()
        ordered.append(cluster)
        for child in cluster.children:
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    assert len(ordered) == len(alive), "clusters form a cycle"
    return ordered

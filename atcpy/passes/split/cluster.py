"""Clusters of the split: neighbouring nodes on one engine."""

from __future__ import annotations

from atcpy.ir import Engine, Node
from atcpy.passes.clusters import Cluster, join_clusters


def make_clusters(nodes: list[Node]) -> list[Cluster]:
    """Return the clusters of placed nodes given in topological order, themselves in such an order. Constants belong to
    whoever reads them and are left out.
    """
    placed = [node for node in nodes if not node.is_structural]
    clusters = join_clusters(
        placed,
        lambda node: [value.producer for value in node.operands],
        lambda parent, child: parent.nodes[0].engine is child.nodes[0].engine,
    )
    return _in_topological_order(clusters)


def engine_of(cluster: Cluster) -> Engine:
    """Return the engine of a cluster's nodes."""
    engine = cluster.nodes[0].engine
    assert engine is not None
    return engine


def _in_topological_order(clusters: list[Cluster]) -> list[Cluster]:
    """An order that follows a way to its end before it takes the next."""
    waiting = {cluster: len(cluster.parents) for cluster in clusters}
    ready = [cluster for cluster in reversed(clusters) if not cluster.parents]
    ordered: list[Cluster] = []
    while ready:
        cluster = ready.pop()
        ordered.append(cluster)
        for child in cluster.children:
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    assert len(ordered) == len(clusters), "clusters form a cycle"
    return ordered

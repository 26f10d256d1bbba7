"""Clusters: neighbouring nodes on one engine, by GE's rule.

One cluster a node at first. In ascending order, each cluster takes in those of its parents that run
on the same engine and from which no second way leads to it: else a cycle of clusters would arise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from atcpy.ir import Engine, Node

# A second way is looked for among so many clusters; where the search is not finished by then, the
# two stay apart, which is always correct. It keeps the whole linear.
MAX_SEARCH = 64

IN_ROOT = frozenset({"Data", "NetOutput"})


@dataclass(eq=False, slots=True)
class Cluster:
    """Nodes of one engine; `index` orders clusters topologically."""

    index: int
    engine: Engine
    nodes: list[Node]
    parents: dict[Cluster, None] = field(default_factory=dict)
    children: dict[Cluster, None] = field(default_factory=dict)


def make_clusters(nodes: list[Node]) -> list[Cluster]:
    """The clusters of placed nodes given in topological order, themselves in such an order.
    Constants belong to whoever reads them and are left out.
    """
    clusters: list[Cluster] = []
    of: dict[Node, Cluster] = {}
    for node in nodes:
        if node.op_type == "Const" or node.op_type in IN_ROOT:
            continue
        assert node.engine is not None
        cluster = Cluster(len(clusters), node.engine, [node])
        for value in node.operands:
            parent = of.get(value.producer)
            if parent is not None:
                parent.children[cluster] = None
                cluster.parents[parent] = None
        of[node] = cluster
        clusters.append(cluster)
    absorbed: set[Cluster] = set()
    for child in clusters:
        survivor = child
        for parent in sorted(child.parents, key=lambda parent: (len(parent.children), parent.index)):
            if parent.engine is child.engine and not _second_way(parent, survivor):
                survivor, gone = _join(parent, survivor)
                absorbed.add(gone)
    position = {node: index for index, node in enumerate(nodes)}
    alive = [cluster for cluster in clusters if cluster not in absorbed]
    for cluster in alive:
        cluster.nodes.sort(key=position.__getitem__)
    return _in_topological_order(alive)


def _second_way(parent: Cluster, child: Cluster) -> bool:
    """True if a way other than the direct one leads from parent to child, or none was excluded
    within the limit.
    """
    pending = [cluster for cluster in parent.children if cluster is not child]
    seen = set(pending)
    while pending:
        cluster = pending.pop()
        if child in cluster.children:
            return True
        for further in cluster.children:
            if further not in seen:
                if len(seen) >= MAX_SEARCH:
                    return True
                seen.add(further)
                pending.append(further)
    return False


def _join(parent: Cluster, child: Cluster) -> tuple[Cluster, Cluster]:
    """Makes one cluster of two: (who stays, who is gone). The one with fewer links moves, so that
    a cluster that grows and grows is not moved each time.
    """
    gone, stays = sorted((parent, child), key=lambda c: len(c.nodes) + len(c.parents) + len(c.children))
    stays.nodes.extend(gone.nodes)
    for before in gone.parents:
        del before.children[gone]
        if before is not stays:
            before.children[stays] = None
            stays.parents[before] = None
    for after in gone.children:
        del after.parents[gone]
        if after is not stays:
            after.parents[stays] = None
            stays.children[after] = None
    stays.index = max(parent.index, child.index)
    return stays, gone


def _in_topological_order(clusters: list[Cluster]) -> list[Cluster]:
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

"""Clusters of nodes, made without cycles: GE's rule, for engines and for graph kernels alike.

One cluster a node at first. In ascending order, each cluster takes in those of its parents that belong to it and
from which no second way leads to it: else a cycle of clusters would arise.

The clusters' `place` is a topological order of them all times, so that a second way is looked for only among those
between the two (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2006).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from atcpy.ir import Node

# A second way is looked for among so many clusters and along so many links; where the search is not finished by then,
# the two stay apart, which is always correct. It keeps the whole linear.
MAX_SEARCH = 64
MAX_LINKS = 512


@dataclass(eq=False, slots=True)
class Cluster:
    """Nodes that belong together."""

    index: int
    nodes: list[Node]
    place: int
    parents: dict[Cluster, None] = field(default_factory=dict)
    children: dict[Cluster, None] = field(default_factory=dict)


# True if a parent and its child belong into one cluster, as far as their nodes go; the clusters are then to be joined.
Belong = Callable[[Cluster, Cluster], bool]
# Told of two clusters that belong together whether they are joined next, or a cycle forbids it.
Told = Callable[[Cluster, Cluster, bool], None]

_children = attrgetter("children")
_parents = attrgetter("parents")


def join_clusters(
    nodes: Sequence[Node], read: Callable[[Node], Iterable[Node]], belong: Belong, told: Told = lambda a, b, c: None
) -> list[Cluster]:
    """The clusters of nodes given in topological order, in the order of their first nodes; `read` gives the nodes that
    a node depends on.
    """
    clusters: list[Cluster] = []
    of: dict[Node, Cluster] = {}
    for node in nodes:
        cluster = Cluster(len(clusters), [node], len(clusters))
        for source in read(node):
            parent = of.get(source)
            if parent is not None:
                parent.children[cluster] = None
                cluster.parents[parent] = None
        of[node] = cluster
        clusters.append(cluster)
    absorbed: set[Cluster] = set()
    for child in clusters:
        survivor = child
        for parent in sorted(child.parents, key=lambda parent: (len(parent.children), parent.index)):
            if not belong(parent, survivor):
                continue
            between = _between(parent, survivor)
            told(parent, survivor, between is not None)
            if between is not None:
                survivor, gone = _join(parent, survivor, *between)
                absorbed.add(gone)
    position = {node: index for index, node in enumerate(nodes)}
    alive = [cluster for cluster in clusters if cluster not in absorbed]
    for cluster in alive:
        cluster.nodes.sort(key=position.__getitem__)
    return alive


def _between(parent: Cluster, child: Cluster) -> tuple[list[Cluster], list[Cluster]] | None:
    """What the child depends on that lies between the two, and what there depends on the parent; None if a way other
    than the direct one leads from parent to child, or none was excluded within the limit.
    """
    places = parent.place, child.place
    after = _reach(parent, _children, *places)
    if after is None or any(child in cluster.children for cluster in after):
        return None
    before = _reach(child, _parents, *places)
    return None if before is None else (before, after)


def _reach(start: Cluster, step: Callable[[Cluster], Collection[Cluster]], low: int, high: int) -> list[Cluster] | None:
    """What lies on the ways from `start` and between two places; None if that is too much."""
    found: dict[Cluster, None] = {}
    pending = [start]
    links = 0
    while pending:
        following = step(pending.pop())
        links += len(following)
        if links > MAX_LINKS:
            return None
        for cluster in following:
            if low < cluster.place < high and cluster not in found:
                if len(found) >= MAX_SEARCH:
                    return None
                found[cluster] = None
                pending.append(cluster)
    return list(found)


def _join(parent: Cluster, child: Cluster, before: list[Cluster], after: list[Cluster]) -> tuple[Cluster, Cluster]:
    """Makes one cluster of two: (who stays, who is gone). The one with fewer links moves, so that a cluster that
    grows and grows is not moved each time.
    """
    gone, stays = sorted((parent, child), key=lambda c: len(c.nodes) + len(c.parents) + len(c.children))
    places = sorted(cluster.place for cluster in (*before, *after, parent, child))
    stays.index = max(parent.index, child.index)
    stays.nodes.extend(gone.nodes)
    for above in gone.parents:
        del above.children[gone]
        if above is not stays:
            above.children[stays] = None
            stays.parents[above] = None
    for below in gone.children:
        del below.parents[gone]
        if below is not stays:
            below.parents[stays] = None
            stays.children[below] = None
    before.sort(key=lambda cluster: cluster.place)
    after.sort(key=lambda cluster: cluster.place)
    for cluster, place in zip([*before, stays], places, strict=False):
        cluster.place = place
    for cluster, place in zip(reversed(after), reversed(places), strict=False):
        cluster.place = place
    return stays, gone

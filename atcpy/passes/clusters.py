"""Clusters of nodes without cycles between them: GE's rule, for engines and for graph kernels alike.

At first each node is a cluster. In ascending order, each cluster takes in those of its parents that may join it and
from which no second way leads to it: else clusters would form a cycle.

`Cluster.position` is a topological order at all times, so that a second way is looked for only between the positions of
the two (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2006).
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
    """Nodes that belong together. `position` is that in a topological order of all clusters, `index` that of the last
    one that was joined into it.
    """

    index: int
    nodes: list[Node]
    position: int
    parents: dict[Cluster, None] = field(default_factory=dict)
    children: dict[Cluster, None] = field(default_factory=dict)


# Whether a parent and its child may become one cluster, as far as their nodes go.
MayJoin = Callable[[Cluster, Cluster], bool]
# Is called with two clusters that may become one, and whether they do next, or a cycle forbids it.
Joining = Callable[[Cluster, Cluster, bool], None]

_children = attrgetter("children")
_parents = attrgetter("parents")


def join_clusters(
    nodes: Sequence[Node],
    producers: Callable[[Node], Iterable[Node]],
    may_join: MayJoin,
    joining: Joining = lambda parent, child, is_joined: None,
) -> list[Cluster]:
    """Return the clusters of nodes given in topological order, in the order of their first nodes; `producers` gives the
    nodes that a node depends on.
    """
    clusters: list[Cluster] = []
    cluster_of: dict[Node, Cluster] = {}
    for node in nodes:
        cluster = Cluster(len(clusters), [node], len(clusters))
        for source in producers(node):
            parent = cluster_of.get(source)
            if parent is not None:
                parent.children[cluster] = None
                cluster.parents[parent] = None
        cluster_of[node] = cluster
        clusters.append(cluster)
    absorbed: set[Cluster] = set()
    for child in clusters:
        survivor = child
        parents = list(child.parents)
        if len(parents) > 1:
            parents.sort(key=lambda parent: (len(parent.children), parent.index))
        for parent in parents:
            if not may_join(parent, survivor):
                continue
            between = _between(parent, survivor)
            joining(parent, survivor, between is not None)
            if between is not None:
                survivor, gone = _join(parent, survivor, *between)
                absorbed.add(gone)
    order = {node: index for index, node in enumerate(nodes)}
    alive = [cluster for cluster in clusters if cluster not in absorbed]
    for cluster in alive:
        cluster.nodes.sort(key=order.__getitem__)
    return alive


def _between(parent: Cluster, child: Cluster) -> tuple[list[Cluster], list[Cluster]] | None:
    """The ancestors of the child and the descendants of the parent that lie between the two; None if a way other than
    the direct one leads from parent to child, or none was excluded within the limit.
    """
    if len(parent.children) == 1 and len(child.parents) == 1:  # no other way leaves the one or enters the other
        return [], []
    low, high = parent.position, child.position
    after = _reach(parent, _children, low, high)
    if after is None or any(child in cluster.children for cluster in after):
        return None
    before = _reach(child, _parents, low, high)
    return None if before is None else (before, after)


def _reach(start: Cluster, step: Callable[[Cluster], Collection[Cluster]], low: int, high: int) -> list[Cluster] | None:
    """The clusters on the ways from `start` and between two positions; None if those are too many."""
    found: dict[Cluster, None] = {}
    pending = [start]
    links = 0
    while pending:
        following = step(pending.pop())
        links += len(following)
        if links > MAX_LINKS:
            return None
        for cluster in following:
            if low < cluster.position < high and cluster not in found:
                if len(found) >= MAX_SEARCH:
                    return None
                found[cluster] = None
                pending.append(cluster)
    return list(found)


def _link_count(cluster: Cluster) -> int:
    return len(cluster.nodes) + len(cluster.parents) + len(cluster.children)


def _join(parent: Cluster, child: Cluster, before: list[Cluster], after: list[Cluster]) -> tuple[Cluster, Cluster]:
    """Join two clusters and return the one that stays and the one that goes: the one with fewer links, so that a
    cluster that grows and grows is not moved each time.
    """
    gone, stays = (parent, child) if _link_count(parent) <= _link_count(child) else (child, parent)
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
    if not before and not after:
        stays.position = min(parent.position, child.position)
        return stays, gone
    positions = sorted(cluster.position for cluster in (*before, *after, parent, child))
    before.sort(key=attrgetter("position"))
    after.sort(key=attrgetter("position"))
    for cluster, position in zip([*before, stays], positions, strict=False):
        cluster.position = position
    for cluster, position in zip(reversed(after), reversed(positions), strict=False):
        cluster.position = position
    return stays, gone

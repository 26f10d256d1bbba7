"""Clusters: one engine each, no cycle, and as large as GE's rule makes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atcpy.ir import Engine, Graph, Node
from atcpy.passes.split.cluster import make_clusters

ENGINES = {"a": Engine.AICORE, "v": Engine.VECTOR}


def placed(text: str) -> list[Node]:
    """Nodes from `name:engine<inputs`, such as `x:a y:v<x z:a<x,y`."""
    graph = Graph("test")
    nodes: dict[str, Node] = {}
    for word in text.split():
        head, _, inputs = word.partition("<")
        name, _, engine = head.partition(":")
        node = graph.append("Relu", [nodes[i].output for i in inputs.split(",") if i], name=name)
        node.engine = ENGINES[engine]
        nodes[name] = node
    return list(nodes.values())


def names(text: str) -> list[list[str]]:
    """The clusters' nodes, in order."""
    return [[node.name for node in cluster.nodes] for cluster in make_clusters(placed(text))]


def test_neighbours_on_one_engine_join() -> None:
    assert names("x:a y:a<x z:a<y") == [["x", "y", "z"]]


def test_another_engine_makes_a_border() -> None:
    assert names("x:a y:v<x z:a<y") == [["x"], ["y"], ["z"]]


def test_a_second_way_keeps_two_apart() -> None:
    assert names("x:a y:v<x z:a<x,y") == [["x"], ["y"], ["z"]]


def test_a_side_branch_does_not() -> None:
    assert names("x:a y:v<x z:a<x") in ([["x", "z"], ["y"]],)


@given(data=st.data(), count=st.integers(1, 40))
def test_clusters_are_ordered_and_cover_every_node(data: st.DataObject, count: int) -> None:
    clusters_text = []
    for index in range(count):
        inputs = data.draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True)) if index else []
        clusters_text.append(f"n{index}:{data.draw(st.sampled_from('av'))}<{','.join(f'n{i}' for i in inputs)}")
    nodes = placed(" ".join(clusters_text))
    clusters = make_clusters(nodes)
    rank = {node: number for number, cluster in enumerate(clusters) for node in cluster.nodes}
    assert sorted(node.name for node in rank) == sorted(node.name for node in nodes)
    for node in nodes:
        assert {n.engine for n in clusters[rank[node]].nodes} == {node.engine}
        assert all(rank[value.producer] <= rank[node] for value in node.operands)

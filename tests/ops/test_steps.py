"""Steps of a graph: which nodes run on their own, and which are planned together in a cluster."""

from __future__ import annotations

from atcpy.ir import DType, Engine, Graph, Node, TensorDesc
from atcpy.ops.core.steps import MAX_DATA_DEPENDENT, Cluster, cluster_graph, find_steps


def graph_of(*lines: str) -> Graph:
    """Parse lines `result = Op operand …`; ops in capitals run on the host, and the last result is the output."""
    graph = Graph("g")
    values = {"x": graph.append("Data", (), {"index": 0}, name="x", outputs=("x",)).output}
    for line in lines:
        name, _, text = line.partition(" = ")
        op_type, *operands = text.split()
        node = graph.append(op_type, [values[operand] for operand in operands], name=name, outputs=(name,))
        node.engine = Engine.HOST_CPU if op_type.isupper() else Engine.VECTOR
        values[name] = node.output
    for value in values.values():
        value.desc = TensorDesc.plain(DType.FLOAT32, (2,))
    graph.append("NetOutput", [values[name]], {"names": (name,)}, name="NetOutput", outputs=())
    return graph


def names(graph: Graph) -> list[str]:
    """The steps as text: node names, with clusters in brackets."""
    return [
        step.name if isinstance(step, Node) else f"[{' '.join(node.name for node in step.nodes)}]"
        for step in find_steps(graph)
    ]


def test_a_graph_without_host_nodes_is_one_cluster() -> None:
    graph = graph_of("a = Neg x", "b = Exp a")
    [cluster] = find_steps(graph)
    assert isinstance(cluster, Cluster) and cluster.is_whole
    assert cluster_graph(graph, cluster) is graph
    assert names(graph_of("a = HOST x")) == ["a"]


def test_nodes_run_as_early_as_they_can() -> None:
    lines = ("a = Neg x", "h = HOST a", "b = Exp x", "c = Add h b", "i = HOST h", "d = Add i a")
    assert names(graph_of(*lines)) == ["[a b]", "h", "i", "[c d]"]


def test_cluster_inputs_and_outputs_are_the_values_that_cross_its_border() -> None:
    graph = graph_of("a = Neg x", "b = Exp a", "h = HOST a", "c = Add h b", "d = Add c x")
    first, _, last = find_steps(graph)
    assert isinstance(first, Cluster) and isinstance(last, Cluster)
    assert [[value.name for value in part] for part in (first.inputs, first.outputs)] == [["x"], ["a", "b"]]
    assert [[value.name for value in part] for part in (last.inputs, last.outputs)] == [["h", "b", "x"], ["d"]]
    part = cluster_graph(graph, last)
    assert [data.name for data in part.inputs] == ["h", "b", "x"] and [out.name for out in part.outputs] == ["d"]


def test_a_cluster_ends_after_a_limit_of_data_dependent_sizes() -> None:
    lines = ["v0 = NonZero x", *(f"v{n} = NonZero v{n - 1}" for n in range(1, MAX_DATA_DEPENDENT))]
    assert len(find_steps(graph_of(*lines))) == 1
    assert len(find_steps(graph_of(*lines, f"w = NonZero v{MAX_DATA_DEPENDENT - 1}"))) == 2

"""Cutting the graph at the borders of its clusters.

Each value that crosses a border leaves its subgraph through an End and enters the other through a PlaceHolder, which
carry GE's attributes.
"""

from __future__ import annotations

from atcpy.ir import Border, Graph, Node, Partition, Subgraph, Value
from atcpy.passes.clusters import Cluster
from atcpy.passes.split.cluster import engine_of, make_clusters


def cut(graph: Graph) -> Partition:
    """Move the nodes of each cluster into a graph of its own; Data and NetOutput stay in the root."""
    nodes = list(graph.nodes)
    clusters = make_clusters(nodes)
    owner = {node: cluster for cluster in clusters for node in cluster.nodes}
    subgraphs: dict[Cluster, Subgraph] = {}
    for rank, cluster in enumerate(clusters, 1):
        part = Graph(f"partition0_rank{rank}_new_sub_graph{cluster.index + 1}", names=graph.names)
        part.decisions = graph.decisions
        subgraphs[cluster] = Subgraph(part, engine_of(cluster), rank)
    _distribute_constants(graph, nodes, owner)
    for cluster, subgraph in subgraphs.items():
        for node in cluster.nodes:
            subgraph.graph.adopt(node)
    borders: list[Border] = []
    for cluster, subgraph in subgraphs.items():
        entered: dict[Value, Value] = {}
        for node in cluster.nodes:
            for index, value in enumerate(node.inputs):
                if value is None or value.producer.op_type == "Data" or owner.get(value.producer) is cluster:
                    continue
                if value not in entered:
                    source = subgraphs[owner[value.producer]]
                    borders.append(_insert_border(value, node, source, subgraph, len(borders)))
                    entered[value] = borders[-1].placeholder.output
                graph.set_input(node, index, entered[value])
    for subgraph in subgraphs.values():
        part = subgraph.graph
        part.append("NetOutput", (), name=f"{part.name}_NetOutput", outputs=())
    return Partition(graph, tuple(subgraphs.values()), tuple(borders), tuple(nodes))


def _distribute_constants(graph: Graph, nodes: list[Node], owner: dict[Node, Cluster]) -> None:
    """Give each cluster that reads a constant a Const of its own; they share the data."""
    for node in nodes:
        if node.op_type != "Const":
            continue
        readers: dict[Cluster | None, list[tuple[Node, int]]] = {}
        for user, index in node.output.uses:
            readers.setdefault(owner.get(user), []).append((user, index))
        is_taken = readers.pop(None, None) is not None  # by the root
        for cluster, uses in readers.items():
            assert cluster is not None
            const = node
            if is_taken:
                tensor = node.output.tensor
                assert tensor is not None
                const = graph.add_const(tensor, node.output.name, before=node).producer
                const.output.desc = node.output.desc
                const.sources, const.passes, const.engine = node.sources, node.passes, node.engine
                for user, index in uses:
                    graph.set_input(user, index, const.output)
            is_taken = True
            cluster.nodes.insert(0, const)
            owner[const] = cluster


def _insert_border(value: Value, reader: Node, source: Subgraph, target: Subgraph, number: int) -> Border:
    front, back = source.graph, target.graph
    end = front.append(
        "End",
        [value],
        {"peerIndex": number, "parentOpType": reader.op_type, "end_rear_node_engine_name": target.engine.value},
        name=f"{front.name}_End{number}",
        outputs=(),
    )
    placeholder = back.append(
        "PlaceHolder",
        (),
        {
            "peerIndex": number,
            "parentOpType": value.producer.op_type,
            "_parentNodeName": value.producer.name,
            "parentId": f"{front.name}:{value.producer.name}",
            "anchorIndex": value.index,
            "_peerNodeName": end.name,
            "pld_front_node_engine_name": source.engine.value,
        },
        name=f"{back.name}_PlaceHolder{number}",
        outputs=(f"{value.name}@{number}",),
        before=next(back.nodes),
    )
    placeholder.output.desc = value.desc
    return Border(end, placeholder)

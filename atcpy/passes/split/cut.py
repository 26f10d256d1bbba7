"""Cutting the graph at the borders of its clusters.

Each value that crosses a border leaves its piece through an End and enters the other through a
PlaceHolder, which carry GE's attributes.
"""

from __future__ import annotations

from atcpy.ir import Border, Graph, Node, Partition, Subgraph, Value
from atcpy.passes.split.cluster import Cluster, make_clusters


def cut(graph: Graph) -> Partition:
    """Moves the nodes of each cluster into a graph of its own; Data and NetOutput stay in the root."""
    nodes = list(graph.nodes)
    clusters = make_clusters(nodes)
    owner: dict[Node, Cluster] = {node: cluster for cluster in clusters for node in cluster.nodes}
    _spread_constants(graph, nodes, owner)
    pieces: list[Subgraph] = []
    graph_of: dict[Cluster, Graph] = {}
    for rank, cluster in enumerate(clusters):
        piece = Graph(f"partition0_rank{rank + 1}_new_sub_graph{cluster.index + 1}", names=graph.names)
        piece.decisions = graph.decisions
        graph_of[cluster] = piece
        pieces.append(Subgraph(piece, cluster.engine, rank + 1))
        for node in cluster.nodes:
            piece.adopt(node)
    borders = tuple(_borders(graph, clusters, owner, graph_of))
    for subgraph in pieces:
        piece = subgraph.graph
        piece.append("NetOutput", (), name=f"{piece.name}_NetOutput", outputs=())
    return Partition(graph, tuple(pieces), borders, tuple(nodes))


def _spread_constants(graph: Graph, nodes: list[Node], owner: dict[Node, Cluster]) -> None:
    """Gives each cluster that reads a constant a Const of its own; they share the data."""
    for node in nodes:
        if node.op_type != "Const":
            continue
        readers: dict[Cluster, list[tuple[Node, int]]] = {}
        for user, place in node.output.uses:
            if user in owner:
                readers.setdefault(owner[user], []).append((user, place))
        stays_in_root = any(user not in owner for user in node.output.users)
        for number, (cluster, uses) in enumerate(readers.items()):
            const = node
            if stays_in_root or number > 0:
                tensor = node.output.tensor
                assert tensor is not None
                const = graph.add_const(tensor, node.output.name, before=node).producer
                const.output.desc = node.output.desc
                const.sources, const.passes, const.engine = node.sources, node.passes, node.engine
                for user, place in uses:
                    graph.set_input(user, place, const.output)
            cluster.nodes.insert(0, const)
            owner[const] = cluster


def _borders(
    root: Graph, clusters: list[Cluster], owner: dict[Node, Cluster], graph_of: dict[Cluster, Graph]
) -> list[Border]:
    borders: list[Border] = []
    entered: dict[tuple[Value, Cluster], Value] = {}
    for cluster in clusters:
        for node in list(cluster.nodes):
            for place, value in enumerate(node.inputs):
                if value is None:
                    continue
                source = owner.get(value.producer)
                if source is cluster or value.producer.op_type == "Data":
                    continue
                assert source is not None
                inside = entered.get((value, cluster))
                if inside is None:
                    border = _cross(value, node, source, cluster, graph_of, len(borders))
                    borders.append(border)
                    inside = entered[value, cluster] = border.placeholder.output
                root.set_input(node, place, inside)
    return borders


def _cross(
    value: Value, reader: Node, source: Cluster, target: Cluster, graph_of: dict[Cluster, Graph], number: int
) -> Border:
    front, back = graph_of[source], graph_of[target]
    end = front.append(
        "End",
        [value],
        {"peerIndex": number, "parentOpType": reader.op_type, "end_rear_node_engine_name": target.engine.value},
        name=f"{front.name}_End{number}",
        outputs=(),
    )
    first = next(back.nodes)
    placeholder = back.insert_before(
        first,
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
    )
    placeholder.output.desc = value.desc
    return Border(end, placeholder)

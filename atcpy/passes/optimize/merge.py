"""Joining the pieces of a partition into one graph again.

PlaceHolder and End go; every node comes back to the root in the order in which the model had it, new nodes in front of
the one that they were made for.
"""

from __future__ import annotations

from atcpy.ir import Graph, Node, Partition
from atcpy.ir.order import sort_nodes


def merge(partition: Partition) -> Graph:
    """Return the whole graph. Execution follows the order before the cut as far as dependences allow, so that splitting
    changes no order.
    """
    root = partition.root
    for border in partition.borders:
        root.replace_uses(border.placeholder.output, border.end.operand(0))
    for border in partition.borders:
        for node in (border.end, border.placeholder):
            assert node.graph is not None
            node.graph.erase(node)
    *nodes, net_output = root.nodes
    for piece in partition.subgraphs:
        piece.graph.erase(piece.graph.net_output)
        nodes.extend(piece.graph.nodes)
    positions = _positions(nodes, partition)
    for node in sorted(nodes, key=positions.__getitem__):
        root.adopt(node)
    root.adopt(net_output)
    sort_nodes(root)
    return root


def _positions(nodes: list[Node], partition: Partition) -> dict[Node, int]:
    """The position of each node: its own before the cut, or for a new one that of the next old node of its piece."""
    old = {node: index for index, node in enumerate(partition.order)}
    positions: dict[Node, int] = {}
    following = len(old)
    for node in reversed(nodes):
        following = positions[node] = old.get(node, following)
    return positions

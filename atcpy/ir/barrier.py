"""Barriers: nodes that passes leave alone because the IR cannot express them as one node of a standard op."""

from atcpy.ir.node import Node

BARRIER = "atcpy.barrier"  # the domain of barriers; their op is `domain@opset::name`
PURE = "pure"  # the attribute of barriers that may be removed when nothing reads them


def is_barrier(node: Node) -> bool:
    """Whether passes must leave this node alone."""
    return node.domain == BARRIER


def may_vanish(node: Node) -> bool:
    """Whether the node may be removed when nothing reads it: an unknown op may have side effects."""
    return node.domain != BARRIER or PURE in node.attrs

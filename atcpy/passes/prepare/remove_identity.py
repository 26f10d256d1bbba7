"""Nodes that hand their input through: Identity, Dropout at inference, no-op Cast, Transpose …"""

from __future__ import annotations

from atcpy.ir import Graph, Node, PassRecord, erase_dead
from atcpy.options import PrepareOptions, Stage
from atcpy.passes.base import graph_pass


def is_identity(node: Node) -> bool:
    """True if output 0 always equals input 0 in type, shape and elements."""
    first = node.input(0)
    if first is None or not node.outputs or any(value.use_count for value in node.outputs[1:]):
        return False
    x, y = first.desc, node.output.desc
    if x.dtype is not y.dtype or x.shape is None or x.shape != y.shape:
        return False
    match node.op_type:
        case "Identity" | "Cast" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Expand":
            return True
        case "Dropout":
            training = node.input(2)
            return training is None or (training.tensor is not None and not training.array.any())
        case "Transpose":
            perm = node.ints_attr("perm", range(len(x.shape))[::-1])
            return perm == tuple(range(len(x.shape)))
        case "Concat" | "Sum" | "Max" | "Min" | "Mean":
            return node.input_count == 1
        case "Pad":
            pads = node.operand(1).tensor
            return pads is not None and not pads.array.any()
        case _:
            return False


@graph_pass("IdentityPass", Stage.PREPARE, after=("ExpandPass",), repeats=True)
def remove_identity(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Remove nodes that change nothing."""
    for node in graph.nodes:
        if not is_identity(node):
            continue
        if not record.may_apply():
            break
        record.matched += 1
        record.fire([node])
        graph.replace_uses(node.output, node.operand(0))
        erase_dead(graph, [node], "identity")

"""What a graph says by several nodes, and is known for what it is before they are mapped one by one."""

from __future__ import annotations

from atcpy.errors import AtcError
from atcpy.parsers.tensorflow.dilations import with_dilations
from atcpy.parsers.tensorflow.frames import structured
from atcpy.parsers.tensorflow.gelu import with_gelu
from atcpy.parsers.tensorflow.graph import TfGraph, needed


def recognized(graph: TfGraph, problems: list[AtcError]) -> TfGraph:
    """The graph with loops and branches of TensorFlow 1, convolutions with dilations and Gelu as one node each, in
    those loops and branches, too; what they were said by is gone.
    """
    found = structured(graph)
    whole = TfGraph(found.nodes, found.inputs, found.outputs)
    graphs = [whole]
    while graphs:
        part = graphs.pop()
        made = needed(with_gelu(with_dilations(part)), problems)
        part.nodes, part.outputs = made.nodes, made.outputs
        graphs += [body for node in part.nodes.values() for body in node.bodies.values()]
    return whole

"""Patterns of several nodes that are mapped as one node."""

from __future__ import annotations

from atcpy.errors import AtcError
from atcpy.parsers.tensorflow.dilations import with_dilations
from atcpy.parsers.tensorflow.frames import structured
from atcpy.parsers.tensorflow.gelu import with_gelu
from atcpy.parsers.tensorflow.graph import TfGraph, needed


def recognized(graph: TfGraph, problems: list[AtcError]) -> TfGraph:
    """Return the graph with loops and conditions of TensorFlow 1, dilated convolutions and Gelu as one node each, in
    bodies, too. The nodes that they replace are removed.
    """
    found = structured(graph)
    whole = TfGraph(found.nodes, found.inputs, found.outputs)
    waiting = [whole]
    while waiting:
        body = waiting.pop()
        reduced = needed(with_gelu(with_dilations(body)), problems)
        body.nodes, body.outputs = reduced.nodes, reduced.outputs
        waiting += [inner for node in body.nodes.values() for inner in node.bodies.values()]
    return whole

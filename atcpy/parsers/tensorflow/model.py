"""A path → the plain graph that its outputs depend on: what conversion and freezing begin with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from atcpy.errors import AtcError, raise_all
from atcpy.options import ParseOptions
from atcpy.parsers.tensorflow.endpoints import Endpoints, find_endpoints
from atcpy.parsers.tensorflow.graph import Library, Ref, TfGraph, inline_calls, needed, read_graph
from atcpy.parsers.tensorflow.reader import TfFile, read_file
from atcpy.parsers.tensorflow.variables import Variables


@dataclass(frozen=True, slots=True)
class TfModel:
    """The nodes in an order in which each comes after what it reads; calls of functions are in place. The inputs of
    `ends` are those that belong to the graph.
    """

    file: TfFile
    library: Library
    graph: TfGraph
    ends: Endpoints
    variables: Variables


def open_model(path: Path, options: ParseOptions, *, pivots: bool = False) -> TfModel:
    """Reads a model up to its plain graph; raises one error that holds all of its problems. With `pivots` the nodes
    are there, too, on which constants of branches and loops of TensorFlow 1 hang by control edges.
    """
    file = read_file(path, options)
    problems: list[AtcError] = []
    library = Library(file.graph.library.function, file.ops)
    nodes = read_graph(file.graph, problems)
    raise_all(problems)
    ends = find_endpoints(nodes, file, options)
    fed = {node.name: node for node in ends.inputs.values()}
    whole = TfGraph({**nodes, **fed}, list(fed) if ends.all_inputs else [], list(ends.outputs.values()))
    select = _with_pivots if pivots else needed
    wanted = select(whole, problems)
    raise_all(problems)
    flat = select(inline_calls(wanted, library), problems)
    raise_all(problems)
    flat.outputs[len(ends.outputs) :] = []
    inputs = {name: node for name, node in ends.inputs.items() if node.name in flat.nodes}
    outputs = dict(zip(ends.outputs, flat.outputs, strict=True))
    return TfModel(file, library, flat, Endpoints(inputs, outputs), Variables(file, nodes, library))


_PIVOTS = frozenset({"Identity", "Switch", "Merge", "LoopCond", "Enter", "NextIteration", "Exit"})


def _with_pivots(graph: TfGraph, problems: list[AtcError]) -> TfGraph:
    while True:
        found = needed(graph, problems)
        hung_on = {name: None for node in found.nodes.values() for name in node.controls if name not in found.nodes}
        more = [Ref(name, 0) for name in hung_on if name in graph.nodes and graph.nodes[name].op in _PIVOTS]
        if not more or not any(node.op == "Switch" for node in found.nodes.values()):
            return found
        graph = TfGraph(graph.nodes, graph.inputs, [*graph.outputs, *more])

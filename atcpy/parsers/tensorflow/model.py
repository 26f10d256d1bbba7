"""A path → the plain graph that its outputs depend on: what conversion and freezing begin with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from atcpy.errors import AtcError, raise_all
from atcpy.options import ParseOptions
from atcpy.parsers.tensorflow.endpoints import Endpoints, find_endpoints
from atcpy.parsers.tensorflow.graph import Library, TfGraph, inline_calls, needed, read_graph
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


def open_model(path: Path, options: ParseOptions) -> TfModel:
    """Reads a model up to its plain graph; raises one error that holds all of its problems."""
    file = read_file(path, options)
    problems: list[AtcError] = []
    library = Library(file.graph.library.function, file.ops)
    nodes = read_graph(file.graph, problems)
    raise_all(problems)
    ends = find_endpoints(nodes, file, options)
    fed = {node.name: node for node in ends.inputs.values()}
    whole = TfGraph({**nodes, **fed}, list(fed) if ends.all_inputs else [], list(ends.outputs.values()))
    wanted = needed(whole, problems)
    raise_all(problems)
    flat = needed(inline_calls(wanted, library), problems)
    raise_all(problems)
    inputs = {name: node for name, node in ends.inputs.items() if node.name in flat.nodes}
    outputs = dict(zip(ends.outputs, flat.outputs, strict=True))
    return TfModel(file, library, flat, Endpoints(inputs, outputs), Variables(file, nodes, library))

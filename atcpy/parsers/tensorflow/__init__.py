"""TensorFlow models → ir.Graph."""

from __future__ import annotations

from pathlib import Path

from atcpy.errors import AtcError, raise_all
from atcpy.ir import Graph, Value
from atcpy.ir.closure import close_bodies
from atcpy.options import ParseOptions
from atcpy.parsers.choices import NamedGraph, choose_inputs
from atcpy.parsers.parsed import ParsedModel
from atcpy.parsers.tensorflow.endpoints import find_endpoints
from atcpy.parsers.tensorflow.graph import Library, Ref, TfGraph, inline_calls, needed, read_graph
from atcpy.parsers.tensorflow.importer import Importer
from atcpy.parsers.tensorflow.reader import is_tensorflow, read_file

__all__ = ["import_tensorflow", "is_tensorflow"]


def import_tensorflow(path: Path, options: ParseOptions) -> ParsedModel:
    """Reads a model; raises one error that holds all of its problems."""
    file = read_file(path)
    problems: list[AtcError] = []
    try:
        library = Library(file.graph.library.function)
        nodes = inline_calls(TfGraph(read_graph(file.graph, problems), [], []), library).nodes
        raise_all(problems)
        endpoints = find_endpoints(nodes, options)
        wanted = needed(TfGraph(nodes, [], list(endpoints.outputs.values())), problems)
        raise_all(problems)
        importer = Importer(library, file.variables)
        graph = Graph("main")
        inputs = {name: node for name, node in endpoints.inputs.items() if node.name in wanted.nodes}
        values = importer.read_inputs(inputs, graph)
        named = NamedGraph(graph, values, {})
        raise_all([*importer.problems, *choose_inputs(named, options)])
        known = {Ref(node.name, 0): values[name] for name, node in inputs.items()}
        results = importer.read_main(wanted, known, graph)
        raise_all(importer.problems)
        _end(graph, dict(zip(endpoints.outputs, results, strict=True)))
        close_bodies(graph)
    except AtcError as error:
        raise error.located(file=str(path)) from error.__cause__
    graph.node_count_before = len(nodes)
    return ParsedModel(graph, file.source, ())


def _end(graph: Graph, results: dict[str, Value | None]) -> None:
    """Ends the graph with the values that it returns, under the names that they are asked for by."""
    outputs: list[Value] = []
    for name, value in results.items():
        assert value is not None
        if value.name != name:
            if value.producer.op_type in ("Data", "Const") or value in outputs:
                value = graph.append("Identity", [value], name=name, outputs=(name,)).output
            else:
                value.name = graph.names.fresh_value(name)
        outputs.append(value)
    graph.append("NetOutput", outputs, name="NetOutput", outputs=())

"""TensorFlow models → ir.Graph."""

from __future__ import annotations

from pathlib import Path

from atcpy.errors import AtcError, UsageError, Where, raise_all
from atcpy.ir import Graph, Value
from atcpy.ir.closure import close_bodies
from atcpy.options import ParseOptions
from atcpy.parsers.choices import NamedGraph, choose_inputs
from atcpy.parsers.parsed import ParsedModel
from atcpy.parsers.tensorflow.dilations import with_dilations
from atcpy.parsers.tensorflow.frames import structured
from atcpy.parsers.tensorflow.gelu import with_gelu
from atcpy.parsers.tensorflow.graph import Ref, needed
from atcpy.parsers.tensorflow.importer import Importer
from atcpy.parsers.tensorflow.locate import is_tensorflow
from atcpy.parsers.tensorflow.model import open_model

__all__ = ["import_tensorflow", "is_tensorflow"]


def import_tensorflow(path: Path, options: ParseOptions) -> ParsedModel:
    """Reads a model; raises one error that holds all of its problems."""
    try:
        model = open_model(path, options)
        inputs = model.ends.inputs
        importer = Importer(model.library, model.variables)
        graph = Graph("main")
        values = importer.read_inputs(inputs, graph)
        named = NamedGraph(graph, values, {})
        raise_all([*importer.problems, *choose_inputs(named, options)])
        known = {Ref(node.name, 0): values[name] for name, node in inputs.items()}
        nodes = needed(with_gelu(with_dilations(structured(model.graph))), importer.problems)
        raise_all(importer.problems)
        results = importer.read_main(nodes, known, graph)
        raise_all(importer.problems)
        _end(graph, dict(zip(model.ends.outputs, results, strict=True)))
        close_bodies(graph)
    except AtcError as error:
        raise error.located(file=str(path)) from error.__cause__
    graph.node_count_before = len(model.graph.nodes)
    return ParsedModel(graph, model.file.source, ())


def _end(graph: Graph, results: dict[str, Value | None]) -> None:
    """Ends the graph with the values that it returns, under the names that they are asked for by."""
    outputs: list[Value] = []
    for name, value in results.items():
        if value is None:
            where = Where(option="out_nodes")
            raise UsageError("E10016", f'--out_nodes: "{name}" is an output that is not made here', where=where)
        if value.producer.op_type in ("Data", "Const") or value in outputs:
            value = graph.append("Identity", [value], name=name, outputs=(name,)).output
        outputs.append(value)
    graph.append("NetOutput", outputs, {"names": tuple(results)}, name="NetOutput", outputs=())

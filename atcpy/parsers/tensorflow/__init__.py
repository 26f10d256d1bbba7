"""TensorFlow models → ir.Graph."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path

from atcpy.errors import AtcError, AtcWarning, UsageError, Where, raise_all
from atcpy.ir import Graph, Value
from atcpy.ir.closure import close_bodies
from atcpy.options import ParseOptions
from atcpy.parsers.choices import NamedGraph, check_inputs, set_input_shapes
from atcpy.parsers.parsed import ParsedModel
from atcpy.parsers.tensorflow.graph import Ref
from atcpy.parsers.tensorflow.importer import Importer
from atcpy.parsers.tensorflow.locate import is_tensorflow
from atcpy.parsers.tensorflow.model import open_model
from atcpy.parsers.tensorflow.patterns import recognized
from atcpy.parsers.tensorflow.reader import TfFile

__all__ = ["import_tensorflow", "is_tensorflow"]


def import_tensorflow(path: Path, options: ParseOptions) -> ParsedModel:
    """Reads a model; raises one error that holds all of its problems."""
    try:
        model = open_model(path, options)
        inputs = model.ends.inputs
        importer = Importer(model.library, model.variables)
        graph = Graph("main")
        values = importer.read_inputs(inputs, graph)
        shape_problems = set_input_shapes(graph, options) + check_inputs(NamedGraph(graph, values, {}), options)
        raise_all([*importer.problems, *shape_problems])
        known = {Ref(node.name, 0): values[name] for name, node in inputs.items()}
        nodes = recognized(model.graph, importer.problems)
        raise_all(importer.problems)
        results = importer.read_main(nodes, known, graph)
        raise_all([*importer.problems, *model.states])
        _end(graph, dict(zip(model.ends.outputs, results, strict=True)))
        close_bodies(graph)
        graph.inferred = importer.inferred(graph)
    except AtcError as error:
        raise error.located(file=str(path)) from error.__cause__
    graph.node_count_before = len(model.graph.nodes)
    return ParsedModel(graph, model.file.source, tuple(_defaults(model.file, model.ends.inputs)))


def _defaults(file: TfFile, inputs: Container[str]) -> Iterator[AtcWarning]:
    """The inputs that a caller of the signature may leave out, and a caller of the package may not."""
    for name in sorted(file.signature.defaults) if file.signature is not None else ():
        if name in inputs:
            what = f'the signature has a default value for the input "{name}", which the package does not keep'
            yield AtcWarning("W0008", what, Where(value=name))


def _end(graph: Graph, results: dict[str, Value | None]) -> None:
    """Ends the graph with the values that it returns, under the names that they are asked for by."""
    outputs: list[Value] = []
    for name, value in results.items():
        if value is None:
            where = Where(option="out_nodes")
            what = f'--out_nodes: "{name}" is no output of that node, or one that is not converted'
            raise UsageError("E10016", what, where=where, hint="the first is 0")
        if value.producer.is_source or value in outputs:
            value = graph.append("Identity", [value], name=name, outputs=(name,)).output
        outputs.append(value)
    graph.append("NetOutput", outputs, {"names": tuple(results)}, name="NetOutput", outputs=())

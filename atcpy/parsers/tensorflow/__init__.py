"""TensorFlow models → ir.Graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from atcpy.errors import AtcError, AtcWarning, UsageError, Where, raise_all
from atcpy.ir import Graph, Value
from atcpy.ir.closure import close_bodies
from atcpy.options import ParseOptions
from atcpy.parsers.choices import NamedGraph, check_inputs, set_input_shapes
from atcpy.parsers.parsed import ParsedModel
from atcpy.parsers.tensorflow.graph import Ref
from atcpy.parsers.tensorflow.importer import DEFAULT, Importer
from atcpy.parsers.tensorflow.locate import is_tensorflow
from atcpy.parsers.tensorflow.model import TfModel, open_model
from atcpy.parsers.tensorflow.patterns import recognized

__all__ = ["import_tensorflow", "is_tensorflow"]


def import_tensorflow(path: Path, options: ParseOptions) -> ParsedModel:
    """Reads a model; raises one error that holds all of its problems. Where inputs with a default are in the way, as
    the rate of a Dropout is, they become constants.
    """
    try:
        model = open_model(path, options)
        defaults = [name for name, node in model.ends.inputs.items() if DEFAULT in node.attrs]
        try:
            return _import(model, options)
        except AtcError:
            if not defaults:
                raise
            folding = replace(options, fold_default_inputs=True)
            parsed = _import(open_model(path, folding), folding)
        listed = ", ".join(f'"{name}"' for name in defaults)
        what = f"the model cannot be converted for other values than the defaults of {listed}: they are constants"
        return replace(parsed, warnings=(*parsed.warnings, AtcWarning("W0009", what, Where(value=defaults[0]))))
    except AtcError as error:
        raise error.located(file=str(path)) from error.__cause__


def _import(model: TfModel, options: ParseOptions) -> ParsedModel:
    inputs = model.ends.inputs
    importer = Importer(model.library, model.variables, model.tables)
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
    graph.node_count_before = len(model.graph.nodes)
    return ParsedModel(graph, model.file.source, tuple(_warn_of_features(model)))


def _warn_of_features(model: TfModel) -> Iterator[AtcWarning]:
    features = [f'"{name}"' for name in model.features if name in model.ends.inputs]
    if features:
        what = f"the model would parse tf.train.Example: the features {', '.join(features)} are its inputs instead"
        yield AtcWarning("W0010", what, Where(value=features[0].strip('"')))


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

"""Stage 0, parse: a model file becomes a graph at the canonical opset."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from atcpy.errors import AtcWarning, Where
from atcpy.ir import Graph, is_static
from atcpy.ops.custom import CustomOps
from atcpy.options import Framework, ParseOptions
from atcpy.parsers.aipp import insert_aipp
from atcpy.parsers.choices import choose_format, input_layout
from atcpy.parsers.onnx import import_onnx
from atcpy.parsers.onnx.reader import ModelFile
from atcpy.parsers.parsed import ParsedModel
from atcpy.parsers.sniff import begins_as_onnx

__all__ = ["ParsedModel", "names_tensorflow", "parse"]


def parse(model: Path | onnx.ModelProto | ModelFile, options: ParseOptions, custom: CustomOps) -> ParsedModel:
    """Read a model, or go on with its file."""
    if isinstance(model, Path) and names_tensorflow(model, options):
        from atcpy.parsers.tensorflow import import_tensorflow

        parsed = import_tensorflow(model, options)
    else:
        parsed = import_onnx(model, options, custom)
    graph, framework = parsed.graph, parsed.source.framework
    choose_format(graph, framework, options)
    warnings = [*parsed.warnings, *_default_warnings(graph), *_open_warnings(graph, options)]
    if options.aipp is not None:
        gears = None if options.gears is None else options.gears.kind
        warnings += insert_aipp(graph, options.aipp, input_layout(framework, options), gears)
    return replace(parsed, warnings=tuple(warnings))


def _default_warnings(graph: Graph) -> Iterator[AtcWarning]:
    """W0008 for constants that a caller may replace: nothing is folded into what reads them."""
    names = [node.name for node in graph.inputs if "default" in node.attrs]
    if names:
        listed = _listed(names)
        what = f"inputs with a default, which a run may replace: {listed}; --fold_default_inputs makes them constants"
        yield AtcWarning("W0008", what, Where(value=names[0]))


def _open_warnings(graph: Graph, options: ParseOptions) -> Iterator[AtcWarning]:
    """W0032 for inputs that --input_shape leaves open: a shell ends a value without quotes at its first `;`."""
    if options.input_shape and options.gears is None:
        inputs = [node.output for node in graph.inputs if node.output.name not in options.input_shape]
        names = [value.name for value in inputs if not is_static(value.desc.shape)]
        if names:
            what = f'--input_shape leaves {_listed(names)} open: a value with ";" needs quotes'
            yield AtcWarning("W0032", what, Where(option="input_shape", value=names[0]))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")


def names_tensorflow(path: Path, options: ParseOptions) -> bool:
    """Is it a model of TensorFlow? By what the user says, else by what the path holds. Whoever has models of ONNX never
    loads the other reader.
    """
    if options.framework is not None or begins_as_onnx(path):
        return options.framework is Framework.TENSORFLOW
    from atcpy.parsers.tensorflow import is_tensorflow

    return is_tensorflow(path)

"""Stage 0, parse: a model file becomes a graph at the canonical opset."""

from pathlib import Path

import onnx

from atcpy.ops.custom import CustomOps
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx
from atcpy.parsers.parsed import ParsedModel

__all__ = ["ParsedModel", "parse"]


def parse(model: Path | onnx.ModelProto, options: ParseOptions, custom: CustomOps) -> ParsedModel:
    """Reads a model. The names of the outputs are kept on NetOutput, so that no pass has to."""
    parsed = import_onnx(model, options, custom)
    net_output = parsed.graph.net_output
    net_output.attrs["names"] = tuple(value.name for value in net_output.operands)
    return parsed

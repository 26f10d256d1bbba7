"""Small models in ONNX text, compiled to packages."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.golden.golden import parse_text

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'


def model(text: str) -> onnx.ModelProto:
    """`name (float[2] x) => (float[2] y) { y = Relu(x) }` at opset 21; undefined values that are declared
    become seeded constants.
    """
    return parse_text(HEAD + text)


def package(text: str, options: Mapping[str, object] | None = None) -> bytes:
    """The package that the model compiles to."""
    return writer.to_bytes(compile_model(model(text), convert_options(options))[0])

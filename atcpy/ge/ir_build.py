"""Compilation of a graph to a package in memory, with or without a session."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

import atcpy
from atcpy.errors import UsageError
from atcpy.files import read_file
from atcpy.ge.graph import Graph
from atcpy.ge.model import model_of
from atcpy.ge.options import merged_options
from atcpy.om.atomic import atomic_write
from atcpy.om.package import parse_package
from atcpy.stages.report import ConvertReport


def options_of(graph: Graph, outer: Mapping[str, object], options: Mapping[str, object] | None) -> dict[str, object]:
    """The options with which a graph is compiled. Raises UsageError for what is no graph, too."""
    if not isinstance(graph, Graph):
        raise UsageError("E10003", f"{graph!r} is no Graph")
    return {"input_format": graph.input_format, **merged_options(outer, options)}


def compile_model(model: Path | onnx.ModelProto, options: Mapping[str, Any]) -> tuple[bytes, ConvertReport]:
    """The package of a model, and the report of the conversion. Raises what `atcpy.convert` does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.om"
        report = atcpy.convert(model, path, **options)
        return read_file(path), report


def aclgrphBuildModel(graph: Graph, options: Mapping[str, object] | None = None) -> bytes:
    """The package of a graph; no engine is needed. Raises what `atcpy.convert` does."""
    read = options_of(graph, {}, options)
    return compile_model(model_of(graph), read)[0]


def aclgrphSaveModel(output_file: str | os.PathLike[str], model: bytes) -> None:
    """Write a package to a file; `.om` is appended unless the name has it. Raises PackageCorrupt for other bytes."""
    parse_package(model)
    name = os.fspath(output_file)
    atomic_write(name if name.endswith(".om") else name + ".om", [model])

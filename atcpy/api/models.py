"""Models in the forms that programs have them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from atcpy.errors import UsageError

if TYPE_CHECKING:
    import onnx


class SurgeonGraph(Protocol):
    """`onnx_graphsurgeon.Graph`."""

    nodes: Any
    inputs: Any
    outputs: Any

    def tensors(self) -> Any:
        """The tensors by their names."""


class IrModel(Protocol):
    """`onnx_ir.Model`."""

    ir_version: Any
    graph: Any
    functions: Any
    opset_imports: Any


class ScriptFunction(Protocol):
    """`onnxscript.OnnxFunction`."""

    def to_model_proto(self) -> Any:
        """The function as a model."""


PathOrBytes: TypeAlias = str | os.PathLike[str] | bytes
if TYPE_CHECKING:
    ModelSource: TypeAlias = PathOrBytes | onnx.ModelProto | SurgeonGraph | IrModel | ScriptFunction


def _export_surgeon_graph(library: Any, graph: Any) -> Any:
    return library.export_onnx(graph)


def _export_ir_model(library: Any, model: Any) -> Any:
    return library.to_proto(model)


def _export_script_function(_: Any, function: Any) -> Any:
    return function.to_model_proto()


# By the library that a model's class is of: the function of that library that makes a ModelProto.
_EXPORTS: dict[str, Callable[[Any, Any], Any]] = {
    "onnx_graphsurgeon": _export_surgeon_graph,
    "onnx_ir": _export_ir_model,
    "onnxscript": _export_script_function,
}


def _as_proto(model: object) -> onnx.ModelProto:
    """A model in memory as a ModelProto. Raises UsageError for what is no model."""
    import onnx

    if isinstance(model, onnx.ModelProto):
        return model
    for kind in type(model).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in _EXPORTS:
            proto = _EXPORTS[library](sys.modules[library], model)
            if isinstance(proto, onnx.ModelProto):
                return proto
    forms = "a path, bytes, a ModelProto, or a model of onnx_graphsurgeon, onnx_ir or onnxscript"
    raise UsageError("E10003", f"a model is {forms}, not {type(model).__module__}.{type(model).__qualname__}")


@contextmanager
def model_source(model: ModelSource) -> Iterator[Path | onnx.ModelProto]:
    """A model as the compiler takes it; bytes are a file for the time of the block."""
    if isinstance(model, bytes):
        with _temporary_file("model.onnx", model) as path:
            yield path
    else:
        yield Path(model) if isinstance(model, str | os.PathLike) else _as_proto(model)


@contextmanager
def model_file(model: ModelSource) -> Iterator[Path]:
    """The file of a model, written for the time of the block if there is none."""
    with model_source(model) as source:
        if isinstance(source, Path):
            yield source
        else:
            with _temporary_file("model.onnx", source.SerializeToString()) as path:
                yield path


@contextmanager
def package_file(package: PathOrBytes) -> Iterator[Path]:
    """The file of a package, written for the time of the block if it is in memory."""
    if not isinstance(package, bytes):
        yield Path(package)
        return
    with _temporary_file("package.om", package) as path:
        yield path


@contextmanager
def any_file(source: ModelSource) -> Iterator[Path]:
    """The file of a package or a model."""
    if isinstance(source, bytes) and source.startswith(b"IMOD"):
        with package_file(source) as path:
            yield path
    else:
        with model_file(source) as path:
            yield path


@contextmanager
def _temporary_file(name: str, raw: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="atcpy-") as folder:
        path = Path(folder) / name
        path.write_bytes(raw)
        yield path

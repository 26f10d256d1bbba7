"""Traced graphs, compiled: as one package, or each node as a package of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import atcpy
from atcpy.debug.submodel import IndexedModel
from atcpy.ir.tensor import Array
from atcpy.jit.config import JitConfig
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model

if TYPE_CHECKING:
    import onnx

    from atcpy.runtime import InferenceSession

# The arrays of the inputs become those of the outputs.
RunGraph: TypeAlias = Callable[[Sequence[Array]], Sequence[Array]]


def compile_graph(model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str], config: JitConfig) -> RunGraph:
    """Compile a graph as `config` says. Raises what `atcpy.convert` does."""
    if config.exec_mode == "op":
        return _OpByOp(model, inputs, outputs, config)
    session = _session(model, config)

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        return session.run(list(outputs), dict(zip(inputs, arrays, strict=True)))

    return run


def _session(model: onnx.ModelProto, config: JitConfig) -> InferenceSession:
    options = convert_options(config.compile_options)
    package = writer.to_bytes(compile_model(model, options)[0])
    limit = options.limits.memory_bytes
    return atcpy.InferenceSession(
        package, threads=options.threads, memory_limit=limit, custom_ops=config.options.get("custom_ops", ())
    )


class _OpByOp:
    """Runs a graph node by node. A node is compiled when it first meets arrays of these types and shapes."""

    def __init__(
        self, model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str], config: JitConfig
    ) -> None:
        self._model = IndexedModel(model)
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._config = config
        self._sessions: dict[tuple[object, ...], InferenceSession] = {}

    def __call__(self, arrays: Sequence[Array]) -> Sequence[Array]:
        values: dict[str, Any] = dict(zip(self._inputs, arrays, strict=True))
        for node in range(len(self._model.nodes)):
            reads = {name: values[name] for name in self._model.inputs([node])}
            key = (node, *((array.dtype.str, array.shape) for array in reads.values()))
            if key not in self._sessions:
                self._sessions[key] = _session(self._model.cut([node], values), self._config)
            results = self._sessions[key].run(None, reads)
            values.update(zip(self._model.outputs([node]), results, strict=True))
        return [values[name] for name in self._outputs]

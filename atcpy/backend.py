"""The adapter to `onnx.backend.base`: `atcpy.backend.run_model(model, inputs)`, as test suites of ONNX call it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

import atcpy
from atcpy.errors import AtcError, UsageError
from atcpy.ir.tensor import Array
from atcpy.options import ConvertOptions, convert_options
from atcpy.stages import pipeline

__all__ = ["AtcpyBackend", "Prepared", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class Prepared(BackendRep):
    """A model that is converted and loaded; `session` runs it."""

    def __init__(self, session: atcpy.InferenceSession) -> None:
        self.session = session
        self._inputs = [port.name for port in session.get_inputs()]
        self._outputs = [port.name for port in session.get_outputs()]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, by number and by name. `inputs`: a mapping, or a list in the model's order, or the only one."""
        results = self.session.run(None, inputs if isinstance(inputs, Mapping) else self._named(inputs))
        return namedtupledict("Outputs", self._outputs)(*results)

    def _named(self, inputs: Any) -> dict[str, Array]:
        arrays = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        if len(arrays) != len(self._inputs):
            raise UsageError("E13025", f"run: {len(arrays)} inputs are given, the model has {len(self._inputs)}")
        return dict(zip(self._inputs, arrays, strict=True))


class AtcpyBackend(Backend):
    """Converts a model, writes the package, loads and runs it; `kwargs` are the options of `atcpy.convert`."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Is it the CPU, with or without a number?"""
        return device.partition(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Can the model be converted for that device?"""
        if not cls.supports_device(device):
            return False
        try:
            pipeline.compile_model(model, convert_options(kwargs))
        except AtcError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """The model, ready to run many times. Raises AtcError, as `atcpy.convert` and InferenceSession do."""
        options = _options(device, kwargs)
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "model.om"
            pipeline.convert(model, package, options)
            # The package stays mapped when the file is gone.
            return Prepared(atcpy.InferenceSession(package, threads=kwargs.get("threads")))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one node on arrays, those of its inputs that have names. `opset_version`: the newest, if not given."""
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [name for name in dict.fromkeys(node.input) if name]
        arrays = [np.asarray(array) for array in (inputs if isinstance(inputs, list | tuple) else [inputs])]
        if len(arrays) != len(names):
            raise UsageError("E13025", f"run_node: {len(arrays)} inputs are given, {node.op_type} has {len(names)}")
        graph = helper.make_graph(
            [node],
            node.op_type,
            [_port(name, array.dtype, array.shape) for name, array in zip(names, arrays, strict=True)],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        opsets = [helper.make_opsetid(node.domain, version)]
        model = helper.make_model(graph, opset_imports=opsets)
        return cls.prepare(model, device, **kwargs).run(arrays)


def _options(device: str, kwargs: Mapping[str, Any]) -> ConvertOptions:
    if not AtcpyBackend.supports_device(device):
        raise UsageError("E10001", f'device "{device}" is not CPU')
    return convert_options(kwargs)


def _port(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


is_compatible = AtcpyBackend.is_compatible
prepare = AtcpyBackend.prepare
run_model = AtcpyBackend.run_model
run_node = AtcpyBackend.run_node
supports_device = AtcpyBackend.supports_device

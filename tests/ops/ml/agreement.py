"""Nodes of ONNX-ML ops, run by atcpy and by ONNX Runtime, which must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import atcpy
from atcpy.ir.tensor import Array
from tests.ort import open_ort

ML = "ai.onnx.ml"
SCORES = {"y": TensorProto.FLOAT}


def model_of(
    op_type: str, arrays: Sequence[Array], attrs: Mapping[str, Any], outputs: Mapping[str, int], version: int = 3
) -> onnx.ModelProto:
    """Build a model of one node; `outputs` maps names to element types."""
    names = [f"x{index}" for index in range(len(arrays))]
    node = helper.make_node(op_type, names, list(outputs), domain=ML, **attrs)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, arrays, strict=True)
    ]
    results = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    graph = helper.make_graph([node], "g", inputs, results)
    opsets = [helper.make_opsetid(ML, version), helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def agree(
    op_type: str,
    arrays: Sequence[Array],
    attrs: Mapping[str, Any],
    outputs: Mapping[str, int] = SCORES,
    *,
    version: int = 3,
    rtol: float = 2e-6,
) -> list[Array]:
    """Fail unless atcpy computes what ONNX Runtime does; return the results."""
    model = model_of(op_type, arrays, attrs, outputs, version)
    expected = open_ort(model).run(None, {f"x{index}": array for index, array in enumerate(arrays)})
    found = list(atcpy.backend.run_model(model, list(arrays)))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-6)
        else:
            assert ours.tolist() == theirs.tolist()
    return found


def classify(op_type: str, x: Array, attrs: Mapping[str, Any], *, version: int = 3, rtol: float = 2e-6) -> list[Array]:
    """Run `agree` on a classifier's label and scores; a model with only one of the outputs must give the same."""
    label = TensorProto.STRING if "classlabels_strings" in attrs else TensorProto.INT64
    both = agree(op_type, [x], attrs, {"label": label, "scores": TensorProto.FLOAT}, version=version, rtol=rtol)
    for index in (0, 1):
        model = model_of(op_type, [x], attrs, {"label": label, "scores": TensorProto.FLOAT}, version)
        del model.graph.output[1 - index]
        (single,) = atcpy.backend.run_model(model, [x])
        assert single.dtype == both[index].dtype
        if index == 0:
            assert single.tolist() == both[0].tolist()
        else:
            np.testing.assert_allclose(single, both[1], rtol=rtol, atol=1e-6)
    return both

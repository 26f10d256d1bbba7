"""Runs one node of ONNX Runtime's own domains in ONNX Runtime and in atcpy."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from atcpy.ir import Graph, PassRecord
from atcpy.ir.verify import violations
from atcpy.options import OoLevel, PrepareOptions
from atcpy.passes import folding
from atcpy.passes.prepare.fold.constants import fold_constants
from tests.parsers.onnx.canonical import Array, parsed, run_canonical, run_ort

Arrays = Sequence[Array | None]


def floats(*shape: int, seed: int = 7) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def integers(low: int, high: int, *shape: int, dtype: str = "uint8") -> Array:
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(dtype)


def make_model(
    op_type: str,
    arrays: Arrays,
    attrs: Mapping[str, object] | None = None,
    *,
    constants: Sequence[int] = (),
    outputs: int | Sequence[str] = 1,
    domain: str = "com.microsoft",
    opset: int = 17,
    symbolic: bool = False,
) -> onnx.ModelProto:
    """Build a model of one node; `symbolic` makes all dims of its inputs symbolic."""
    names = [f"i{index}" if array is not None else "" for index, array in enumerate(arrays)]
    results = [f"o{index}" for index in range(outputs)] if isinstance(outputs, int) else list(outputs)
    node = helper.make_node(op_type, names, results, domain=domain, name="node", **(attrs or {}))
    inputs, initializers = [], []
    for index, array in enumerate(arrays):
        if array is None:
            continue
        if index in constants:
            initializers.append(numpy_helper.from_array(array, names[index]))
            continue
        dims = [f"d{index}_{axis}" for axis in range(array.ndim)] if symbolic else array.shape
        elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(names[index], elem_type, dims))
    named = [onnx.ValueInfoProto(name=name) for name in results if name]
    graph = helper.make_graph([node], "one", inputs, named, initializers)
    opsets = {"": opset, "com.microsoft": 1, "ai.onnx.ml": 5}
    imports = [helper.make_opsetid(name, version) for name, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def feeds_of(model: onnx.ModelProto, arrays: Arrays) -> dict[str, Array]:
    input_names = {info.name for info in model.graph.input}
    return {
        f"i{index}": array for index, array in enumerate(arrays) if array is not None and f"i{index}" in input_names
    }


def expanded(model: onnx.ModelProto | Path) -> Graph:
    """The graph of a model after expansion to standard ops."""
    graph = parsed(model).graph
    fold_constants(graph, PassRecord(folding.NAME, "prepare"), PrepareOptions(level=OoLevel.O0))
    assert list(violations(graph)) == []
    return graph


def results_of(model: onnx.ModelProto, arrays: Arrays) -> tuple[Graph, list[Array]]:
    """The expanded graph of the model, and what it computes."""
    graph = expanded(model)
    assert all(not node.domain for node in graph.nodes)
    return graph, run_canonical(graph, feeds_of(model, arrays))


def assert_as_in_ort(
    op_type: str,
    arrays: Arrays,
    attrs: Mapping[str, object] | None = None,
    *,
    steps: int = 0,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    **options: object,
) -> Graph:
    """Assert that ONNX Runtime's kernel and our expansion agree, within `steps` quantization steps."""
    model = make_model(op_type, arrays, attrs, **options)  # type: ignore[arg-type]
    expected = run_ort(model, feeds_of(model, arrays))
    graph, got = results_of(model, arrays)
    assert len(got) == len(expected)
    for have, want in zip(got, expected, strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        if have.dtype.kind in "iu":
            assert np.abs(have.astype(np.int64) - want.astype(np.int64)).max(initial=0) <= steps
        else:
            np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)
    return graph

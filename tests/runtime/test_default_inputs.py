"""Inputs with a default: initializers that are graph inputs, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import atcpy
from atcpy.errors import ModelInvalid, UsageError
from atcpy.ir.tensor import Array
from atcpy.runtime.profile import tasks_of

X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
DEFAULT = np.array([10, 20, 30], np.float32)


def model(dims: str = "2,3", default_dims: str = "3", ir_version: int = 8) -> onnx.ModelProto:
    """y = x · x + b, where b need not be fed."""
    text = f"""<ir_version: {ir_version}, opset_import: ["" : 17]>
        m (float[{dims}] x, float[{default_dims}] b) => (float[{dims}] y) {{ s = Mul(x, x) y = Add(s, b) }}"""
    parsed = onnx.parser.parse_model(text)
    parsed.graph.initializer.append(numpy_helper.from_array(DEFAULT, "b"))
    return parsed


def session(source: onnx.ModelProto, folder: Path, **options: object) -> atcpy.InferenceSession:
    atcpy.convert(source, folder / "m.om", **options)
    return atcpy.InferenceSession(folder / "m.om")


@pytest.mark.parametrize(("dims", "default_dims"), [("2,3", "3"), ("n,3", "3"), ("n,m", "k")])
@pytest.mark.parametrize("level", ["O0", "O3"])
def test_a_fed_value_counts_and_the_default_else(dims: str, default_dims: str, level: str, tmp_path: Path) -> None:
    source = model(dims, default_dims)
    ours = session(source, tmp_path, oo_level=level)
    theirs = ort.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [port.name for port in ours.get_inputs()] == [port.name for port in theirs.get_inputs()] == ["x"]
    assert [port.name for port in ours.get_overridable_initializers()] == ["b"]
    feeds: list[dict[str, Array]] = [{"x": X}, {"x": X, "b": -DEFAULT}, {"x": X}]
    for fed in feeds:
        np.testing.assert_array_equal(ours.run(None, fed)[0], theirs.run(None, fed)[0])


def test_weights_that_a_run_may_replace_are_packed_until_it_does(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        m (float[1,16,5,5] x, float[32,16,3,3] w) => (float[1,32,3,3] y) { y = Conv(x, w) }"""
    source = onnx.parser.parse_model(text)
    x, w, other = (
        np.random.default_rng(seed).standard_normal((1, 16, 5, 5) if seed == 0 else (32, 16, 3, 3), np.float32)
        for seed in range(3)
    )
    source.graph.initializer.append(numpy_helper.from_array(w, "w"))
    ours = session(source, tmp_path)
    theirs = ort.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    families = []
    for feeds in ({"x": x}, {"x": x, "w": other}, {"x": x}):
        np.testing.assert_allclose(ours.run(None, feeds)[0], theirs.run(None, feeds)[0], rtol=1e-4, atol=1e-4)
        families.append({task.kernel.partition("_")[0] for plan in ours.plans for task in tasks_of(plan)})
    assert families == [{"transdata", "conv2d"}, {"transdata", "conv2d", "convnd"}, {"transdata", "conv2d", "convnd"}]
    assert ours.shape_cache is not None and ours.shape_cache.misses == 0


def test_folded_defaults_are_constants(tmp_path: Path) -> None:
    ours = session(model(), tmp_path, fold_default_inputs=True)
    assert ours.get_overridable_initializers() == []
    np.testing.assert_array_equal(ours.run(None, {"x": X})[0], X * X + DEFAULT)
    with pytest.raises(UsageError, match='no input "b"'):
        ours.run(None, {"x": X, "b": DEFAULT})


def test_constants_of_older_formats_are_no_inputs(tmp_path: Path) -> None:
    """Up to IR version 3 all constants were listed among the inputs."""
    assert session(model(ir_version=3), tmp_path).get_overridable_initializers() == []


def test_a_run_may_replace_it_says_the_report(tmp_path: Path) -> None:
    warnings = atcpy.convert(model(), tmp_path / "m.om").warnings
    assert [(warning.code, '"b"' in warning.message) for warning in warnings] == [("W0008", True)]
    assert atcpy.convert(model(), tmp_path / "m.om", fold_default_inputs=True).warnings == ()


def test_what_is_fed_is_checked_and_other_inputs_must_be(tmp_path: Path) -> None:
    ours = session(model(), tmp_path)
    with pytest.raises(UsageError, match=r'input "b" needs \[3\] float32, got \[2\]'):
        ours.run(None, {"x": X, "b": DEFAULT[:2]})
    with pytest.raises(UsageError, match='input "x" is missing'):
        ours.run(None, {"b": DEFAULT})
    np.testing.assert_array_equal(ours.run(None, {"x": X})[0], X * X + DEFAULT)


def test_an_input_without_a_type_of_its_own_has_that_of_its_default(tmp_path: Path) -> None:
    source = model()
    source.graph.input[1].type.tensor_type.ClearField("shape")
    ours = session(source, tmp_path)
    assert ours.get_overridable_initializers()[0].shape == (3,)


def test_a_default_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match='the default of input "b" is f32'):
        atcpy.convert(model(default_dims="2"), tmp_path / "m.om")


@pytest.mark.parametrize("dtype", ["float16", "int64", "bool"])
def test_defaults_of_any_type(dtype: str, tmp_path: Path) -> None:
    default = np.array([1, 0, 1]).astype(dtype)
    kind = onnx.helper.np_dtype_to_tensor_dtype(default.dtype)
    ports = [onnx.helper.make_tensor_value_info(name, kind, [3]) for name in ("b", "y")]
    node = onnx.helper.make_node("Identity", ["b"], ["y"])
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:], [numpy_helper.from_array(default, "b")])
    source = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    ours = session(source, tmp_path)
    found = ours.run(None, {})[0]
    np.testing.assert_array_equal(found, default)
    found[:] = 0  # the caller's own
    np.testing.assert_array_equal(ours.run(None, {})[0], default)


def test_a_default_that_nothing_replaces_is_a_constant_to_what_is_compiled(tmp_path: Path) -> None:
    """The weights of a convolution that may be fed are packed as long as they are not."""
    ours = session(model("n,3"), tmp_path)
    for fed, inputs in (({}, ["x"]), ({"b": DEFAULT.copy()}, ["x", "b"]), ({}, ["x"])):
        np.testing.assert_array_equal(ours.run(None, {"x": X, **fed})[0], X * X + DEFAULT)
        assert inputs in [[port.name for port in plan.inputs] for plan in ours.plans]
    assert len(ours.plans) == 2

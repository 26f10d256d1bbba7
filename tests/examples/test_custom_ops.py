"""The examples of custom operators: each beside its unfused form, its gradients beside differences."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnxruntime
import pytest

import atcpy
from atcpy.ir.tensor import Array
from tests.ops.custom.models import model

EXAMPLES = Path(__file__).parents[2] / "examples" / "custom_ops"
COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.usefixtures("no_custom_ops")

ADD_RELU = "g (float[4,3] x, float[3] y) => (float[4,3] z) { s = Add(x, y) z = Relu(s) }"
SIGMOID = "g (float[4,3] x, float[4,3] y) => (float[4,3] z) { s = Sigmoid(y) g = Mul(y, s) z = Mul(x, g) }"
SIGMOID_LAST = "g (float[4,3] x, float[4,3] y) => (float[4,3] z) { s = Sigmoid(y) p = Mul(x, y) z = Mul(p, s) }"
CONV_BN = """g (float[2,3,9,8] x) => (float[2,4,7,6] z)
<float[4,3,3,3] w, float[4] b, float[4] gamma, float[4] beta, float[4] mean, float[4] var> {
    c = Conv(x, w, b) z = BatchNormalization<epsilon = 0.001>(c, gamma, beta, mean, var) }"""


def with_weights(proto: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """The values that are declared and that no node makes, as constants; what is called var is positive."""
    for info in proto.graph.value_info:
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        array = rng.standard_normal(shape).astype(np.float32)
        array = np.abs(array) + np.float32(0.5) if info.name == "var" else array
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, info.name))
    del proto.graph.value_info[:]
    return proto


def by_onnxruntime(proto: onnx.ModelProto, feeds: dict[str, Array]) -> Array:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    result: Array = session.run(None, feeds)[0]
    return result


@pytest.mark.parametrize(
    ("name", "graph", "ops"),
    [
        ("fused_add_relu", ADD_RELU, {"Add", "Relu"}),
        ("mul_sigmoid", SIGMOID, {"MulSigmoid"}),
        ("mul_sigmoid", SIGMOID_LAST, {"MulSigmoid"}),
        ("fused_conv_bn", CONV_BN, {"Conv"}),
    ],
)
def test_it_computes_what_the_unfused_ops_compute(tmp_path: Path, name: str, graph: str, ops: set[str]) -> None:
    rng = np.random.default_rng(7)
    proto = with_weights(model(graph), rng)
    path = EXAMPLES / f"{name}.py"
    report = atcpy.convert(proto, tmp_path / "m.om", custom_ops=path, oo_level="O2")
    applied = {entry.name: entry.applied for entry in report.passes}
    assert sum(count for pass_name, count in applied.items() if "".join(name.split("_")) in pass_name.lower()) == 1
    session = atcpy.InferenceSession(tmp_path / "m.om", threads=1, custom_ops=path)
    assert {task.op_type for task in session.tasks} - {"TransData", "GraphKernel"} <= ops
    feeds = {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in session.get_inputs()}
    expected = by_onnxruntime(proto, feeds)
    np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-5, atol=1e-5)


def test_mul_sigmoid_is_the_formula_of_the_article(tmp_path: Path) -> None:
    x, y = np.random.default_rng(1).standard_normal((2, 5, 4))
    cls = load("mul_sigmoid").MulSigmoid
    np.testing.assert_allclose(cls.forward(atcpy.OpContext(), x, y), x * y / (1.0 + np.exp(-y)), rtol=1e-14)


def test_fused_conv_bn_is_the_formula_of_the_article() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((2, 3, 6, 5)), rng.standard_normal((4, 3, 3, 2))
    b, gamma, beta, mean = rng.standard_normal((4, 4))
    var, eps = rng.random(4) + 0.1, 1e-5
    scale = gamma / np.sqrt(var + eps)
    shift = beta - mean * scale
    fused_weight, fused_bias = w * scale.reshape(-1, 1, 1, 1), b * scale + shift
    expected = np.zeros((2, 4, 4, 4))
    for n, o, h, v in np.ndindex(expected.shape):
        expected[n, o, h, v] = np.sum(x[n, :, h : h + 3, v : v + 2] * fused_weight[o]) + fused_bias[o]
    actual = load("fused_conv_bn").FusedConvBN.forward(
        atcpy.OpContext({"epsilon": eps}), x, w, b, gamma, beta, mean, var
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
    # … and the same as the normalization behind the convolution.
    conv = (actual - shift.reshape(-1, 1, 1)) / scale.reshape(-1, 1, 1)
    normal = (conv - mean.reshape(-1, 1, 1)) / np.sqrt(var + eps).reshape(-1, 1, 1)
    np.testing.assert_allclose(actual, normal * gamma.reshape(-1, 1, 1) + beta.reshape(-1, 1, 1), rtol=1e-9, atol=1e-9)


def load(name: str) -> ModuleType:
    """An example as a module of this process."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


CASES = {
    "FusedAddReLU": ("fused_add_relu", {}, [(4, 3), (4, 3)]),
    "FusedAddReLU, broadcast": ("fused_add_relu", {}, [(2, 4, 3), (4, 1)]),
    "MulSigmoid": ("mul_sigmoid", {}, [(4, 3), (4, 3)]),
    "FusedConvBN": ("fused_conv_bn", {"epsilon": 1e-5}, [(2, 3, 5, 4), (4, 3, 3, 2), *[(4,)] * 5]),
}


@pytest.mark.parametrize("case", CASES)
def test_its_forms_agree_and_backward_is_the_slope(case: str) -> None:
    name, attrs, shapes = CASES[case]
    cls = getattr(load(name), case.partition(",")[0])
    assert callable(cls.backward)
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    if len(arrays) > 2:
        arrays[-1] = np.abs(arrays[-1]) + np.float32(0.5)  # a variance
    atcpy.check_operator(cls, *arrays, **attrs)


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler on this machine")
def test_the_kernel_in_c(tmp_path: Path) -> None:
    for suffix in ("c", "py"):
        shutil.copy(EXAMPLES / f"clipped_scale.{suffix}", tmp_path)
    command = [str(COMPILER), "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-I", atcpy.include_dir()]
    subprocess.run([*command, "-o", "clipped_scale.so", "clipped_scale.c"], check=True, cwd=tmp_path)
    path = tmp_path / "clipped_scale.py"
    node = "my.dom.ClippedScale<scale = 2.5, limit = 2.0>(a)"
    proto = model(f"g (float[64] x) => (float[64] y) {{ a = Neg(x) b = {node} y = Neg(b) }}")
    report = atcpy.convert(proto, tmp_path / "m.om", custom_ops=path)
    assert (report.engines["AICPU"], report.host_cpu_ops) == (1, ())
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    session = atcpy.InferenceSession(tmp_path / "m.om", custom_ops=path)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.clip(x * np.float32(2.5), -2, 2))
    bad = model("g (float[3] x) => (float[3] y) { y = my.dom.ClippedScale<limit = -1.0>(x) }")
    atcpy.convert(bad, tmp_path / "bad.om", custom_ops=path)
    with pytest.raises(atcpy.errors.AtcError, match="limit = -1 is negative"):
        atcpy.InferenceSession(tmp_path / "bad.om", custom_ops=path).run(None, {"x": x[:3]})
    atcpy.check_operator("ClippedScale", x, scale=2.5)

"""Comparison at the borders of tasks, and the search for the node that errs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import atcpy
from atcpy import InferenceSession
from atcpy.errors import Unsupported
from atcpy.verify.compare import Tolerance
from atcpy.verify.layers import CHUNK, Layers, deviation_of
from atcpy.verify.verification import VerifyReport, verify
from tests.models_in_text import model
from tests.sources import REPO
from tests.verify.planted import plant

DIGITS = REPO / "models" / "digits" / "digits.onnx"
OPEN_NET = """net (float[N,3,12,12] x) => (float[N,4] y)
    <float[16,3,3,3] w, float[16] b, float[16,16,3,3] v, float[16] c, float[16,4] u> {
    [conv1] a = Conv(x, w, b)  [relu1] r = Relu(a)
    [conv2] d = Conv(r, v, c)  [relu2] s = Relu(d)
    [pool] p = GlobalAveragePool(s)  [flat] f = Flatten(p)  [head] y = MatMul(f, u) }"""


def compiled(tmp_path: Path, text: str, name: str = "m") -> Path:
    onnx.save(model(text), tmp_path / f"{name}.onnx")
    atcpy.convert(tmp_path / f"{name}.onnx", tmp_path / f"{name}.om")
    return tmp_path / f"{name}.om"


def layers_of(report: VerifyReport) -> Layers:
    assert report.layers is not None
    return report.layers


def test_all_borders_of_a_right_package_are_compared(tmp_path: Path) -> None:
    atcpy.convert(DIGITS, tmp_path / "digits.om")
    report = verify(tmp_path / "digits.om", DIGITS, layers=True, locate=True)
    layers = layers_of(report)
    session = InferenceSession(tmp_path / "digits.om")
    assert [layer.node for layer in layers.table] == [task.node for task in session.tasks]
    assert all(layer.passed and 0 <= layer.max_abs <= layer.allowed for layer in layers.table)
    assert (layers.compared, layers.uncompared, report.location, report.culprit) == (len(layers.table), 0, None, None)
    # What fusion has left is not among them.
    assert "/stem/conv/Conv_output_0" not in {layer.value for layer in layers.table}


@pytest.mark.parametrize("mode", ["fp16", "mixed_float16", "cube_fp16in_fp32out"])
def test_values_of_lowered_nodes_are_judged_by_their_precision(tmp_path: Path, mode: str) -> None:
    """In memory they are float32 where nothing is rounded between two nodes; constants are rounded nevertheless."""
    atcpy.convert(DIGITS, tmp_path / "digits.om", precision_mode_v2=mode)
    table = layers_of(verify(tmp_path / "digits.om", DIGITS, layers=True)).table
    assert all(layer.passed for layer in table)
    assert any(layer.dtype == "float32" and layer.max_abs > layer.allowed / 20 for layer in table)


@pytest.mark.parametrize("task", [0, 3, 7, 9])
def test_a_wrong_fused_node_is_located(tmp_path: Path, task: int) -> None:
    package = tmp_path / "digits.om"
    atcpy.convert(DIGITS, package)
    index = plant(package, task)
    node = list(InferenceSession(package).model.graph.nodes)[index]
    report = verify(package, DIGITS, layers=True, locate=True)
    culprit = report.culprit
    assert not report.passed
    assert culprit is not None
    assert (culprit.node, culprit.sources, culprit.passes) == (node.name, node.sources, node.passes)
    assert set(node.sources) <= set(culprit.between)
    assert culprit.isolated_error > 100 * culprit.allowed
    assert culprit.inherited_error < culprit.allowed
    assert culprit.passes[0] in culprit.hint
    # Everything behind it is wrong as well, and is not blamed.
    wrong = [layer.value for layer in layers_of(report).table if not layer.passed]
    assert wrong[0] == culprit.value
    assert len(wrong) == 11 - task
    assert all(layer.has_effect for layer in layers_of(report).table if not layer.passed)


@pytest.mark.parametrize("task", [0, 1])
def test_formats_of_plans_for_open_dims_are_found(tmp_path: Path, task: int) -> None:
    package = compiled(tmp_path, OPEN_NET)
    assert all(layer.passed for layer in layers_of(verify(package, layers=True)).table)
    plant(package, task)
    culprit = verify(package, tmp_path / "m.onnx", locate=True).culprit
    assert culprit is not None
    assert culprit.value == ("r", "s")[task]
    assert set(culprit.between) == {f"conv{task + 1}", f"relu{task + 1}"}


@pytest.mark.slow
def test_one_node_of_500_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for number in range(250):  # orthogonal, so that nothing grows or is forgotten
        weights.append(
            numpy_helper.from_array(np.linalg.qr(rng.standard_normal((16, 16)))[0].astype("f4"), f"w{number}")
        )
        nodes.append(helper.make_node("MatMul", [f"s{number}", f"w{number}"], [f"m{number}"], f"matmul{number}"))
        nodes.append(helper.make_node("Abs", [f"m{number}"], [f"s{number + 1}"], f"abs{number}"))
    ports = [helper.make_tensor_value_info(name, 1, [4, 16]) for name in ("s0", "s250")]
    graph = helper.make_graph(nodes, "long", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")
    tasks = InferenceSession(tmp_path / "m.om").tasks
    number = next(number for number, task in enumerate(tasks) if "matmul170" in task.sources)
    plant(tmp_path / "m.om", number, share=1)
    culprit = verify(tmp_path / "m.om", tmp_path / "m.onnx", locate=True).culprit
    assert culprit is not None
    assert culprit.node == tasks[number].node
    assert culprit.between == ("matmul170",)


DRIFT = "drift (float[4,8] x) => (float[4,8] y) <float[8,8] w = {{{}}}> {{ {} }}"


def chain(scale: float, length: int) -> str:
    """Products with a multiple of the identity, which nothing joins."""
    weights = ", ".join(str(scale if row == column else 0) for row in range(8) for column in range(8))
    nodes = "  ".join(f"m{n} = MatMul({'x' if n == 0 else f's{n - 1}'}, w)  s{n} = Abs(m{n})  " for n in range(length))
    return DRIFT.format(weights, f"{nodes} y = Identity(s{length - 1})")


@pytest.mark.parametrize(("length", "passes"), [(2, True), (8, False)])
def test_errors_that_add_up_have_no_culprit(tmp_path: Path, length: int, passes: bool) -> None:
    package = compiled(tmp_path, chain(1, length))
    onnx.save(model(chain(1 + 4e-5, length)), tmp_path / "other.onnx")  # less than half of what one node may err
    report = verify(package, tmp_path / "other.onnx", layers=True, locate=True)
    assert report.passed is passes
    assert report.culprit is None
    if passes:
        assert report.location is None
    else:
        assert report.error is not None
        assert report.error.hint == "--atol and --rtol set what is allowed"
        assert report.location is not None
        assert len(report.location.largest) == 5
        assert all(layer.passed for layer in report.location.largest)
        assert not layers_of(report).table[-1].passed


REWRITTEN = """logs (float[4,8] x) => (float[4,8] y) <float[8,8] w, float[8,8] u> {{
    s = Softmax(x)  {}, w)  t = Softmax(q)  y = MatMul(t, u) }}"""
AS_IS = REWRITTEN.format("v = Softmax(s)  q = MatMul(v")
OTHERWISE = REWRITTEN.format("v = LogSoftmax(s)  e = Exp(v)  q = MatMul(e")


@pytest.mark.parametrize(("number", "value"), [(0, "q"), (1, "y")], ids=["next to it", "behind it"])
def test_a_value_that_is_computed_otherwise_is_not_blamed(tmp_path: Path, number: int, value: str) -> None:
    """The package has the logarithm of the model's value `v`, and computes the same outputs."""
    package = compiled(tmp_path, OTHERWISE)
    onnx.save(model(AS_IS), tmp_path / "as_is.onnx")
    report = verify(package, tmp_path / "as_is.onnx", layers=True)
    assert report.passed
    [layer] = [layer for layer in layers_of(report).table if layer.value == "v"]
    assert (layer.passed, layer.has_effect) == (False, False)
    products = [i for i, task in enumerate(InferenceSession(package).tasks) if "MatMul" in task.op_type]
    plant(package, products[number], factor=5)
    found = verify(package, tmp_path / "as_is.onnx", locate=True)
    assert found.culprit is not None
    assert found.culprit.value == value
    assert found.location is not None
    assert found.location.rewritten == ("v",)


def test_an_error_of_the_oracle_is_not_blamed(tmp_path: Path) -> None:
    """ONNX Runtime's Sigmoid is exact to 1e-7 of one, not of its result."""
    text = """far (float[4,8] x) => (float[4,8] y, float[4,8] z) <float[8,8] w> {
        y = Sigmoid(x)  s = Softmax(x)  z = MatMul(s, w) }"""
    package = compiled(tmp_path, text)
    tasks = InferenceSession(package).tasks
    plant(package, next(number for number, task in enumerate(tasks) if "MatMul" in task.op_type))
    feeds = {"x": -np.linspace(15.5, 18, 32, dtype=np.float32).reshape(4, 8)}
    report = verify(package, tmp_path / "m.onnx", feeds=feeds, layers=True, locate=True)
    assert [layer.value for layer in layers_of(report).table if not layer.passed] == ["y", "z"]
    assert report.culprit is not None
    assert report.culprit.value == "z"


def test_values_are_dropped_once_they_are_compared(tmp_path: Path) -> None:
    nodes = "  ".join(f"s{n} = Softmax({'x' if n == 0 else f's{n - 1}'})" for n in range(40))
    package = compiled(tmp_path, f"long (float[64,256] x) => (float[64,256] y) {{ {nodes}  y = Softmax(s39) }}")
    layers = layers_of(verify(package, layers=True))
    assert layers.compared == 41
    assert layers.peak_bytes <= 3 * 64 * 256 * 4


@pytest.mark.slow
def test_a_gigabyte_of_values_under_300_megabytes(tmp_path: Path) -> None:
    size = 8 << 20  # 32 MB a value
    count = 32
    nodes = "  ".join(f"s{n} = Softmax({'x' if n == 0 else f's{n - 1}'})" for n in range(count))
    text = f"big (float[4096,{size // 4096}] x) => (float[1,1] y) {{ {nodes}  y = ReduceMax(s{count - 1}) }}"
    package = compiled(tmp_path, text)
    command = [
        sys.executable,
        "-m",
        "atcpy",
        "verify",
        str(package),
        "--layers",
        "--memory_limit",
        "300M",
        "--threads=1",
    ]
    ran = subprocess.run([*command, "--json"], cwd=REPO, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert f'"compared":{count + 1}' in ran.stdout.replace(" ", "")


@pytest.mark.parametrize(("error", "passed"), [(0.9e-4, True), (1.1e-4, False)])
def test_both_sides_of_the_bound_in_the_last_of_several_chunks(error: float, passed: bool) -> None:
    expected = np.ones(CHUNK + 1, np.float32)
    actual = expected.copy()
    actual[-1] += error
    deviation = deviation_of(actual, expected, Tolerance(), None)
    assert deviation.passed is passed
    assert deviation.max_abs == pytest.approx(error, rel=1e-3)
    assert deviation.cosine == pytest.approx(1)


def test_infinities_and_nan_are_compared() -> None:
    expected = np.array([1, np.nan, np.inf], np.float32)
    assert deviation_of(expected.copy(), expected, Tolerance(), None).passed
    other = deviation_of(np.array([1, np.nan, 5], np.float32), expected, Tolerance(), None)
    assert (other.passed, other.max_abs, other.nan) == (False, np.inf, 1)
    whole = np.array([1 << 60], np.int64)
    assert not deviation_of(whole + 1, whole, Tolerance(), None).passed
    assert deviation_of(np.zeros((0,), np.float32), np.zeros((0,), np.float32), Tolerance(), None).passed


def test_packages_that_repeat_their_model_are_refused(tmp_path: Path) -> None:
    onnx.save(model("g (float[2] x) => (float[2] y) { y = Neg(x) }"), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om", iterations_per_loop=3)
    with pytest.raises(Unsupported) as caught:
        verify(tmp_path / "m.om", layers=True)
    assert caught.value.code == "E10055"

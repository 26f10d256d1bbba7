"""The two nets of MindSpore's articles on graph kernels: one task each, the second across its own op's border."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import atcpy
from atcpy.cli.app import execute
from atcpy.ir.tensor import Array

MY_NET = """<ir_version: 10, opset_import: ["" : 21]>
MyNet (float[4,4] x) => (float[4,4] res) <float two = {2}, float one = {1}> {
  a = Mul(x, two)
  res = Add(a, one)
}"""
MY_OP = """<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
MyNet (float[4,4] x, float[4,4] y) => (float[4,4] res) <float two = {2}, float three = {3}> {
  a = Mul(x, two)
  b = Pow(a, three)
  res = my.MyOp(b, y)
}
<domain: "my", opset_import: ["" : 21]>
MyOp (x, y) => (r) {
  a = Sub(x, y)
  r = Mul(a, x)
}"""
X, Y = np.full((4, 4), 0.2, np.float32), np.full((4, 4), 0.3, np.float32)


@pytest.mark.parametrize(
    ("text", "feeds", "expected", "before"),
    [
        (MY_NET, {"x": np.full((4, 4), 0.5, np.float32)}, 2.0, ["Mul", "Add"]),
        (MY_OP, {"x": X, "y": Y}, -0.015104, ["Mul", "Pow", "Sub", "Mul"]),
    ],
    ids=["my_net", "my_op"],
)
def test_a_net_of_elementwise_ops_is_one_task(
    text: str, feeds: dict[str, Array], expected: float, before: list[str], tmp_path: Path
) -> None:
    model = parser.parse_model(text)
    onnx.save(model, tmp_path / "net.onnx")
    results = []
    for name, *options in (("O2",), ("O0", "--oo_level", "O0")):
        package = tmp_path / f"{name}.om"
        dump = ["--dump_graph", str(tmp_path / name)]
        assert execute(["convert", "-m", str(tmp_path / "net.onnx"), "-o", str(package), *dump, *options]) == 0
        session = atcpy.InferenceSession(package)
        results.append(session.run(None, feeds)[0])
    fused, unfused = results
    np.testing.assert_allclose(fused, np.full((4, 4), expected, np.float32), rtol=1e-6)
    np.testing.assert_array_equal(fused, unfused)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(fused, runtime.run(None, feeds)[0], rtol=1e-6)
    assert ops_in(tmp_path / "O0", "PreRunAfterOptimizeSubgraph") == before
    assert ops_in(tmp_path / "O2", "PreRunAfterPrepare") == before
    kernel, *body = ops_in(tmp_path / "O2", "PreRunAfterOptimizeSubgraph")
    assert (kernel, body) == ("GraphKernel", before)


def ops_in(directory: Path, stage: str) -> list[str]:
    """The ops of a dump, those of bodies behind."""
    (path,) = directory.glob(f"*{stage}.txt")
    lines = (line.split(" = ", 1)[1] for line in path.read_text(encoding="utf-8").splitlines() if " = " in line)
    ops = [line.partition("(")[0] for line in lines]
    return [op for op in ops if op not in {"Data", "Const"}]


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ([], 1),
        (["--no_enable_graph_kernel"], 2),
        (["--oo_level", "O1"], 2),
        (["--oo_level", "O1", "--enable_graph_kernel"], 1),
        (["--skip_pass", "GraphKernelFusionPass"], 2),
    ],
    ids=["default", "off", "O1", "on at O1", "skipped"],
)
def test_the_option_turns_it_on_and_off(
    options: list[str], tasks: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(parser.parse_model(MY_NET), tmp_path / "net.onnx")
    arguments = ["convert", "--json", "-m", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.om"), *options]
    assert execute(arguments) == 0
    assert json.loads(capsys.readouterr().out)["result"]["task_count"] == tasks

"""`atcpy optimize`: what it keeps, what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from .conftest import MODEL, Invoke

FOLDED = """<ir_version: 8, opset_import: ["" : 13]>
g (float[N,4] x) => (float[N,4] y)
<float[4] b = {1, 2, 3, 4}> {
  c = Constant<value = float[4] {1, 1, 1, 1}>()
  d = Add(b, c)
  e = Identity(x)
  y = Add(e, d)
}"""


@pytest.fixture
def folded(tmp_path: Path) -> Path:
    path = tmp_path / "folded.onnx"
    onnx.save(onnx.parser.parse_model(FOLDED), path)
    return path


def test_what_it_says_and_writes(invoke: Invoke, folded: Path) -> None:
    target = folded.with_name("small.onnx")
    ran = invoke("optimize", folded, target)
    assert (ran.code, ran.err) == (0, "")
    first, second, *_ = ran.out.splitlines()
    assert first.startswith(f"{target}  ")
    assert "opset 13  verified in onnxruntime 1." in first
    assert second.endswith("3 nodes → 1 node")
    optimized = onnx.load(target)
    assert [node.op_type for node in optimized.graph.node] == ["Add"]
    assert optimized.graph.input == onnx.load(folded).graph.input
    assert np.array_equal(onnx.numpy_helper.to_array(optimized.graph.initializer[0]), [2, 3, 4, 5])


def test_json(invoke: Invoke, folded: Path) -> None:
    envelope = invoke("optimize", folded, "-o", folded.with_name("small.onnx"), "--json").envelope
    assert envelope["schema"] == "atcpy.optimize/1"
    result = envelope["result"]
    assert result["before"]["nodes"] == 3
    assert result["after"] == {"nodes": 1, "bytes": result["after"]["bytes"], "ops": {"Add": 1}}
    assert result["verified"] is True
    assert {"ConstantFoldingPass", "IdentityPass"} <= {entry["name"] for entry in result["applied"]}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "E10054"),
        (("a.onnx", "-o", "b.onnx"), "E10047"),
        (("a.onnx", "--skip", "NoSuchPass"), "E10016"),
        (("a.onnx", "--passes", "ExpandPass"), "E10001"),
        (("a.onnx", "--keep", "nobody"), "E10016"),
    ],
)
def test_what_it_refuses(invoke: Invoke, folded: Path, arguments: tuple[str, ...], code: str) -> None:
    assert code in invoke("optimize", folded, *arguments).err


def test_a_model_without_anything_to_do(invoke: Invoke, tmp_path: Path) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "n.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), source)
    assert invoke("optimize", source, target).code == 0
    assert [node.op_type for node in onnx.load(target).graph.node] == ["MatMul"]

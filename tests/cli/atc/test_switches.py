"""Options of ATC that switch one optimisation on or off, by what they change in the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from atcpy import InferenceSession
from tests.cli.conftest import Invoke

CONSTANTS = """<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y)
<float[3] a = {1, 2, 3}, int64 axis = {0}> {
    [sums] c = CumSum(a, axis)
    [product] y = Mul(x, c)
}"""
QUANTISED = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,4] x) => (float[2,3] y)
<float scale = {0.5}, int8 zero = {0},
 int8[4,3] w = {1, -2, 3, 4, 5, -6, 7, 8, -9, 10, 11, 12}> {
    q = QuantizeLinear(x, scale, zero)
    d = DequantizeLinear(q, scale, zero)
    e = DequantizeLinear(w, scale, zero)
    [product] m = MatMul(d, e)
    r = QuantizeLinear(m, scale, zero)
    y = DequantizeLinear(r, scale, zero)
}"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ops(invoke: Invoke, text: str, *options: str) -> list[str]:
    """The operators of the package's nodes."""
    onnx.save(parser.parse_model(text), "m.onnx")
    ran = invoke("atc", "--model=m.onnx", "--framework=5", "--output=m", "--soc_version=Ascend310P3", *options)
    assert ran.code == 0, ran.out
    shown = invoke("inspect", "m.om", "--nodes", "--json")
    return [node["op"] for node in shown.envelope["result"]["nodes"]]


def test_constants_are_folded_unless_it_is_switched_off(invoke: Invoke) -> None:
    x = np.float32([1, -2, 0.5])
    off = "--oo_constant_folding=false"
    for options, has_sums in (([], False), (["--oo_constant_folding=true"], False), ([off], True)):
        assert ("CumSum" in ops(invoke, CONSTANTS, *options)) is has_sums
        [y] = InferenceSession("m.om").run(None, {"x": x})
        np.testing.assert_array_equal(y, x * np.float32([1, 3, 6]))


def test_what_quantises_is_fused_unless_it_is_to_be_dumped(invoke: Invoke) -> None:
    x = np.float32([[1, -2, 0.5, 3], [0, 1.5, 2, -1]])
    weights = np.float32([1, -2, 3, 4, 5, -6, 7, 8, -9, 10, 11, 12]).reshape(4, 3) / 2
    for options, are_kept in (([], False), (["--quant_dumpable=0"], False), (["--quant_dumpable=1"], True)):
        found = ops(invoke, QUANTISED, *options)
        assert ("DequantizeLinear" in found and "MatMul" in found) is are_kept
        [y] = InferenceSession("m.om").run(None, {"x": x})
        np.testing.assert_array_equal(y, np.rint(x @ weights * 2) / 2)


BRANCHES = """<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) {
    t = Constant<value = bool {1}>()
    y = If(t) <then_branch = th () => (float[3] u) { u = Neg(x) }, else_branch = el () => (float[3] v) { v = Abs(x) }>
}"""


def test_dead_branches_are_removed_unless_it_is_switched_off(invoke: Invoke) -> None:
    x = np.float32([1, -2, 0.5])
    off = "--oo_dead_code_elimination=false"
    for options, has_if in (([], False), (["--oo_dead_code_elimination=true"], False), ([off], True)):
        assert ("If" in ops(invoke, BRANCHES, *options)) is has_if
        [y] = InferenceSession("m.om").run(None, {"x": x})
        np.testing.assert_array_equal(y, -x)


def test_the_original_model_is_written_beside_it(invoke: Invoke) -> None:
    assert "CumSum" not in ops(invoke, CONSTANTS, "--save_original_model=false")
    assert not Path("m_original.om").exists()
    ops(invoke, CONSTANTS, "--save_original_model=true", "--precision_mode=force_fp16", "--input_shape=x:3")
    shown = invoke("inspect", "m_original.om", "--all").out
    assert "CumSum" in shown
    assert "--precision_mode" not in shown
    assert "--input_shape=x:3" in shown
    [y] = InferenceSession("m_original.om").run(None, {"x": np.float32([1, -2, 0.5])})
    np.testing.assert_array_equal(y, np.float32([1, -6, 3]))


def test_the_environment_names_results_that_share_no_memory(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    for names in ("", "product"):
        monkeypatch.setenv("OP_NO_REUSE_MEM", names)
        ops(invoke, CONSTANTS)
        assert ("--no_reuse_mem=product" in invoke("atc", "--mode=6", "--om=m.om").out) is (names != "")

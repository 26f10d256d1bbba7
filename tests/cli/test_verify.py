import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from .conftest import MODEL, Invoke


def test_the_layout_of_the_verdict(invoke: Invoke, package: Path, model: Path) -> None:
    ran = invoke("verify", package)
    assert (ran.code, ran.err) == (0, "")
    oracle, output, verdict = ran.out.splitlines()
    assert oracle.startswith("oracle   onnxruntime 1.")
    assert oracle.endswith(f"inputs random:0   against {model}")
    assert output.startswith("output   y   float32  max abs ")
    assert "cosine 1.000000   ok (atol " in output
    assert verdict == "PASS"


def test_json_of_the_verdict(invoke: Invoke, package: Path, model: Path) -> None:
    result = invoke("verify", package, "--against", model, "--oracle", "ref", "--json").envelope["result"]
    assert result["passed"] is True
    assert result["oracle"].startswith("onnx 1.")
    [output] = result["outputs"]
    keys = {
        "name",
        "dtype",
        "max_abs",
        "max_rel",
        "cosine",
        "ulp",
        "nan",
        "inf",
        "argmax_changed",
        "atol",
        "rtol",
        "passed",
    }
    assert keys <= set(output)


def test_another_model_fails_with_5(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL.replace("{1, 0, 0, 2,", "{1, 0, 0, 9,")), tmp_path / "other.onnx")
    ran = invoke("verify", package, "--against", tmp_path / "other.onnx")
    assert ran.code == 5
    assert ran.out.endswith("FAIL\n")
    assert "note: " in ran.err
    assert 'error[V0001] output "y" differs by ' in ran.err
    envelope = invoke("verify", package, "--against", tmp_path / "other.onnx", "--json").envelope
    assert (envelope["ok"], envelope["result"]["passed"], envelope["result"]["same_source"]) == (False, False, False)


def test_the_model_beside_the_package_must_be_the_recorded_one(
    invoke: Invoke, package: Path, model: Path, tmp_path: Path
) -> None:
    shutil.copy(package, tmp_path / "m.om")
    ran = invoke("verify", tmp_path / "m.om")
    assert ran.code == 2
    assert "there is no m.onnx beside" in ran.err
    assert "--against" in ran.err
    (tmp_path / "m.onnx").write_bytes(model.read_bytes() + b"\x1a\x01 ")
    assert "is not the file that m.om was made from" in invoke("verify", tmp_path / "m.om").err
    shutil.copy(model, tmp_path / "m.onnx")
    assert invoke("verify", tmp_path / "m.om").code == 0


def test_given_inputs_and_tolerances_count(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.full((2, 3), np.nan, np.float32))
    ran = invoke("verify", package, "--input-data", tmp_path / "in.npz", "--atol", "1e-9", "--rtol", "1e-6")
    assert ran.code == 0  # NaN on both sides is equal
    assert "inputs given" in ran.out
    assert "ok (atol 1.0e-09, rtol 1e-06)" in ran.out
    assert invoke("verify", package, "--oracle", "gpu").code == 2


def test_a_model_with_other_inputs_is_no_model_of_this_package(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL.replace("x)", "z)").replace("x, w", "z, w")), tmp_path / "other.onnx")
    ran = invoke("verify", package, "--against", tmp_path / "other.onnx")
    assert ran.code == 2
    assert 'has an input "z" that the package has not' in ran.err


def test_layers_and_the_culprit_of_a_failing_package(
    invoke: Invoke, package: Path, model: Path, tmp_path: Path
) -> None:
    ran = invoke("verify", package, "--layers", "--locate")
    assert ran.code == 0
    assert "layers   1 value compared" in ran.out
    assert "culprit" not in ran.out
    onnx.save(onnx.parser.parse_model(MODEL.replace("{1, 0, 0, 2,", "{1, 0, 0, 9,")), tmp_path / "other.onnx")
    ran = invoke("verify", package, "--against", tmp_path / "other.onnx", "--locate")
    assert ran.code == 5
    assert "culprit  " in ran.out
    assert "value y" in ran.out
    assert "  help: atcpy passes bisect M.onnx finds the pass" in ran.err
    ran = invoke("verify", package, "--against", tmp_path / "other.onnx")
    assert "  help: atcpy verify F.om --locate finds the node that errs, atcpy passes bisect M.onnx the pass" in ran.err
    result = invoke("verify", package, "--against", tmp_path / "other.onnx", "--locate", "--json").envelope["result"]
    assert result["culprit"]["value"] == "y"
    assert result["culprit"]["isolated_error"] > result["culprit"]["allowed"]
    assert (result["layers"]["compared"], result["location"]["rewritten"]) == (1, [])
    plain = invoke("verify", package, "--json").envelope["result"]
    assert (plain["layers"], plain["location"], plain["culprit"]) == (None, None, None)


def test_values_that_differ_without_an_effect_are_counted(invoke: Invoke, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> logs (float[4,8] x) => (float[4,8] y) {{
        s = Softmax(x)  {}  y = Softmax(q) }}"""
    as_is = text.format("v = Softmax(s)  q = Neg(v)")
    otherwise = text.format("v = LogSoftmax(s)  e = Exp(v)  q = Neg(e)")
    for name, content in (("as_is", as_is), ("otherwise", otherwise)):
        onnx.save(onnx.parser.parse_model(content), tmp_path / f"{name}.onnx")
    package = tmp_path / "otherwise.om"
    assert invoke("convert", tmp_path / "otherwise.onnx", "-o", package, "-q").code == 0
    for model, count in (("as_is", 1), ("otherwise", 0)):
        ran = invoke("verify", package, "--against", tmp_path / f"{model}.onnx", "--layers")
        assert ran.code == 0
        assert ("differ without an effect, by rounding or by a rewrite: 1" in ran.out) == (count == 1)


@pytest.mark.slow
def test_the_nodes_to_keep_are_written_and_proved(invoke: Invoke, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
        net (float[4,2] x) => (float[4,2] y) <float[2,2] w = {9e4, 1, 1, 9e4}>
        { [act] a = Softmax(x)  [large] b = MatMul(a, w)  [last] c = Sqrt(b)  [half] y = Neg(c) }"""
    path, package, file = tmp_path / "f.onnx", tmp_path / "f.om", tmp_path / "keep.cfg"
    onnx.save(onnx.parser.parse_model(text), path)
    convert = ("convert", path, "-o", package, "--precision_mode_v2=fp16", "-q")
    assert invoke(*convert).code == 0
    ran = invoke("verify", package, "--locate", "--suggest", file)
    assert ran.code == 5
    assert f"   keep {len(file.read_text().split())} " in ran.out.replace("suggest  ", "   ")
    assert "proof    converted with it, " in ran.out
    assert f"help     atcpy convert M.onnx … --keep_dtype={file}" in ran.out
    assert "--keep-fp32=" in ran.out
    assert f"  help: convert it with --keep_dtype={file}" in ran.err
    ran = invoke("verify", package)
    assert "--locate finds the node that errs, atcpy verify F.om --suggest KEEP.cfg the nodes to keep" in ran.err
    suggestion = invoke("verify", package, "--suggest", file, "--json").envelope["result"]["suggestion"]
    assert suggestion["outcome"] == "found"
    assert all(output["passed"] for output in suggestion["outputs"])
    assert [node["node"] for node in suggestion["kept"]]
    assert invoke(*convert, "--keep_dtype", file).code == 0
    ran = invoke("verify", package, "--suggest", tmp_path / "none.cfg")
    assert (ran.code, (tmp_path / "none.cfg").exists()) == (0, False)
    assert "suggest  nothing to keep" in ran.out

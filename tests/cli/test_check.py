from pathlib import Path

import numpy as np
import onnx
import pytest

from .conftest import Invoke


def save(path: Path, text: str) -> Path:
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def test_a_good_model_has_no_problems(invoke: Invoke, model: Path) -> None:
    ran = invoke("check", model, "--list-ops")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "no problems; 1 op type, 1 node\n\nop      count  engine\nMatMul      1  AIcoreEngine\n"


def test_all_problems_come_at_once_grouped_by_cause(invoke: Invoke, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[2] x) => (float[2] y)
              { a = my.FindMax(x)  b = my.FindMax(a)  c = NoSuchOp(b)  y = Add(b, c) }"""
    path = save(tmp_path / "m.onnx", text)
    ran = invoke("check", path)
    assert ran.code == 4
    head, *rows = ran.out.splitlines()
    assert head.startswith("3 errors; 2 causes")
    assert [row.split()[:2] for row in rows] == [["error", "E19010"], ["error", "E19010"]]
    assert "FindMax ×2" in rows[0]
    assert ran.err == f"error[E19010] {path} cannot be converted: {head}\n"
    envelope = invoke("check", path, "--json").envelope
    assert (envelope["ok"], envelope["exit_code"]) == (False, 4)
    problems = envelope["result"]["problems"]
    assert [problem["count"] for problem in problems] == [2, 1]
    assert {problem["level"] for problem in problems} == {"error"}
    assert list(problems[0]) == ["level", "code", "op", "count", "nodes", "message", "hint"]


def test_ops_without_a_kernel_are_told(invoke: Invoke, tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,2] x) => (float[1,4,2] y) { y = DFT<inverse = 1>(x) }'
    ran = invoke("check", save(tmp_path / "m.onnx", text))
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "1 warning; 1 cause; 1 op type, 1 node"
    assert "W0020" in ran.out
    assert "runs on HOST_CPU" in ran.out
    problems = invoke("check", tmp_path / "m.onnx", "--json").envelope["result"]["problems"]
    assert [(p["level"], p["op"], p["count"]) for p in problems] == [("host_cpu", "DFT", 1)]


def test_warnings_of_convert_go_to_stderr_and_werror_makes_errors_of_them(invoke: Invoke, tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,2] x) => (float[1,4,2] y) { y = DFT<inverse = 1>(x) }'
    path = save(tmp_path / "m.onnx", text)
    ran = invoke("convert", "--model", path, "-o", tmp_path / "m")
    assert ran.code == 0
    assert "  host_cpu   DFT 1 " in ran.out
    assert ran.err.startswith("warning[W0020] ")
    ran = invoke("convert", "--model", path, "-o", tmp_path / "n", "--werror")
    assert ran.code == 4
    assert ran.err.startswith("error[W0020] ")
    warnings = invoke("convert", "--model", path, "-o", tmp_path / "m", "--json").envelope["warnings"]
    assert [warning["code"] for warning in warnings] == ["W0020"]


def test_a_wrong_file_is_called_by_its_name(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "page.onnx").write_text("<!DOCTYPE html><html><body>Not found</body></html>")
    ran = invoke("check", tmp_path / "page.onnx")
    assert ran.code == 3
    assert "E10041" in ran.err
    assert "web page" in ran.out


PRODUCTS = """<ir_version: 10, opset_import: ["" : 21]> g (float[1,2] x) => (float[1,1] y)
              <float[2,2] w = {1, 1, 1, 1}, float[2,1] v = {1, 0}> {
              [first] a = MatMul(x, w)  [act] r = Softmax(a)  [second] y = MatMul(r, v) }"""


def test_what_a_precision_mode_would_lower_and_how_large_its_values_are(invoke: Invoke, tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", PRODUCTS)
    np.savez(tmp_path / "in.npz", x=np.array([[60000, 10000]], np.float32))
    ran = invoke("check", path, "--precision_mode_v2=mixed_float16", "--input_data", tmp_path / "in.npz")
    assert ran.code == 0
    assert "W0021" in ran.out.splitlines()[1]
    assert "--keep-fp32 first" in ran.out.splitlines()[1]
    assert "mixed_float16: 2 nodes would be lowered\n  1 node kept: on-black-list\n" in ran.out
    arguments = ("--precision_mode_v2=mixed_float16", "--input-data", tmp_path / "in.npz", "--json")
    preview = invoke("check", path, *arguments).envelope["result"]["precision"]
    assert (preview["lowered"], preview["kept"]) == (["first", "second"], ["act"])
    assert preview["kept_types"] == [{"reason": "on-black-list", "count": 1}]
    ranges = [(each["value"], each["node"], each["largest"]) for each in preview["ranges"]]
    assert ranges == [("a", "first", 70000.0), ("x", "first", 60000.0), ("r", "second", 0.5), ("y", "second", 0.5)]
    assert preview["ranges"][0]["share"] == pytest.approx(70000 / 65504)
    kept = invoke("check", path, *arguments, "--keep-fp32=first").envelope["result"]
    assert kept["precision"]["lowered"] == ["second"]
    assert kept["problems"] == []


def test_the_range_of_bfloat16_is_that_of_float32(invoke: Invoke, tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", PRODUCTS)
    np.savez(tmp_path / "in.npz", x=np.array([[60000, 10000]], np.float32))
    ran = invoke("check", path, "--precision_mode_v2=mixed_bfloat16", "--input_data", tmp_path / "in.npz", "--json")
    result = ran.envelope["result"]
    assert result["problems"] == []
    assert result["precision"]["ranges"][0]["share"] < 1e-30


def test_weights_that_a_mode_would_clip_are_told(invoke: Invoke, tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", PRODUCTS.replace("v = {1, 0}", "v = {100000, 0}"))
    ran = invoke("check", path, "--precision_mode_v2=fp16", "--json")
    assert [problem["code"] for problem in ran.envelope["result"]["problems"]] == ["W0021"]
    assert ran.envelope["result"]["precision"]["clipped"] == ["v"]


def test_inputs_are_for_a_mode_that_lowers_nodes(invoke: Invoke, tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", PRODUCTS)
    np.savez(tmp_path / "in.npz", x=np.zeros((1, 2), np.float32))
    ran = invoke("check", path, "--input_data", tmp_path / "in.npz")
    assert ran.code == 2
    assert "--precision_mode_v2=fp16" in ran.err
    assert "would be" not in invoke("check", path).out


def test_a_name_that_no_node_has_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    ran = invoke("check", save(tmp_path / "m.onnx", PRODUCTS), "--precision_mode_v2=fp16", "--keep-fp32=frist")
    assert (ran.code, ran.err.splitlines()[0][:13]) == (2, "error[E10016]")
    assert '"first"' in ran.err

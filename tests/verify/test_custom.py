"""Custom operators in the reference evaluator: `forward` is the oracle where ONNX Runtime cannot run the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.ops.custom import CustomOps, load_custom_ops
from atcpy.options import read_custom_ops
from atcpy.verify.verification import VerifyReport, verify
from tests.ops.custom.models import DOUBLE, ONE_NODE, double, model, module

pytestmark = pytest.mark.usefixtures("no_custom_ops")
FUNCTION = '<domain: "my.dom", opset_import: ["": 21, "my.dom": 1]> Twice (x) => (y) { y = my.dom.Double(x) }'
TWICE = "g (float[2,3] x) => (float[2,3] y) { a = Abs(x) b = my.dom.Twice(a) y = Neg(b) }"


def verified(folder: Path, proto: onnx.ModelProto, text: str = DOUBLE) -> VerifyReport:
    ops = module(folder, text)
    onnx.save(proto, folder / "m.onnx")
    atcpy.convert(folder / "m.onnx", folder / "m.om", custom_ops=ops)
    return verify(folder / "m.om", custom=custom(ops))


def custom(path: Path) -> CustomOps:
    return load_custom_ops(read_custom_ops("custom_ops", path))


@pytest.mark.parametrize("domain", ["my.dom.", "", "com.microsoft."])
def test_a_node_is_computed_by_forward(tmp_path: Path, domain: str) -> None:
    text = ONE_NODE.replace("my.dom.", domain)
    report = verified(tmp_path, model(text, '"": 21, "my.dom": 1'))
    assert report.passed
    assert report.oracle.endswith("reference evaluator + Double.forward")


def test_a_node_in_a_function_of_the_model(tmp_path: Path) -> None:
    assert verified(tmp_path, model(TWICE, functions=FUNCTION)).passed


def test_a_node_in_a_body(tmp_path: Path) -> None:
    then = "then_branch = t () => (float[2,3] o) { o = my.dom.Double(x) }"
    other = "else_branch = e () => (float[2,3] p) { p = Neg(x) }"
    text = f"g (float[2,3] x, bool c) => (float[2,3] y) {{ y = If<{then}, {other}>(c) }}"
    assert verified(tmp_path, model(text)).passed


def test_a_model_local_function_takes_precedence_as_oracle(tmp_path: Path) -> None:
    function = '<domain: "my.dom", opset_import: ["": 21]> Double (x) => (y) { y = Add(x, x) }'
    report = verified(tmp_path, model(ONE_NODE, functions=function))
    assert report.passed
    assert report.oracle.startswith("onnxruntime")


def test_a_model_local_function_that_disagrees_fails(tmp_path: Path) -> None:
    function = '<domain: "my.dom", opset_import: ["": 21]> Double (x) => (y) { y = Neg(x) }'
    assert not verified(tmp_path, model(ONE_NODE, functions=function)).passed
    assert not verify(tmp_path / "m.om", oracle="ref", custom=custom(tmp_path / "my_ops.py")).passed


def test_a_wrong_decomposition_fails(tmp_path: Path) -> None:
    report = verified(tmp_path, model(ONE_NODE), double(decompose="return ctx.Mul(x, 2.5)"))
    assert not report.passed
    assert report.error is not None
    assert report.error.code == "V0001"


def test_forward_receives_the_attributes(tmp_path: Path) -> None:
    body = "return x * np.float32(ctx.attrs['f']) * np.float32(ctx.attrs['t'].sum()) * len(ctx.attrs['s'])"
    text = 'g (float[2,3] x) => (float[2,3] y) { y = my.dom.Double<f = 0.5, t = float[2] {1, 2}, s = "abc">(x) }'
    assert verified(tmp_path, model(text), double(forward=body)).passed


def test_the_oracle_reports_an_exception_in_forward(tmp_path: Path) -> None:
    with pytest.raises(atcpy.errors.AtcError, match=r"C0001.*not mine"):
        verified(tmp_path, model(ONE_NODE), double(forward="raise ValueError('not mine')"))


def test_the_float64_arbiter_runs_forward(tmp_path: Path) -> None:
    from atcpy.verify.float64 import evaluate_in_float64

    exact = evaluate_in_float64(model(ONE_NODE), {"x": np.full((2, 3), 0.1, np.float32)}, custom(module(tmp_path)))
    assert exact is not None
    assert exact["y"].dtype == np.float64

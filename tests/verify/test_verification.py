from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.errors import UsageError
from atcpy.ir import DType, Source
from atcpy.verify.compare import Tolerance
from atcpy.verify.inputs import Fill
from atcpy.verify.oracle import Oracle
from atcpy.verify.verification import find_model, verify

MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,2] y)
  { w = Constant<value = float[3,2] {1, 2, 3, 4, 5, 6}>()  y = MatMul(x, w) }"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")
    return tmp_path / "m.om"


def test_a_correct_package_passes(package: Path) -> None:
    report = verify(package)
    assert (report.passed, report.error, report.inputs, report.same_source) == (True, None, "random:0", True)


def test_feeds_may_be_passed_or_generated(package: Path) -> None:
    assert verify(package, feeds={"x": np.ones((2, 3), np.float32)}).inputs == "given"
    assert verify(package, fill=Fill("random", 3)).inputs == "random:3"


def test_a_package_of_another_model_fails(package: Path, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(MODEL.replace("{1, 2,", "{1, 3,")), tmp_path / "other.onnx")
    report = verify(package, tmp_path / "other.onnx")
    assert not report.passed
    assert report.error is not None
    assert (report.error.code, report.error.exit_code) == ("V0001", 5)


FEEDS = {"x": np.array([[1, 0, 0], [0, 1, 0]], np.float32)}


@pytest.mark.parametrize(
    ("tolerance", "passed"),
    [
        (Tolerance(), True),
        (Tolerance(atol=0.05), False),
        (Tolerance(atol=0.0, rtol=0.001), False),
        (Tolerance(rtol=0.001), False),
        (Tolerance(cosine=0.9999), False),
        (Tolerance(atol=0.2), True),
        (Tolerance(rtol=0.2), True),
        (Tolerance(atol=0.2, cosine=0.99), True),
        (Tolerance(by_type={DType.FLOAT32: (0.05, 0.0)}), False),
        (Tolerance(by_type={DType.FLOAT32: (0.2, 0.0)}), True),
        (Tolerance(by_type={DType.FLOAT16: (0.05, 0.0)}), True),
    ],
    ids=str,
)
def test_the_float64_arbiter_is_used_only_without_an_explicit_tolerance(
    package: Path, tolerance: Tolerance, passed: bool
) -> None:
    exact = np.array([[1, 2], [3, 4]], np.float64)
    off = (exact + np.array([[0.1, -0.1], [0, 0]])).astype(
        np.float32
    )  # an oracle that is less accurate than the package
    judge = Oracle("off", lambda *_: [off], lambda *_: [off], lambda _: {"y": exact})
    report = verify(package, feeds=FEEDS, tolerance=tolerance, find=lambda *_: judge)
    assert report.passed is passed
    assert report.outputs[0].arbitrated is not tolerance.is_of_user(DType.FLOAT32)


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.FLOAT32])
def test_a_tolerance_of_float16_is_explicit_for_a_float32_output_that_was_lowered(
    package: Path, tmp_path: Path, dtype: DType
) -> None:
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "half.om", precision_mode_v2="fp16")
    exact = np.array([[1, 2], [3, 4]], np.float64)
    off = (exact + np.array([[0.1, -0.1], [0, 0]])).astype(np.float32)
    judge = Oracle("off", lambda *_: [off], lambda *_: [off], lambda _: {"y": exact})
    tolerance = Tolerance(by_type={dtype: (0.05, 0.0)})
    report = verify(tmp_path / "half.om", tmp_path / "m.onnx", feeds=FEEDS, tolerance=tolerance, find=lambda *_: judge)
    assert report.outputs[0].dtype == "float32"
    assert report.outputs[0].arbitrated is report.passed is (dtype is DType.FLOAT32)


def test_the_model_beside_the_package_is_used_only_if_its_digest_matches(package: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not the file that m\.om was made from") as caught:
        find_model(package, Source("0" * 64, "onnx", (), ""))
    assert caught.value.exit_code == 2
    (tmp_path / "m.onnx").unlink()
    with pytest.raises(UsageError, match=r"there is no m\.onnx"):
        find_model(package, Source("0" * 64, "onnx", (), ""))

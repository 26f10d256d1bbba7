from dataclasses import replace

import numpy as np
import pytest

from atcpy.ir import DType
from atcpy.verify.compare import Tolerance, compare, compare_kind

F32 = np.float32


def array(*values: float, dtype: type = F32) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, dtype)


def test_the_tolerance_is_relative_to_the_scale_of_the_output() -> None:
    expected = array(1000, 1e-3)
    assert compare("y", array(1000, 0.05), expected).passed  # 0.05 is far from 1e-3, but small relative to 1000
    report = compare("y", array(1000, 0.2), expected)
    assert not report.passed
    assert report.atol == pytest.approx(0.1)
    assert report.why == "differs by 0.2 (allowed 0.1) in 1 of 2 elements"
    problem = report.problem("what to do")
    assert problem is not None
    assert (problem.code, problem.exit_code, problem.hint) == ("V0001", 5, "what to do")


@pytest.mark.parametrize(
    ("dtype", "inside", "outside"),
    [(np.float16, 1e-3, 4e-3), (np.float64, 5e-10, 2e-9), (F32, 5e-5, 2e-4)],
)
def test_the_tolerance_depends_on_the_dtype(dtype: type, inside: float, outside: float) -> None:
    expected = np.ones(2, dtype)
    assert compare("y", np.array([1, 1 + inside]).astype(dtype), expected).passed
    assert not compare("y", np.array([1, 1 + outside]).astype(dtype), expected).passed


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.bool_, np.uint16])
def test_integers_must_be_equal(dtype: type) -> None:
    assert compare("y", np.array([0, 1]).astype(dtype), np.array([0, 1]).astype(dtype)).passed
    assert not compare("y", np.array([0, 1]).astype(dtype), np.array([0, 0]).astype(dtype)).passed


def test_large_integers_are_compared_exactly() -> None:
    assert not compare("y", np.array([2**60 + 1]), np.array([2**60])).passed


def test_8_bit_results_may_differ_by_one() -> None:
    assert compare("y", array(3, dtype=np.uint8), array(4, dtype=np.uint8)).passed
    assert not compare("y", array(2, dtype=np.uint8), array(4, dtype=np.uint8)).passed


def test_nan_equals_nan_and_infinity_equals_itself() -> None:
    values = array(np.nan, np.inf, -np.inf, 1)
    report = compare("y", values, values.copy())
    assert (report.passed, report.nan, report.inf, report.max_abs) == (True, 1, 2, 0.0)


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (np.nan, 1.0, "has NaN or infinity in 1 of 2 places where the reference has none"),
        (np.inf, 1.0, "has NaN or infinity in 1 of 2 places where the reference has none"),
        (1.0, np.nan, "has finite values in 1 of 2 places where the reference has NaN or infinity"),
        (np.inf, -np.inf, "has NaN or infinity in 1 of 2 places"),
    ],
)
def test_nan_and_infinity_on_one_side_have_their_own_code(actual: float, expected: float, message: str) -> None:
    report = compare("y", array(actual, 1), array(expected, 1))
    assert (report.passed, report.code) == (False, "V0002")
    assert report.why.startswith(message)


def test_a_changed_argmax_is_reported_separately() -> None:
    tie = compare("y", array(1.00001, 1.0), array(1.0, 1.00001))
    assert (tie.passed, tie.argmax_changed) == (True, True)
    wrong = compare("y", array(2, 1), array(1, 2))
    assert wrong.why.endswith("; its most likely class changed")
    assert not compare("y", array(1, 2, dtype=np.int64), array(2, 1, dtype=np.int64)).argmax_changed


def test_a_users_tolerance_replaces_the_default() -> None:
    actual, expected = array(1.05, 100), array(1, 100)
    assert not compare("y", actual, expected).passed
    assert compare("y", actual, expected, Tolerance(atol=0.1)).passed
    assert compare("y", actual, expected, Tolerance(rtol=0.06)).passed
    assert not compare("y", actual, expected, Tolerance(rtol=0.04)).passed
    assert not compare("y", array(1, -1), array(1, 1), Tolerance(atol=3, cosine=0.9)).passed


def test_a_users_tolerance_by_type_is_for_values_of_that_type() -> None:
    tolerance = Tolerance(by_type={DType.FLOAT16: (0.5, 0.0), DType.FLOAT32: (0.0, 0.25)})
    expected = np.array([1.0, 100.0])
    off = np.array([1.4, 100.0])
    assert compare("y", off.astype(np.float16), expected.astype(np.float16), tolerance).passed
    report = compare("y", off.astype(np.float32), expected.astype(np.float32), tolerance)
    assert (report.passed, report.atol, report.rtol) == (False, 0.0, 0.25)
    assert not compare("y", off, expected, tolerance).passed  # float64 has its default
    # What was computed in float16 is judged as float16, and a tolerance of all types comes first.
    lowered = replace(tolerance, precision=DType.FLOAT16)
    assert compare("y", off.astype(np.float32), expected.astype(np.float32), lowered).passed
    strict = replace(tolerance, atol=0.1)
    assert not compare("y", off.astype(np.float16), expected.astype(np.float16), strict).passed


def test_error_statistics() -> None:
    report = compare("y", array(3, 4.0000005), array(3, 4))
    assert report.max_abs == pytest.approx(4.77e-7, rel=0.01)
    assert report.max_rel == pytest.approx(1.19e-7, rel=0.01)
    assert report.ulp == 1
    assert report.cosine == pytest.approx(1)
    assert compare("y", array(0.0), array(-0.0)).ulp == 0
    assert compare("y", array(1e300, dtype=np.float64), array(1e300, dtype=np.float64)).cosine == pytest.approx(1)


def test_shape_and_dtype_are_compared_first() -> None:
    report = compare("y", np.zeros((2, 3), F32), np.zeros((3, 2), F32))
    assert report.why == "is float32[2, 3], the reference has float32[3, 2]"
    assert not compare("y", np.zeros(2, np.float64), np.zeros(2, F32)).passed
    assert not compare_kind("y", np.zeros(2, F32), np.zeros(3, F32)).passed
    assert compare_kind("y", array(1), array(99)).passed


def test_string_and_empty_outputs() -> None:
    texts = np.array(["a", "b"], object)
    assert compare("y", texts, texts.copy()).passed
    assert not compare("y", texts, np.array(["a", "c"], object)).passed
    assert compare("y", np.zeros((0, 3), F32), np.zeros((0, 3), F32)).passed
    assert compare("y", np.array(1, F32), np.array(1, F32)).passed


def test_complex_numbers() -> None:
    values = np.array([1 + 2j, 3], np.complex64)
    assert compare("y", values, values).dtype == DType.COMPLEX64.long
    assert not compare("y", values * 1.01, values).passed

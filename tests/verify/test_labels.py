"""Models whose outputs are classes are compared at inputs of more than one class."""

from pathlib import Path

import numpy as np
import onnx

import atcpy
from atcpy.ir import DType
from atcpy.verify.inputs import Fill, Port
from atcpy.verify.labels import Classes, label_outputs, other_feeds
from atcpy.verify.verification import VerifyReport, verify
from tests.models_in_text import model as parse

# Class 1 where the sum of four numbers is above LIMIT: that of noise of unit size has a deviation of 2.
TEXT = """g (float[1,4] x) => (int64[1] label, float[1,2] scores) {
  limit = Constant<value = float[1,1] {LIMIT}>()
  sum = ReduceSum<keepdims = 1>(x)
  row = Reshape(sum, shape)
  scores = Concat<axis = 1>(limit, row)
  best = ArgMax<axis = 1, keepdims = 0>(scores)
  label = Identity(best)
} """
BODY = TEXT.replace("  limit =", "  shape = Constant<value = int64[2] {1, 1}>()\n  limit =")


def verified(folder: Path, limit: float, **options: object) -> VerifyReport:
    onnx.save(parse(BODY.replace("LIMIT", str(limit))), folder / "m.onnx")
    atcpy.convert(folder / "m.onnx", folder / "m.om")
    return verify(folder / "m.om", folder / "m.onnx", **options)  # type: ignore[arg-type]


def test_labels_are_found_behind_casts_and_tables() -> None:
    model = parse("""g (float[2,3] x) => (float[2] a, int64[2,1] b, float[2,3] c, int64[2] d) {
      best = ArgMax<axis = 1, keepdims = 0>(x)
      names = Constant<value = int64[3] {7, 8, 9}>()
      named = Gather(names, best)
      a = Cast<to = 1>(named)
      k = Constant<value = int64[1] {1}>()
      values, b = TopK(x, k)
      c = Relu(x)
      d = Shape(x)
    }""")
    assert label_outputs(model) == {"a", "b"}


def test_a_second_class_is_looked_for(tmp_path: Path) -> None:
    """Noise of unit size does not reach it."""
    report = verified(tmp_path, 12.0)
    assert (report.passed, report.of_one_class, report.warnings) == (True, (), [])


def test_a_class_that_is_not_reached_is_said(tmp_path: Path) -> None:
    report = verified(tmp_path, 1e9)
    assert (report.passed, report.of_one_class) == (True, ("label",))
    assert [warning.code for warning in report.warnings] == ["W0043"]


def test_inputs_of_the_user_are_the_only_ones(tmp_path: Path) -> None:
    report = verified(tmp_path, 12.0, feeds={"x": np.zeros((1, 4), np.float32)})
    assert (report.inputs, report.of_one_class) == ("given", ())
    assert verified(tmp_path, 12.0, fill=Fill("ones")).of_one_class == ()


def test_a_package_that_is_wrong_for_the_second_class_fails(tmp_path: Path) -> None:
    """It passed: all inputs were of class 0."""
    atcpy.convert(parse(BODY.replace("LIMIT", "1e9")), tmp_path / "m.om")
    onnx.save(
        parse(BODY.replace("LIMIT", "12.0")),
        tmp_path / "m.onnx",
    )
    report = verify(tmp_path / "m.om", tmp_path / "m.onnx")
    assert not next(output for output in report.outputs if output.name == "label").passed


def test_classes_are_numbers_or_texts() -> None:
    classes = Classes(frozenset({"n", "t"}))
    for name, values in (("n", [1, 1]), ("t", ["a", "b"]), ("other", [3])):
        classes.note(name, np.array(values, dtype=object if name == "t" else np.int64))
    assert classes.of_one == ("n",)
    classes.note("n", np.array([2]))
    assert classes.of_one == ()


def test_integers_are_not_scaled() -> None:
    ports = [Port("i", DType.INT64, (50,)), Port("x", DType.FLOAT16, (50,))]
    found = list(other_feeds(ports, Fill(), {"i": 3}))
    assert all(feeds["i"].max() < 3 for feeds in found)
    assert found[-1]["x"].dtype == np.float16 and abs(found[-1]["x"]).max() > 20
    assert len({feeds["x"].tobytes() for feeds in found}) == len(found)

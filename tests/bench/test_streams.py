"""A package beside the one of its model that has no streams."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.bench.rounds import Measured, Ratio, SideTimes
from atcpy.bench.streams import SINGLE_STREAM, convert_without_streams, stream_times
from atcpy.errors import Unsupported, UsageError
from atcpy.om import reader
from atcpy.stages.report import StreamCount

BRANCHES = """<ir_version: 8, opset_import: ["" : 17]> g (float[64,64] x) => (float[64,64] y, float[64,64] z)
  { a = Softmax(x) b = Softmax(a) y = Softmax(b) c = Exp(x) d = Softmax(c) z = Softmax(d) }"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(BRANCHES), path)
    return path


def convert(model: Path, **options: object) -> Path:
    package = model.with_suffix(".om")
    atcpy.convert(model, package, **options)  # type: ignore[arg-type]
    return package


def test_the_other_package_has_no_sections_and_the_same_results(model: Path, tmp_path: Path) -> None:
    package = convert(model, precision_mode_v2="fp16")
    target = tmp_path / SINGLE_STREAM
    counts = convert_without_streams(reader.read_package(package), model, target, {})
    assert (counts.sections, counts.streams) == (1, 2)
    record = atcpy.inspect(target).record
    assert record["streams"] == {"sections": 0, "streams": 1}
    assert record["atc_cmdline"] == "atcpy convert --enable_single_stream=true --precision_mode_v2=fp16"
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    results = [atcpy.InferenceSession(path, threads=2).run(None, {"x": x}) for path in (package, target)]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_package_that_was_converted_without_streams_is_refused(model: Path, tmp_path: Path) -> None:
    package = reader.read_package(convert(model, enable_single_stream=True))
    with pytest.raises(UsageError, match="was converted with --enable_single_stream") as caught:
        convert_without_streams(package, model, tmp_path / SINGLE_STREAM, {})
    assert caught.value.code == "E10057"


def test_another_model_is_refused(model: Path, tmp_path: Path) -> None:
    package = reader.read_package(convert(model))
    onnx.save(onnx.parser.parse_model(BRANCHES.replace("Exp", "Neg")), tmp_path / "other.onnx")
    with pytest.raises(UsageError, match=r"other\.onnx is not the file that the package was made from") as caught:
        convert_without_streams(package, tmp_path / "other.onnx", tmp_path / SINGLE_STREAM, {})
    assert caught.value.code == "E10054"
    assert not (tmp_path / SINGLE_STREAM).exists()


def test_a_package_whose_options_name_a_file_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "keep.cfg").write_text("OpType::Exp\n")
    package = convert(model, precision_mode_v2="fp16", keep_dtype=tmp_path / "keep.cfg")
    with pytest.raises(Unsupported, match="--keep_dtype") as caught:
        convert_without_streams(reader.read_package(package), model, tmp_path / SINGLE_STREAM, {})
    assert caught.value.code == "E10055"


def side(engine: str, median: float, ratio: Ratio | None = None) -> SideTimes:
    ci = (median, median)
    return SideTimes(
        engine, engine, "1", median, ci, p90=median, p95=median, p99=median, min=median, load=0.0, first=median,
        runs=1, runs_per_second=1.0, samples_per_second=None, ratio=ratio,
    )  # fmt: skip


def test_the_times_are_those_of_the_first_side_and_of_the_package_without_streams() -> None:
    slower, faster = Ratio(0.5, (0.4, 0.6), "slower"), Ratio(1.5, (1.4, 1.6), "faster")
    sides = (side("atcpy", 2.0), side("ort", 1.0, slower), side(SINGLE_STREAM, 3.0, faster))
    times = stream_times(Measured(sides, None, 3), StreamCount(4, 7))
    assert (times.with_streams, times.without_streams, times.ratio) == (2.0, 3.0, faster)
    assert (times.sections, times.streams) == (4, 7)

"""The side-by-side benchmark of two engines. Tests assert results and structure, never a time."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import engines
import feeds
import numpy as np
import onnx
import pytest
import side_by_side
import typer
from contestant import Contestant, ContestantError, Loaded, TimedRuns, _Worker
from engines import Engine
from side_by_side import Comparison, Peer, Timing

from tests.sanitizers import loads_openvino

DIGITS = Path(__file__).parents[2] / "models" / "digits" / "digits.onnx"


def timing(engine: str, **changes: float) -> Timing:
    figures: dict[str, float] = {"min_ms": 2.0, "median_ms": 2.5, "prepare_ms": 1.0, "first_result_ms": 9.0}
    return Timing(engine=engine, runs=9, **({"cpu_share": 1.0, "stopped_cpu_share": 0.0} | figures | changes))


def test_feeds_fit_the_model(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21], metadata_props: ["below:ids": "7"]>'
        "g (float[N,3] x, int64[2,50] ids, bool[4] flags, float16[2] half) => (float[N,3] y) { y = Relu(x) }"
    )
    onnx.save(model, tmp_path / "m.onnx")
    fed = feeds.feeds_for(tmp_path / "m.onnx")
    assert {name: (array.shape, array.dtype.name) for name, array in fed.items()} == {
        "x": ((1, 3), "float32"),
        "ids": ((2, 50), "int64"),
        "flags": ((4,), "bool"),
        "half": ((2,), "float16"),
    }
    assert (fed["ids"].min(), fed["ids"].max()) == (0, 6)
    again = feeds.feeds_for(tmp_path / "m.onnx")
    assert all(np.array_equal(fed[name], again[name]) for name in fed)


def test_error_is_relative_to_the_scale_of_its_output() -> None:
    expected = [np.array([1e-9, 4.0]), np.array([100.0])]
    assert feeds.relative_error([np.array([0.04, 4.0]), np.array([100.0])], expected) == pytest.approx(0.01)
    assert feeds.relative_error(expected, expected) == 0


@pytest.mark.parametrize("wrong", [[np.zeros((1, 2))], [np.array([np.nan, 0.0])], []])
def test_outputs_that_cannot_be_compared_differ_without_bound(wrong: list[feeds.Array]) -> None:
    assert feeds.relative_error(wrong, [np.zeros(2)]) == float("inf")


def test_an_engine_agrees_with_itself(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    side_by_side.main(
        [DIGITS], rounds=2, seconds=0.01, threads="1", ours="onnxruntime", base="onnxruntime", json_file=report
    )
    record = json.loads(report.read_text())
    assert record["versions"].keys() == {"onnxruntime"}
    assert record["machine"].keys() == {"cpu", "isa", "cores"}
    (figures,) = record["comparisons"]
    (peer,) = figures["peers"]
    assert (figures["model"], figures["threads"], peer["relative_error"]) == ("digits", 1, 0.0)
    assert figures["ours"]["runs"] >= 2
    assert 0 < figures["ours"]["min_ms"] <= figures["ours"]["median_ms"]
    assert figures["ours"]["first_result_ms"] > 0


def test_each_peer_has_its_own_ratio_and_error(monkeypatch: pytest.MonkeyPatch) -> None:
    milliseconds = {"a": 2.0, "b": 3.0, "c": 1.0}

    class Fixed:
        """A contestant of known times, whose one output is its time."""

        def __init__(self, engine: str, model: Path, cpus: list[int]) -> None:
            self._ms = milliseconds[engine]

        def __enter__(self) -> Fixed:
            return self

        def __exit__(self, *_: object) -> None: ...

        def load(self, fed: feeds.Feeds, folder: Path) -> Loaded:
            feeds.save_arrays(folder / "outputs.npz", [np.array([self._ms])])
            return Loaded(0.0, 0.0)

        def time_runs(self, seconds: float) -> TimedRuns:
            return TimedRuns([self._ms * 1e-3], 1.0)

        def stopped_cpu_share(self) -> float:
            return 0.0

    monkeypatch.setattr(side_by_side, "Contestant", Fixed)
    comparison = side_by_side.compare(DIGITS, "a", ["b", "c"], 1, rounds=2, seconds=0.0)
    assert comparison.ours.min_ms == 2.0
    assert [peer.timing.engine for peer in comparison.peers] == ["b", "c"]
    assert [peer.ratio_of_minima for peer in comparison.peers] == [1.5, 0.5]
    assert [peer.ratio_of_medians for peer in comparison.peers] == pytest.approx([1.5, 0.5])
    assert [peer.relative_error for peer in comparison.peers] == pytest.approx([1 / 3, 1.0])


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([2.0, 1.1, 1.9, 2.0], [1, 3]),  # the second was disturbed, the fourth not needed
        ([1.0] * 10, list(range(1, 11))),
        ([1.0] * 9 + [2.0], list(range(1, 11))),
    ],
    ids=["one disturbed", "all disturbed", "too few quiet"],
)
def test_rounds_in_which_something_else_ran_are_measured_again(shares: list[float], expected: list[int]) -> None:
    class Disturbed:
        """A contestant whose times are the numbers of the rounds."""

        def __init__(self, shares: list[float]) -> None:
            self._runs = iter([TimedRuns([number], share) for number, share in enumerate(shares, 1)])

        def time_runs(self, seconds: float) -> TimedRuns:
            return next(self._runs)

    contestants = [Disturbed([2.0] * 10), Disturbed(shares)]
    rounds = side_by_side._quiet_rounds(contestants, 2, 2, 0.0)
    assert [[runs.times_s for runs in each] for each in rounds] == [[[number], [number]] for number in expected]


def test_peers_are_the_other_engines_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda name: None if name == "openvino" else object())
    assert side_by_side._installed_peers("atcpy") == ["onnxruntime"]
    assert side_by_side._installed_peers("onnxruntime") == ["atcpy"]


@loads_openvino
def test_openvino_returns_the_outputs_in_order(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    text = (
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y, float[2] z) { z = Abs(x) y = Neg(x) }'
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    run = engines.ENGINES["openvino"].open(tmp_path / "m.onnx", 1)
    y, z = run({"x": np.array([-1, 2], np.float32)})
    assert (y.tolist(), z.tolist()) == ([1, -2], [1, 2])


def test_a_process_is_stopped_while_it_is_not_measured(tmp_path: Path) -> None:
    def state() -> str:
        return Path(f"/proc/{process._pid}/stat").read_text().rpartition(")")[2].split()[0]

    with Contestant("onnxruntime", DIGITS, sorted(os.sched_getaffinity(0))[:1]) as process:
        process.load(feeds.feeds_for(DIGITS), tmp_path)
        assert state() == "T"
        assert len(process.time_runs(0.0).times_s) == 1
        assert state() == "T"


def test_failure_of_an_engine_is_reported_in_its_words(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    with (
        Contestant("onnxruntime", broken, sorted(os.sched_getaffinity(0))[:1]) as process,
        pytest.raises(ContestantError, match=r"broken\.onnx"),
    ):
        process.load({}, tmp_path)


def test_death_of_an_engine_is_reported(tmp_path: Path) -> None:
    with Contestant("onnxruntime", DIGITS, sorted(os.sched_getaffinity(0))[:1]) as process:
        process.load(feeds.feeds_for(DIGITS), tmp_path)
        os.kill(process._pid, signal.SIGKILL)
        with pytest.raises(ContestantError, match="died"):
            process.time_runs(0.0)


def test_converted_file_is_what_gets_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[Path, int]] = []

    def open_and_note(path: Path, threads: int) -> engines.Run:
        opened.append((path, threads))
        return lambda feeds_of_run: list(feeds_of_run.values())

    engine = Engine(("json",), lambda model, folder: folder / "converted.om", open_and_note)
    monkeypatch.setitem(engines.ENGINES, "noted", engine)
    loaded = _Worker("noted", DIGITS, 2).load({"x": np.arange(3)}, tmp_path)
    assert opened == [(tmp_path / "converted.om", 2)]
    assert loaded.first_result_s > 0
    (output,) = feeds.load_arrays(tmp_path / "outputs.npz")
    assert output.tolist() == [0, 1, 2]


def test_minimum_and_median_are_over_all_runs() -> None:
    runs = (TimedRuns([3e-3, 1e-3], 1.0), TimedRuns([2e-3], 0.5))
    summary = side_by_side._timing("atcpy", Loaded(0.5, 0.25), runs, 0.0)
    assert (summary.min_ms, summary.median_ms, summary.runs) == (1.0, 2.0, 3)
    assert (summary.prepare_ms, summary.first_result_ms, summary.cpu_share) == (500.0, 250.0, 0.75)


@pytest.mark.parametrize(
    ("threads", "changes", "remark"),
    [
        (1, {"stopped_cpu_share": 0.5}, "used 50% CPU while stopped"),
        (1, {"cpu_share": 0.4}, "only 40% CPU"),
        (2, {"cpu_share": 1.1}, "only 110% CPU"),
    ],
)
def test_a_disturbed_measurement_is_marked(threads: int, changes: dict[str, float], remark: str) -> None:
    quiet, disturbed = timing("onnxruntime", cpu_share=threads), timing("atcpy", **changes)
    comparison = Comparison("m", threads, disturbed, (Peer(quiet, 1.0, 1.0, 0.0),))
    lines = list(side_by_side.render(comparison))
    assert remark in lines[1]
    assert "CPU" not in lines[0]


@pytest.mark.parametrize("text", ["0", "x", "1,", "100000"])
def test_impossible_numbers_of_threads_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="numbers from 1 to"):
        side_by_side._parse_threads(text)


def test_different_results_end_with_their_own_status(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = (Peer(timing("onnxruntime"), 1.0, 1.0, 0.0), Peer(timing("openvino"), 1.0, 1.0, relative_error=0.01))
    comparison = Comparison("m", 1, timing("atcpy"), peers)
    monkeypatch.setattr(side_by_side, "compare", lambda *_, **__: comparison)
    with pytest.raises(SystemExit) as status:
        side_by_side.main([DIGITS])
    assert status.value.code == side_by_side.EXIT_VERIFY_FAILED


def test_peers_are_of_the_same_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "is_installed", property(lambda self: True))
    assert side_by_side._installed_peers("atcpy") == ["onnxruntime", "openvino"]
    assert side_by_side._installed_peers("atcpy-bf16") == ["openvino-bf16"]


def test_models_behind_one_that_fails_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compare(model: Path, *_: object, **__: object) -> Comparison:
        if model.stem == "b":
            raise ContestantError("no kernel")
        return Comparison(model.stem, 1, timing("atcpy"), (Peer(timing("onnxruntime"), 2.0, 2.0, 0.0),))

    monkeypatch.setattr(side_by_side, "compare", compare)
    with pytest.raises(SystemExit, match="not measured: 1 of 3 models"):
        side_by_side.main([Path("a.onnx"), Path("b.onnx"), Path("c.onnx")], base="onnxruntime")
    printed = capsys.readouterr().out
    assert "b.onnx: no kernel\n" in printed
    assert "geometric mean of the ratios of medians to onnxruntime: 2.00x\n" in printed

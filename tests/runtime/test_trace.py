"""Traces, against the rules of the Trace Event Format."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import UsageError
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.runtime.profile import Profile
from atcpy.runtime.roofline import Bandwidth, Roofline
from atcpy.runtime.trace import write_trace
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model as parse
from tests.models_in_text import package

BRANCHES, PRODUCTS = 6, 6


def streams_model() -> str:
    """Branches of small products, as many as streams."""
    nodes = [
        f"a{n}_{i + 1} = MatMul({f'a{n}_{i}' if i else 'x'}, w{n})" for n in range(BRANCHES) for i in range(PRODUCTS)
    ]
    outputs = ", ".join(f"float[8,64] a{n}_{PRODUCTS}" for n in range(BRANCHES))
    weights = ", ".join(f"float[64,64] w{n}" for n in range(BRANCHES))
    return f"m (float[8,64] x) => ({outputs}) <{weights}> {{ {' '.join(nodes)} }}"


def check_trace(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Check a trace by the rules of its form; return its complete events."""
    assert trace["displayTimeUnit"] in ("ms", "ns")
    assert isinstance(trace["otherData"], dict)
    events = trace["traceEvents"]
    assert all(event["ph"] in ("X", "M") for event in events)
    for event in events:
        assert isinstance(event["name"], str) and event["name"]
        assert type(event["pid"]) is int and type(event["tid"]) is int
        assert isinstance(event["args"], dict)
    complete = [event for event in events if event["ph"] == "X"]
    for event in complete:
        assert isinstance(event["cat"], str)
        assert event["ts"] >= 0 and event["dur"] >= 0
    rows = {(event["pid"], event["tid"]) for event in complete}
    named = [(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"]
    assert len(named) == len(set(named)) and set(named) == rows
    processes = [event["pid"] for event in events if event["ph"] == "M" and event["name"] == "process_name"]
    assert len(processes) == len(set(processes)) and set(processes) == {pid for pid, _ in rows}
    for row in rows:
        spans = sorted(
            (round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in complete if (e["pid"], e["tid"]) == row
        )
        assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans)), "events of a row overlap"
    return complete


def trace_of(model: str, path: Path, *, runs: int = 1, threads: int = 1, **options: Any) -> list[dict[str, Any]]:
    session = InferenceSession(package(model), threads=threads)
    profile = Profile()
    feeds = {port.name: np.ones(port.shape, np.float32) for port in session.get_inputs()}  # type: ignore[arg-type]
    for _ in range(runs):
        session.run(None, feeds, profile=profile)
    write_trace(path, profile, **options)
    return check_trace(json.loads(path.read_text()))


def test_tasks_have_their_sources_and_figures(tmp_path: Path) -> None:
    machine = Roofline(1, 1e12, (Bandwidth(1 << 20, 1e11),))
    text = "m (float[64,64] x) => (float[64,64] y) { [product] a = MatMul(x, x) [soft] y = Softmax(a) }"
    run, product, soft = trace_of(text, tmp_path / "t.json", roofline=machine)
    assert (run["name"], run["cat"]) == ("run 0", "run")
    assert product["name"].startswith("MatMul ")
    assert product["args"]["sources"] == ["product"] and soft["args"]["sources"] == ["soft"]
    assert product["args"]["kernel"].startswith("matmul_f32_")
    assert product["args"]["flops"] == 2 * 64**3 and soft["args"]["flops"] is None
    assert (product["args"]["read_bytes"], product["args"]["written_bytes"]) == (2 * 64 * 64 * 4, 64 * 64 * 4)
    for event, floor_us in ((product, 2 * 64**3 / 1e6), (soft, 2 * 64 * 64 * 4 / 1e5)):
        moved = event["args"]["read_bytes"] + event["args"]["written_bytes"]
        assert event["args"]["gbytes_per_second"] == pytest.approx(moved / event["dur"] / 1e3, rel=0.01, abs=1e-3)
        assert event["args"]["roofline"] == pytest.approx(floor_us / event["dur"], rel=0.01, abs=1e-4)
    assert product["args"]["gflops_per_second"] == pytest.approx(2 * 64**3 / product["dur"] / 1e3, rel=0.01)


def test_tasks_fill_their_run(tmp_path: Path) -> None:
    events = trace_of(
        "m (float[256,256] x) => (float[256,256] y) { a = MatMul(x, x) b = MatMul(a, x) y = MatMul(b, x) }",
        tmp_path / "t.json", runs=3,
    )  # fmt: skip
    runs = [event for event in events if event["cat"] == "run"]
    assert [event["name"] for event in runs] == ["run 0", "run 1", "run 2"]
    for run in runs:
        inside = [e for e in events if e is not run and run["ts"] <= e["ts"] < run["ts"] + run["dur"]]
        assert len(inside) == 3
        assert 0 < sum(event["dur"] for event in inside) <= run["dur"]


def test_peaks_that_are_not_known_are_none(tmp_path: Path) -> None:
    events = trace_of("m (float[4] x) => (float[4] y) { y = Exp(x) }", tmp_path / "t.json")
    assert [event["args"].get("roofline") for event in events] == [None, None]


@pytest.mark.parametrize("threads", [1, 2])
def test_streams_are_rows(tmp_path: Path, threads: int) -> None:
    model = streams_model()
    session = InferenceSession(package(model), threads=threads)
    assert [task.op_type for task in session.tasks].count("StreamActive") == 1
    events = trace_of(model, tmp_path / "t.json", runs=3, threads=threads)
    trace = json.loads((tmp_path / "t.json").read_text())
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert sorted(names.values()) == ["runs", *(f"stream {n}" for n in range(BRANCHES))]
    for tid, name in names.items():
        own = [event for event in events if event["tid"] == tid]
        assert len(own) == (3 if name == "runs" else 3 * PRODUCTS)
        assert all(event["args"]["thread"] < threads for event in own if name != "runs")


def test_a_rank_is_a_process_and_notes_are_kept(tmp_path: Path) -> None:
    text = "m (float[4] x) => (float[4] y) { y = Exp(x) }"
    events = trace_of(text, tmp_path / "t.json", rank=3, notes={"dropped": 0})
    trace = json.loads((tmp_path / "t.json").read_text())
    assert trace["otherData"] == {"dropped": 0}
    assert {event["pid"] for event in events} == {4}
    assert [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"] == ["rank 3"]


def test_names_of_any_characters(tmp_path: Path) -> None:
    model = parse("m (float[4] x) => (float[4] y) { y = Exp(x) }")
    model.graph.node[0].name = 'größer "\\\n\x01'
    session = InferenceSession(writer.to_bytes(compile_model(model, convert_options(None))[0]))
    profile = Profile()
    session.run(None, {"x": np.ones(4, np.float32)}, profile=profile)
    write_trace(tmp_path / "t.json", profile)
    [_, event] = check_trace(json.loads((tmp_path / "t.json").read_text()))
    assert event["args"]["sources"] == [model.graph.node[0].name]


def test_a_profile_without_a_run_is_an_empty_trace(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.json", Profile())
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"][0]["ph"] == "M"


def test_a_path_that_cannot_be_written_leaves_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("before")
    with pytest.raises(UsageError, match="names a directory"):
        write_trace(tmp_path, Profile())
    with pytest.raises(UsageError):
        write_trace(tmp_path / "t.json" / "t.json", Profile())
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]

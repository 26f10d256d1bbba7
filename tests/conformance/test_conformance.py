"""A sample of the cases that must pass, and the harness itself; `make conformance` runs all of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import typer

from tests.conformance import __main__ as program
from tests.conformance.cases import RANDOM, SLOW_MODULES, Case, load_cases
from tests.conformance.compare import difference
from tests.conformance.outcome import Outcome, Results, Status, read_outcomes
from tests.conformance.page import page
from tests.conformance.pool import Lost, run_jobs
from tests.conformance.ratchet import passing, read_ratchet
from tests.conformance.runner import run_case
from tests.effort import one_in

EVERY = 20


def test_the_list_is_sorted_and_without_chance() -> None:
    names = read_ratchet()
    assert names == sorted(set(names))
    assert not RANDOM & set(names)


@pytest.mark.slow
def test_one_in_twenty_of_the_cases_that_must_pass_does() -> None:
    must = set(read_ratchet())
    cases = [case for case in load_cases(without=SLOW_MODULES) if case.name in must and case.kind != "real"]
    sample = one_in(EVERY, cases)
    assert len(sample) > 50
    outcomes = {case.name: run_case("atcpy", case) for case in sample}
    wrong = {name: outcome for name, outcome in outcomes.items() if outcome.status is not Status.PASS}
    assert wrong == {}, f"CI_SAMPLE={os.environ.get('CI_SAMPLE', 0)} repeats this"


def serve(job: int) -> int:
    if job == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    if job == 4:
        time.sleep(60)
    if job == 5:
        os._exit(9)
    return job * job


def test_a_worker_that_dies_or_hangs_costs_its_own_job_only() -> None:
    answers = dict(run_jobs(serve, range(10), workers=2, seconds=lambda job: 0.5 if job == 4 else 20.0))
    lost = {3: Lost("crash", "SIGSEGV"), 4: Lost("timeout", "0.5 s"), 5: Lost("crash", "exit code 9")}
    assert answers == {**{job: job * job for job in range(10)}, **lost}


@pytest.mark.parametrize(("status", "fails"), [(Status.PASS, False), (Status.WRONG, True), (Status.TIMEOUT, True)])
def test_a_case_that_stops_passing_fails_the_run(
    status: Status, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "load_cases", list)
    monkeypatch.setattr(program, "run_cases", lambda *_, **__: {"atcpy": {"test_a": Outcome(status)}})
    monkeypatch.setattr(program, "read_ratchet", lambda: ["test_a"])
    with pytest.raises(typer.Exit) if fails else nullcontext():
        program.main(engine=["atcpy"], outcomes=tmp_path / "outcomes.json")


def test_a_share_fails_for_its_own_cases_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cases = [Case(name, "node", 0, 0, onnx.ModelProto, lambda: iter(())) for name in ("test_a", "test_b", "test_c")]
    ran: list[str] = []

    def run(cases: Sequence[Case], *_: object, **__: object) -> Results:
        ran.extend(case.name for case in cases)
        return {"atcpy": {case.name: Outcome(Status.WRONG) for case in cases}}

    monkeypatch.setenv("CI_SAMPLE", "1")
    monkeypatch.setattr(program, "load_cases", lambda: cases)
    monkeypatch.setattr(program, "run_cases", run)
    monkeypatch.setattr(program, "read_ratchet", lambda: ["test_a"])
    program.main(engine=["atcpy"], share=3, outcomes=tmp_path / "outcomes.json")
    monkeypatch.setattr(program, "read_ratchet", lambda: ["test_b"])
    with pytest.raises(typer.Exit):
        program.main(engine=["atcpy"], share=3, outcomes=tmp_path / "outcomes.json")
    assert ran == ["test_b"] * 2


def test_what_passes_is_added_when_it_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {"test_a": Outcome(Status.PASS), "test_b": Outcome(Status.WRONG), "test_bernoulli": Outcome(Status.PASS)}
    written: list[set[str]] = []
    monkeypatch.setattr(program, "load_cases", list)
    monkeypatch.setattr(program, "run_cases", lambda *_, **__: {"atcpy": outcomes})
    monkeypatch.setattr(program, "read_ratchet", list)
    monkeypatch.setattr(program, "write_ratchet", written.append)
    program.main(engine=["atcpy"], accept=True, outcomes=tmp_path / "outcomes.json")
    assert written == [{"test_a"}]
    assert read_outcomes(tmp_path / "outcomes.json")["atcpy"] == outcomes


F32 = np.float32


@pytest.mark.parametrize(
    ("want", "have", "text"),
    [
        ([F32(1)], [F32(1.0005)], ""),
        ([F32(1)], [F32(1.002)], "result 0: 1 of 1 elements, the first [] is"),
        ([np.array([1, 2])], [np.array([1, 3])], "result 0: 1 of 2 elements, the first [1] is 3, not 2"),
        ([F32(1)], [np.float64(1)], "result 0: type float64, not float32"),
        ([np.zeros((1, 2))], [np.zeros(2)], "result 0: shape [2], not [1, 2]"),
        ([np.array([np.nan, np.inf])], [np.array([np.nan, np.inf])], ""),
        ([np.array([np.inf])], [np.array([-np.inf])], "result 0: 1 of 1 elements"),
        ([np.array(1, ml_dtypes.bfloat16)], [np.array(1.01, ml_dtypes.bfloat16)], ""),
        ([np.array([1], ml_dtypes.int4)], [np.array([2], ml_dtypes.int4)], "result 0: 1 of 1 elements"),
        ([np.array([2**62])], [np.array([2**62 + 1])], ""),  # the case's relative tolerance
        ([np.array(["a"], object)], [np.array([b"a"], object)], ""),
        ([np.array(["a"])], [np.array(["b"])], "result 0: ['b'], not ['a']"),
        ([[F32(1), F32(2)]], [[F32(1)]], "result 0: 1 results, 2 expected"),
        ([[F32(1)]], [F32(1)], "result 0: a tensor, not a sequence"),
        ([None], [None], ""),
        ([None], [F32(1)], "result 0: a tensor, not nothing"),
        ([F32(1)], [], "0 results, 1 expected"),
    ],
)
def test_results_are_compared_by_kind_type_shape_and_value(want: list[object], have: list[object], text: str) -> None:
    found = difference(want, have, 1e-3, 1e-7)
    assert found.startswith(text) if text else not found


def test_the_page_tells_what_does_not_pass_and_why() -> None:
    ours = {
        "test_a": Outcome(Status.PASS),
        "test_b": Outcome(Status.ERROR, "E10501", "no | engine"),
        "test_bernoulli": Outcome(Status.WRONG, "", "1 of 2 elements"),
    }
    text = page({"atcpy": ours, "reference": ours})
    assert "| pass | 1 | 1 |" in text
    assert "| test_b | E10501 no \\| engine |" in text
    assert "| E10501 | 1 |" in text
    assert text.index("## Random") < text.index("| test_bernoulli | wrong result |")
    assert passing(ours) == {"test_a"}

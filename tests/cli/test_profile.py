"""`atcpy run --profile`: the trace, the table, and what is refused before anything runs."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from atcpy.cli import profile as command
from atcpy.runtime import hardware_counters
from atcpy.runtime.profile import Profile
from tests.models_in_text import package as package_of
from tests.runtime.test_trace import check_trace, streams_model

from .conftest import Invoke

RANKS = 'g (float[4] x) => (float[4] y) { a = Exp(x) s = HcomAllReduce<reduction = "sum">(a) y = Neg(s) }'
STATES = (
    "m (float[1,1] x, float[p,1] past) => (float[t,1] present, float y) "
    "{ present = Concat<axis = 0>(past, x) y = ReduceSum<keepdims = 0>(present) }"
)


def test_the_trace_and_the_table(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    ran = invoke("run", package, "--fill", "ones", "--profile", tmp_path / "p.json", "--json")
    assert ran.code == 0
    result = ran.envelope["result"]
    assert result["outputs"][0]["min"] == 1
    record = result["profile"]
    trace = json.loads((tmp_path / "p.json").read_text())
    events = check_trace(trace)
    assert record["path"] == str(tmp_path / "p.json")
    assert (record["runs"], record["dropped"]) == (1, 0)
    [op] = [op for op in record["ops"] if op["flops"]]
    assert op["flops"] == 2 * 2 * 3 * 4
    tasks = [event for event in events if event["cat"] != "run"]
    assert sum(op["launches"] for op in record["ops"]) == len(tasks)
    assert sum(op["seconds"] for op in record["ops"]) == pytest.approx(sum(event["dur"] for event in tasks) * 1e-6)
    assert sum(op["seconds"] for op in record["ops"]) <= record["seconds"]
    assert record["peaks"]["flops_per_second"] > 0 and record["peaks_missing"] == ""
    assert bool(record["counters_missing"]) == (len(record["counters"]) < 3)
    assert {key: record[key] for key in trace["otherData"]} == trace["otherData"]


def test_the_lines(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    lines = invoke("run", package, "--fill", "ones", "--profile", tmp_path / "p.json").out.splitlines()
    assert lines[0].startswith("y  float32 [2,4]")
    assert lines[3].split() == ["op", "tasks", "launches", "time", "share", "GFLOP/s", "GB/s", "roofline"]
    assert any(line.startswith("peaks of ") for line in lines)
    assert any(line.startswith(("counted: ", "not counted: ")) for line in lines)
    assert lines[-1].startswith("trace of 1 run in ") and lines[-1].endswith(f": {tmp_path}/p.json")


def test_without_it_nothing_is_profiled(invoke: Invoke, package: Path) -> None:
    assert "profile" not in invoke("run", package, "--fill", "ones", "--json").envelope["result"]


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOENT])
def test_counters_that_are_denied_are_a_sentence(
    invoke: Invoke, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def deny(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(hardware_counters.HardwareCounters.__init__, "__defaults__", (hardware_counters.HARDWARE, deny))
    ran = invoke("run", package, "--fill", "ones", "--profile", tmp_path / "p.json")
    assert ran.code == 0
    assert "\nnot counted: " in ran.out and "\ncounted: " not in ran.out


def test_peaks_that_memory_does_not_suffice_for_are_a_sentence(
    invoke: Invoke, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(threads: int) -> None:
        raise MemoryError

    monkeypatch.setattr(command, "measure_roofline", fail)
    ran = invoke("run", package, "--fill", "ones", "--profile", tmp_path / "p.json", "--json")
    record = ran.envelope["result"]["profile"]
    assert record["peaks"] is None and "no memory" in record["peaks_missing"]
    assert [op["roofline"] for op in record["ops"]] == [None] * len(record["ops"])


def test_launches_beyond_the_bound_are_added_up(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.om").write_bytes(package_of(streams_model()))
    monkeypatch.setattr(command, "Profile", lambda: Profile(max_events=5))
    monkeypatch.setattr(command, "MAX_EVENTS", 5)
    ran = invoke("run", tmp_path / "m.om", "--fill", "ones", "--profile", tmp_path / "p.json")
    assert "trace of the first 5 launches of 1 run" in ran.out and "31 more are only added up" in ran.out
    assert len(check_trace(json.loads((tmp_path / "p.json").read_text()))) == 1 + 5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--profile", "/dev/null/p.json"], "E13004", "/dev/null/p.json"),
        (["--profile", "{folder}"], "E10022", "names a directory"),
        (["--profile", "{folder}/p.json", "--sandbox"], "E10056", "--sandbox"),
        (["--profile", "{folder}/p.json", "--iterations", "3"], "E10056", "--iterations"),
        (["--profile", "{folder}/p.json", "--simulate-ranks", "2"], "E10001", "2 ranks"),
        (["--profile", "{folder}/p.json", "--ranks", "3"], "E10001", "3 ranks"),
        (["--profile", "/dev/null/{{rank}}/p.json", "--simulate-ranks", "2"], "E13004", "/0/p.json"),
    ],
)
def test_what_cannot_be_profiled_is_refused_before_the_package_is_read(
    invoke: Invoke, tmp_path: Path, arguments: list[str], code: str, message: str
) -> None:
    ran = invoke("run", "missing.om", *(argument.format(folder=tmp_path) for argument in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error[{code}"), ran.err
    assert message in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_write_protected_is_refused(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    ran = invoke("run", package, "--fill", "ones", "--profile", tmp_path / "p.json")
    assert ran.err.startswith("error[E13004")


def test_simulated_ranks_write_a_file_each(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "g.om").write_bytes(package_of(RANKS))
    arguments = ["--fill", "ones", "--simulate-ranks", "2", "--profile", tmp_path / "p{rank}.json", "--json"]
    ran = invoke("run", tmp_path / "g.om", *arguments)
    assert ran.code == 0, ran.err
    for rank, result in enumerate(ran.envelope["result"]["ranks"]):
        path = tmp_path / f"p{rank}.json"
        assert result["profile"]["path"] == str(path)
        assert result["profile"]["peaks"] is None and "ranks" in result["profile"]["peaks_missing"]
        events = check_trace(json.loads(path.read_text()))
        assert {event["pid"] for event in events} == {1 + rank}
        assert "HcomAllReduce" in {event["cat"] for event in events if event["tid"] == 2}


def test_ranks_whose_times_are_predicted_have_no_profile(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "g.om").write_bytes(package_of(RANKS))
    arguments = ["--fill", "ones", "--simulate-ranks", "65", "--profile", tmp_path / "p{rank}.json"]
    ran = invoke("run", tmp_path / "g.om", *arguments)
    assert ran.err.startswith("error[E10056") and "predicted" in ran.err


def test_a_package_without_collectives_runs_on_one_rank(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    arguments = ["--fill", "ones", "--simulate-ranks", "2", "--profile", tmp_path / "p{rank}.json"]
    assert invoke("run", package, *arguments).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["p0.json"]


def test_states_begin_empty_again_when_they_are_profiled(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "s.om").write_bytes(package_of(STATES))
    for number in range(3):
        np.savez(tmp_path / f"{number}.npz", x=np.full((1, 1), 2.0**number, np.float32))
    feeds = [argument for number in range(3) for argument in ("--npz", tmp_path / f"{number}.npz")]
    arguments = [*feeds, "--state", "present=past", "--capacity", "3", "--json"]
    plain = invoke("run", tmp_path / "s.om", *arguments).envelope["result"]
    profiled = invoke("run", tmp_path / "s.om", *arguments, "--profile", tmp_path / "p.json").envelope["result"]
    assert profiled["outputs"] == plain["outputs"]
    assert profiled["outputs"][0]["max"] == 7
    assert profiled["profile"]["runs"] == 3
    check_trace(json.loads((tmp_path / "p.json").read_text()))

import json
import zipfile
from pathlib import Path

import pytest

from atcpy.verify import selftest

from .conftest import Invoke

SMALL = ("(float[3,17] x) => (float[3,35] y) <float[17,35] w> { y = MatMul(x, w) }",)


def test_a_healthy_machine(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "CASES", SMALL)
    monkeypatch.setenv("ATCPY_THREADS", "1")
    ran = invoke("doctor")
    assert ran.code == 0
    assert ran.out.startswith("atcpy 0.1.0   Python 3.")
    assert "setting   ATCPY_THREADS=1\n" in ran.out
    assert "\nmatmul " in ran.out
    assert ran.out.splitlines()[-1].startswith("self-test 3 of 3 cases ok, worst error ")
    result = invoke("doctor", "--json").envelope["result"]
    assert result["selftest"]["failed"] == []
    assert result["cpu"]["threads"] == 1
    assert result["packages"]["onnx"]


def test_a_bundle_has_the_findings_and_the_settings(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "CASES", SMALL)
    monkeypatch.setenv("ATCPY_TIMEOUT", "77")
    ran = invoke("doctor", "--bundle", tmp_path / "new" / "b.zip")
    assert (ran.code, "b.zip: attach it" in ran.out) == (0, True)
    with zipfile.ZipFile(tmp_path / "new" / "b.zip") as archive:
        contents = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(contents) == {"doctor.txt", "doctor.json", "settings.json"}
    assert contents["doctor.txt"].startswith("atcpy 0.1.0   Python 3.")
    assert json.loads(contents["doctor.json"])["selftest"]["cases"] == 3
    assert json.loads(contents["settings.json"])[0]["source"] == "ATCPY_TIMEOUT"


def test_a_kernel_that_computes_wrong_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*, has_onnxruntime: bool) -> list[selftest.CaseReport]:
        assert has_onnxruntime
        return [selftest.CaseReport("MatMul", ("matmul",), 3.0, "y differs by 3 (allowed 1e-4)")]

    monkeypatch.setattr(selftest, "run_cases", broken)
    ran = invoke("doctor")
    assert ran.code == 1
    assert "self-test MatMul: y differs by 3" in ran.out
    assert ran.err.startswith("error[X0001] the self-test of MatMul fails: y differs by 3")

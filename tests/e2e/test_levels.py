"""Judging levels: right at both, and a report where one is not."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.e2e import levels

DIGITS = Path(__file__).parents[2] / "models" / "digits" / "digits.onnx"


def test_digits_is_right_fused_and_unfused() -> None:
    unfused, fused = levels.judge(DIGITS)
    assert unfused.passed and fused.passed
    assert unfused.tasks > fused.tasks > 0


def test_what_is_wrong_or_refused_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21, "none" : 1]> g (float[2] x) => (float[2] y) { y = none.Op(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "odd.onnx")
    levels.main([tmp_path / "odd.onnx", DIGITS])
    assert "none::Op is not a known operator" in capsys.readouterr().out
    wrong = levels.Judged("O2", 3, passed=False, max_abs=1.0, arbitrated=False)
    monkeypatch.setattr(levels, "judge", lambda model: [wrong])
    with pytest.raises(SystemExit):
        levels.main([DIGITS])
    assert "wrong" in capsys.readouterr().out

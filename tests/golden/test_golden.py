"""Every golden file: what the stages print, and that the package computes what the model says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from atcpy.om import writer
from atcpy.options import Stage
from atcpy.passes.pass_set import built_in_passes
from tests.golden.golden import FILES, compile_text, decision_lines, read_golden, write_golden
from tests.golden.numbers import check_numbers
from tests.sources import syntax

PASSES = Path(__file__).parent.parent.parent / "atcpy" / "passes"
# Reasons that no model in ONNX text can lead to, and the test that shows each.
SHOWN_ELSEWHERE = {
    "no-such-type": "passes/prepare/precision/test_precision_mode.py",
    "not-standard": "passes/split/test_assign_engines.py",
    "too-many-accesses": "passes/compile/test_in_place_concat.py",
}


# Those that take a second or more; smaller files show the same passes.
LARGE = {
    "attention_masks",
    "attention_masks_rejected",
    "attention_heads_edges",
    "qlinear_edges",
    "quantization_rejected",
}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow if path.stem in LARGE else (), id=path.stem) for path in FILES],
)
def test_stages_print_what_the_file_says(path: Path, request: pytest.FixtureRequest) -> None:
    golden = read_golden(path)
    model, compiled, actual = compile_text(golden)
    if compiled is not None:
        halves = compiled.graph.decisions.precision.outputs.values()
        check_numbers(model, writer.to_bytes(compiled), golden.oracle, halves=frozenset(halves))
    if request.config.getoption("--golden") == "rewrite":
        write_golden(path, golden, actual)
        return
    assert "error" in golden.expected or compiled is not None, actual["error"]
    for name, text in golden.expected.items():
        assert actual[name].strip() == text.strip(), f"section {name} changed; make golden rewrites it"


DECISIONS = [line for path in FILES for line in decision_lines(read_golden(path))]


def reasons_in_code() -> list[tuple[str, ast.expr]]:
    """The first argument of each Reject under passes/, with its place."""
    return [
        (f"{path.name}:{call.lineno}", call.args[0])
        for path in sorted(PASSES.rglob("*.py"))
        for call in syntax(path)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Reject"
    ]


def test_each_reason_that_a_pass_can_give_is_shown() -> None:
    shown = {word for line in DECISIONS for word in re.findall(r"  ([a-z-]+) ", line)} | set(SHOWN_ELSEWHERE)
    missing = [
        f"{location}: {str(reason.value) if isinstance(reason, ast.Constant) else 'is not a fixed word'}"
        for location, reason in reasons_in_code()
        if not isinstance(reason, ast.Constant) or reason.value not in shown
    ]
    assert missing == [], "write a golden file for each, or delete the reason if nothing can lead there"


@pytest.mark.parametrize(
    "stage", [Stage.PREPARE, Stage.SPLIT, Stage.OPTIMIZE, Stage.COMPILE], ids=lambda stage: stage.value
)
def test_each_pass_is_shown_at_work(stage: Stage) -> None:
    names = {line.split()[0] for line in DECISIONS if re.search(r"applied [1-9]", line)}
    assert [entry.name for entry in built_in_passes() if entry.stage is stage and entry.name not in names] == []

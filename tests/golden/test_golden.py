"""Every golden file: what the stages print, and that the package computes what the model says."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Protocol

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from atcpy import InferenceSession
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.options import Stage
from atcpy.passes.pass_set import built_in_passes
from tests.golden.golden import compile_text, read_golden, write_golden
from tests.ort import open_ort
from tests.sources import syntax

FILES = sorted(Path(__file__).parent.glob("*.golden"))
PASSES = Path(__file__).parent.parent.parent / "atcpy" / "passes"
# Reasons that no model in ONNX text can lead to, and the test that shows each.
SHOWN_ELSEWHERE = {
    "not-standard": "passes/split/test_assign_engines.py",
    "too-many-accesses": "passes/compile/test_in_place_concat.py",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_stages_print_what_the_file_says(path: Path, request: pytest.FixtureRequest) -> None:
    golden = read_golden(path)
    model, compiled, actual = compile_text(golden)
    if compiled is not None:
        check_numbers(model, writer.to_bytes(compiled), golden.oracle)
    if request.config.getoption("--golden") == "rewrite":
        write_golden(path, golden, actual)
        return
    assert "error" in golden.expected or compiled is not None, actual["error"]
    for name, text in golden.expected.items():
        assert actual[name].strip() == text.strip(), f"section {name} changed; make golden rewrites it"


class Oracle(Protocol):
    """Who knows the right numbers."""

    def run(self, output_names: list[str] | None, feeds: dict[str, Array]) -> list[Array]:
        """The outputs for some inputs."""


def oracle_of(model: onnx.ModelProto, kind: str) -> Oracle:
    if kind == "reference":
        return ReferenceEvaluator(model)
    if kind == "alone":  # one rank, whose collectives give what they get
        model = onnx.ModelProto.FromString(model.SerializeToString())
        for node in model.graph.node:
            if node.op_type in {"AllReduce", "HcomAllReduce"}:
                node.CopyFrom(onnx.helper.make_node("Identity", node.input, node.output))
    return open_ort(model, optimized=True)


def check_numbers(model: onnx.ModelProto, package: bytes, oracle_kind: str) -> None:
    """Fails unless the package gives what the oracle gives, over three seeds."""
    session = InferenceSession(package, threads=1)
    oracle = oracle_of(model, oracle_kind)
    sizes: dict[str, int] = {}  # of open dims
    for seed in range(3):
        rng = np.random.default_rng(seed)
        feeds = {}
        for port in session.get_inputs():
            shape = [dim if isinstance(dim, int) else sizes.setdefault(dim, 2 + len(sizes)) for dim in port.shape]
            noise = rng.standard_normal(shape) if port.dtype.is_float else rng.integers(0, 4, shape)
            feeds[port.name] = noise.astype(port.dtype.numpy)
        for ours, theirs in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
            scale = max(float(np.abs(theirs).max(initial=0)), 1e-6)
            # Halves are rounded once more than floats on either side.
            tolerance = 2e-3 if theirs.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)


DECISIONS = [
    line
    for path in FILES
    for name, text in read_golden(path).expected.items()
    if name in {"placement", "decisions"}
    for line in text.splitlines()
]


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
        f"{place}: {reason.value if isinstance(reason, ast.Constant) else 'is not a fixed word'}"
        for place, reason in reasons_in_code()
        if not isinstance(reason, ast.Constant) or reason.value not in shown
    ]
    assert missing == [], "write a golden file for each, or delete the reason if nothing can lead there"


@pytest.mark.parametrize(
    "stage", [Stage.PREPARE, Stage.SPLIT, Stage.OPTIMIZE, Stage.COMPILE], ids=lambda stage: stage.value
)
def test_each_pass_is_shown_at_work(stage: Stage) -> None:
    names = {line.split()[0] for line in DECISIONS if re.search(r"applied [1-9]", line)}
    assert [entry.name for entry in built_in_passes() if entry.stage is stage and entry.name not in names] == []

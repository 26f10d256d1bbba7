"""--no_reuse_mem: results of named nodes, or of types of nodes, share no memory with others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import atcpy
from atcpy.ir import CompiledModel, Region
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model

CHAIN = """<ir_version: 8, opset_import: ["" : 17]> g (float[4,64] x) => (float[12,64] y) <int64 axis = {1}> {
    [first] a = CumSum(x, axis)
    [second] b = Softmax(a)
    [third] c = CumSum(b, axis)
    [fourth] d = Softmax(c)
    [joined] e = Concat<axis = 0>(b, d, a)
    [last] y = Softmax(e)
}"""
PARTS = """<ir_version: 8, opset_import: ["" : 17]> g (float[4,64] x) => (float[8,64] y) <int64 axis = {1}> {
    [first] a = CumSum(x, axis)
    [second] b = CumSum(a, axis)
    [joined] e = Concat<axis = 0>(a, b)
    [last] y = Softmax(e)
}"""


def compiled(names: str | None, text: str = CHAIN) -> tuple[CompiledModel, list[str]]:
    """The compiled model, and the codes of the warnings."""
    model, report = compile_model(parser.parse_model(text), convert_options({"no_reuse_mem": names}))
    return model, [warning.code for warning in report.warnings]


def sharing(model: CompiledModel, name: str) -> set[str]:
    """The nodes with results in the memory of a result of this node."""

    def ranges(task: atcpy.ir.Task) -> list[range]:
        return [range(s.offset, s.offset + s.nbytes) for s in task.dst if s.region is Region.ARENA]

    own = [part for task in model.tasks if name in task.sources for part in ranges(task)]
    assert own
    return {
        task.node
        for task in model.tasks
        if name not in task.sources
        for part in ranges(task)
        if any(part.start < other.stop and other.start < part.stop for other in own)
    }


@pytest.mark.parametrize(
    ("names", "alone"),
    [("first", ["first"]), ("third,first", ["first", "third"]), ("Softmax", ["second", "fourth"]), (None, [])],
)
def test_named_results_share_no_memory(names: str | None, alone: list[str]) -> None:
    model, warnings = compiled(names)
    assert not warnings
    assert [name for name in alone if sharing(model, name)] == []
    if names is None:  # so that the test can fail
        assert any(sharing(model, name) for name in ("first", "second", "third", "fourth"))


@pytest.mark.parametrize("names", ["first", "Concat", None])
def test_parts_lie_in_what_they_are_joined_to_unless_they_share_no_memory(names: str | None) -> None:
    model, _ = compiled(names, PARTS)
    joined = [task for task in model.tasks if "joined" in task.sources]
    assert bool(joined) is (names is not None)  # copies are tasks
    if names is not None:
        assert not sharing(model, "first" if names == "first" else "joined")


def test_results_stay_the_same(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((4, 64), np.float32)
    results = []
    for names in (None, "first,Softmax,Concat,x"):
        atcpy.convert(parser.parse_model(CHAIN), tmp_path / "m.om", no_reuse_mem=names)
        results.append(atcpy.InferenceSession(tmp_path / "m.om").run(None, {"x": x})[0])
    np.testing.assert_array_equal(*results)


def test_names_that_there_are_not_are_told() -> None:
    assert compiled("first,fifth")[1] == ["W0012"]

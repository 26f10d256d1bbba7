"""Counting tasks: what is counted of loops and branches, and of models that a side cannot run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import task_counts
from feeds import load_feeds

LOOP = """<ir_version: 10, opset_import: ["" : 21]> g (float[N,2] x) => (float[N,2] y)
    <int64 three = {3}, bool yes = {1}, float one = {1}> {
    looped = Loop(three, yes, x) <body = b (int64 i, bool go, float[N,2] v) => (bool again, float[N,2] w) {
        again = Identity(go)  s = Sigmoid(v)  w = Softmax(s)
    }>
    top = Relu(looped)
    y = Softmax(top)
}"""
BRANCH = """<ir_version: 10, opset_import: ["" : 21]> g (bool c, float[2] x) => (float[2] y) {
    y = If(c) <
        then_branch = t () => (float[2] a) { a = Softmax(x) },
        else_branch = e () => (float[2] b) { p = Softmax(x) q = Cos(p) b = Softmax(q) }
    >
}"""


def saved(text: str, path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def test_a_body_counts_once(tmp_path: Path) -> None:
    model = saved(LOOP, tmp_path / "loop.onnx")
    counts = task_counts.count(model, {"x": np.ones((3, 2), np.float32)})
    assert counts.theirs == 6
    assert counts.kinds["Loop"] == 1
    assert counts.kinds["Softmax"] == 2
    assert not counts.is_more


def test_of_a_branch_the_one_taken_counts(tmp_path: Path) -> None:
    model = saved(BRANCH, tmp_path / "branch.onnx")
    taken = [task_counts.count(model, {"c": np.array(c), "x": np.ones(2, np.float32)}) for c in (True, False)]
    assert [counts.kinds["Softmax"] for counts in taken] == [1, 2]
    assert {counts.theirs for counts in taken} == {2}


def test_what_nobody_runs_is_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21, "none" : 1]> g (float[2] x) => (float[2] y) { y = none.Op(x) }'
    models = [saved(text, tmp_path / "odd.onnx"), saved(LOOP, tmp_path / "loop.onnx")]
    np.savez(tmp_path / "loop.seed.npz", **{"in/x": np.ones((4, 2), np.float32), "out/y": np.ones(1)})
    task_counts.main(models, feeds=tmp_path, json_file=tmp_path / "counts.json")
    assert capsys.readouterr().out.splitlines()[-1] == "no more tasks than nodes: 1 of 1"
    odd, loop = json.loads((tmp_path / "counts.json").read_text())
    assert (odd["ours"], odd["theirs"]) == (None, None)
    assert loop["ours"] == sum(loop["kinds"].values())
    assert load_feeds(models[1], tmp_path)["x"].shape == (4, 2)


def test_more_tasks_than_nodes_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = saved(LOOP, tmp_path / "loop.onnx")
    monkeypatch.setattr(task_counts, "_optimised_nodes", lambda model, target: 1)
    with pytest.raises(SystemExit) as ended:
        task_counts.main([model])
    assert ended.value.code == task_counts.EXIT_MORE

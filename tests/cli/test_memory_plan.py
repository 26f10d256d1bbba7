"""What `convert` and `inspect` say of the arena: its strategies, its peak, and what lies above the lower bound."""

from pathlib import Path

import onnx

from tests.models_of_lives import HARD_LIVES, model_of_lives

from .conftest import Invoke


def test_a_gap_is_printed_with_the_values_that_cause_it(invoke: Invoke, tmp_path: Path) -> None:
    onnx.save(model_of_lives(HARD_LIVES), tmp_path / "m.onnx")
    convert = ["convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m", "--oo_level", "O0"]
    memory = invoke(*convert, "--json").envelope["result"]["memory"]
    assert memory["arena"] > 1.05 * memory["lower_bound"]
    tried = {strategy["name"]: strategy["arena_bytes"] for strategy in memory["strategies"]}
    assert len(tried) == 8 and memory["arena"] == min(tried.values())  # each was tried, none met the bound
    above = memory["above_bound"]
    assert above and all(value["offset"] + value["nbytes"] > memory["lower_bound"] for value in above)
    assert max(value["offset"] + value["nbytes"] for value in above) == memory["arena"]
    [line] = [line for line in invoke(*convert).out.splitlines() if line.split()[0] == "gap"]
    assert line == "  gap        9 % above the bound where the search ended: v8 40.0 KB"


def test_a_plan_that_meets_the_bound_has_no_gap(invoke: Invoke, tmp_path: Path) -> None:
    onnx.save(model_of_lives(HARD_LIVES[:4]), tmp_path / "m.onnx")
    convert = ["convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m", "--oo_level", "O0"]
    memory = invoke(*convert, "--json").envelope["result"]["memory"]
    assert memory["arena"] == memory["lower_bound"] and memory["above_bound"] == []
    assert "  gap " not in invoke(*convert).out

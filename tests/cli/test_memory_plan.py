"""What `convert` and `inspect` say of the arena: its strategies, its peak, and what lies above the lower bound."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import pytest

from atcpy import InferenceSession
from tests.models_in_text import model as parse
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


OPEN = """m (float[n,64] x, float[n,k] z) => (float[n,64] y, float[n,k] w) {
    a = Softmax(x)  b = Softmax(a)  c = Add(a, b)  y = Softmax(c)  w = Softmax(z) }"""


def save(model: onnx.ModelProto, path: Path) -> Path:
    onnx.save(model, path)
    return path


def test_the_table_names_what_bounds_the_arena(invoke: Invoke, tmp_path: Path) -> None:
    save(model_of_lives(HARD_LIVES), tmp_path / "m.onnx")
    invoke("convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m", "--oo_level", "O0")
    memory = invoke("inspect", tmp_path / "m.om", "--memory", "--json").envelope["result"]["memory"]
    [plan] = memory["plans"]
    assert (plan["arena"], plan["lower_bound"]) == (memory["arena"], memory["lower_bound"])
    assert plan["ratio"] == plan["arena"] / plan["lower_bound"] > 1.05
    at_peak = [plan["buffers"][number] for number in plan["peak"]["buffers"]]
    assert sum(buffer["bytes"] for buffer in at_peak) == plan["lower_bound"]
    assert all(b["first_task"] <= plan["peak"]["task"] <= b["last_task"] for b in at_peak)
    assert plan["peak"]["values"][0] == "v7"  # of 140 KB
    assert [plan["buffers"][number]["values"] for number in plan["above_bound"]] == [["v8"]]
    shown = invoke("inspect", tmp_path / "m.om", "--memory").out
    assert f"arena {plan['arena']} bytes, lower bound {plan['lower_bound']}: 20416 bytes above it (1.089×)" in shown
    assert "at the peak, task" in shown and "above the lower bound" in shown


def test_a_picture_is_drawn(invoke: Invoke, tmp_path: Path, package: Path) -> None:
    ran = invoke("inspect", package, "--memory", "--svg", tmp_path / "a.svg", "--json")
    assert (ran.code, ran.envelope["result"]["svg"]) == (0, str(tmp_path / "a.svg"))
    assert ET.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    invoke("inspect", package, "--memory", "--svg", tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_picture_that_cannot_be_written_leaves_the_old_one(invoke: Invoke, tmp_path: Path, package: Path) -> None:
    (tmp_path / "a.svg").mkdir()
    ran = invoke("inspect", package, "--memory", "--svg", tmp_path / "a.svg")
    assert ((ran.code, ran.out) == (2, "") and "E10022" in ran.err) or "E13004" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


@pytest.mark.parametrize("option", [["--svg", "a.svg"], ["--shape", "x=1,2"]], ids=["svg", "shape"])
def test_options_of_the_table_need_it(invoke: Invoke, package: Path, option: list[str]) -> None:
    ran = invoke("inspect", package, *option)
    assert ran.code == 2 and "E10057" in ran.err and "--memory" in ran.err


def test_open_dims_are_planned_for_the_shapes_of_a_run(invoke: Invoke, tmp_path: Path) -> None:
    save(parse(OPEN), tmp_path / "m.onnx")
    invoke("convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m", "--oo_level", "O0")
    package = tmp_path / "m.om"
    assert "for the plan of a run: --shape" in invoke("inspect", package, "--memory").out
    ran = invoke("inspect", package, "--memory", "--shape", "x=3,64", "--shape", "z=3,5", "--json")
    [plan] = ran.envelope["result"]["memory"]["plans"]
    session = InferenceSession(package, threads=1)
    session.run(None, {"x": np.zeros((3, 64), np.float32), "z": np.zeros((3, 5), np.float32)})
    [run] = session.plans
    assert plan["arena"] == run.arena_bytes
    assert [(b["values"], b["bytes"]) for b in plan["buffers"]] == [(["a", "c"], 768), (["b"], 768)]


@pytest.mark.parametrize(
    ("shapes", "code", "hint"),
    [
        (["x=3,64"], "E10054", "--shape z=3,k"),
        (["x=3,64", "z=3,5,6"], "E10049", ""),
        (["x=3,63", "z=3,5"], "E10405", "x is [n,64], not [3, 63]"),
        (["x=3,64", "z=4,5"], "E10405", "n is 3 elsewhere"),
        (["q=3"], "E10404", "the inputs are x, z"),
    ],
    ids=["some are missing", "rank", "a fixed dim", "one name, two sizes", "no input"],
)
def test_shapes_that_no_run_has_are_refused(
    invoke: Invoke, tmp_path: Path, shapes: list[str], code: str, hint: str
) -> None:
    save(parse(OPEN), tmp_path / "m.onnx")
    invoke("convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m")
    options = [word for shape in shapes for word in ("--shape", shape)]
    ran = invoke("inspect", tmp_path / "m.om", "--memory", "--svg", tmp_path / "m.svg", *options)
    assert ran.code == 2 and code in ran.err and hint in ran.err
    assert not (tmp_path / "m.svg").exists()


def test_shapes_of_fixed_sizes_are_refused(invoke: Invoke, package: Path) -> None:
    ran = invoke("inspect", package, "--memory", "--shape", "x=2,3")
    assert ran.code == 2 and "E10057" in ran.err and "are fixed" in ran.err


def test_sizes_that_data_decide_have_no_plan_ahead(invoke: Invoke, tmp_path: Path) -> None:
    save(
        parse("m (float[n] x, int64[2] s) => (float[a,b] y) { r = Reshape(x, s)  y = Softmax(r) }"), tmp_path / "m.onnx"
    )
    invoke("convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m")
    ran = invoke("inspect", tmp_path / "m.om", "--memory", "--shape", "x=6")
    assert ran.code == 2 and "E10057" in ran.err and "data decide it in a run" in ran.err


def test_sizes_outside_their_range_are_refused(invoke: Invoke, tmp_path: Path) -> None:
    save(parse("m (float[n,8] x) => (float[n,8] y) { a = Softmax(x)  y = Softmax(a) }"), tmp_path / "m.onnx")
    options = ["--input_shape", "x:2~128,8", "--oo_level", "O0"]
    invoke("convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m", *options)
    ran = invoke("inspect", tmp_path / "m.om", "--memory", "--shape", "x=1,8")
    assert ran.code == 2 and "E10405" in ran.err and "dimension 0 may be 2 to 128" in ran.err


@pytest.mark.parametrize(
    ("text", "shapes", "code", "said"),
    [
        (OPEN, [f"x={2**40},64", f"z={2**40},5"], "E10013", "no plan of the package serves x=1099511627776,64;z="),
        (
            "m (float[n] x) => (float[k] y) { s = SequenceConstruct(x, x)  y = ConcatFromSequence<axis = 0>(s) }",
            ["x=6"], "E10057", "no plan of the whole model",
        ),
    ],
    ids=["too large", "sequences"],
)  # fmt: skip
def test_what_no_plan_serves_is_refused(
    invoke: Invoke, tmp_path: Path, text: str, shapes: list[str], code: str, said: str
) -> None:
    save(parse(text), tmp_path / "m.onnx")
    invoke("convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m", "--oo_level", "O0")
    options = [word for shape in shapes for word in ("--shape", shape)]
    ran = invoke("inspect", tmp_path / "m.om", "--memory", *options)
    assert ran.code == 2 and code in ran.err and said in ran.err and "--plans" in ran.err


def test_each_gear_has_a_plan_of_its_own(invoke: Invoke, tmp_path: Path) -> None:
    save(parse("m (float[n,64] x) => (float[n,64] y) { a = Softmax(x)  y = Softmax(a) }"), tmp_path / "m.onnx")
    options = ["--input_shape", "x:-1,64", "--dynamic_batch_size", "1,4", "--oo_level", "O0"]
    invoke("convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m", *options)
    for gear, batch in enumerate((1, 4)):
        ran = invoke("inspect", tmp_path / "m.om", "--memory", "--gear", gear, "--json")
        [plan] = ran.envelope["result"]["memory"]["plans"]
        assert (plan["plan"], plan["arena"]) == (f"gear {batch}", 256 * batch)

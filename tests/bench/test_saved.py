import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atcpy.bench.saved import SCHEMA, compare, decode_run, read_saved
from atcpy.errors import UsageError


def layer(op: str, median: float, *nodes: str) -> dict[str, Any]:
    return {"op": op, "nodes": list(nodes), "median": median, "ci": [median, median]}


RUN: dict[str, Any] = {
    "machine": {"cpu": "Fast", "isa": "avx2", "cores": [0]},
    "package": {"name": "m.om", "sha256": "aa", "model_sha256": "bb"},
    "threads": 2,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 3]}],
    "sides": [
        {"name": "atcpy", "engine": "atcpy", "version": "1.0", "median": 2.0, "ci": [1.9, 2.1]},
        {"name": "ort 1.31", "engine": "ort", "version": "1.31.1", "median": 3, "ci": [2.9, 3.1]},
    ],
    "layers": [layer("Conv", 1.0, "c"), layer("Cast", 0.5, "c"), layer("Cast", 0.5, "c"), layer("Relu", 0.1, "r")],
}
Change = Callable[[dict[str, Any]], Any]


def changed(change: Change) -> dict[str, Any]:
    run = copy.deepcopy(RUN)
    change(run)
    return run


def write(path: Path, result: object) -> str:
    path.write_text(json.dumps({"schema": SCHEMA, "version": "0.9", "result": result}))
    return str(path)


def test_a_run_is_the_same_as_itself(tmp_path: Path) -> None:
    found = compare(read_saved(write(tmp_path / "j", RUN)), decode_run(RUN))
    assert (found.version, found.same_package, found.differences, found.unmatched_layers) == ("0.9", True, (), 0)
    assert [(side.name, side.ratio.ratio, side.ratio.verdict) for side in found.sides] == [
        ("atcpy", 1.0, "same"),
        ("ort 1.31", 1.0, "same"),
    ]
    assert [(each.op, each.nodes) for each in found.layers] == [
        ("Conv", ("c",)), ("Cast", ("c",)), ("Cast", ("c",)), ("Relu", ("r",)),
    ]  # fmt: skip
    assert {each.ratio.verdict for each in found.layers} == {"same"}


def test_the_ratio_is_how_many_times_faster_it_is_now(tmp_path: Path) -> None:
    def faster(run: dict[str, Any]) -> None:
        run["sides"] = [{**run["sides"][0], "median": 1.0, "ci": [0.9, 1.1]}]
        run["package"]["sha256"] = "cc"
        run["layers"] = [layer("Cast", 0.5, "c"), layer("Cast", 0.25, "c"), layer("Gemm", 1.0, "g")]

    found = compare(read_saved(write(tmp_path / "j", {"runs": [RUN]})), decode_run(changed(faster)))
    assert [(side.before, side.after, side.ratio.ratio, side.ratio.verdict) for side in found.sides] == [
        (2.0, 1.0, 2.0, "faster")
    ]
    # Of two tasks of the same op and nodes the first is compared with the first.
    assert [(each.op, each.ratio.verdict) for each in found.layers] == [("Cast", "same"), ("Cast", "faster")]
    assert found.unmatched_layers == 3  # Conv, Relu, and Gemm
    assert not found.same_package
    assert found.differences == ()


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda run: run["machine"].update(cpu="Slow"), "another CPU: Fast, now Slow"),
        (lambda run: run["machine"].update(isa="scalar"), "another instruction set: avx2, now scalar"),
        (lambda run: run["package"].update(model_sha256="b2"), "another model: bb, now b2"),
        (lambda run: run["package"].update(model_sha256=None), "another model: bb, now aa"),
        (lambda run: run["inputs"][0].update(shape=[2, 3]), "another inputs: x[1, 3], now x[2, 3]"),
        (lambda run: run["sides"][1].update(version="1.32.0"), "another ort: 1.31.1, now 1.32.0"),
    ],
)
def test_another_setting_is_said(change: Change, difference: str, tmp_path: Path) -> None:
    saved = read_saved(write(tmp_path / "j", RUN))
    assert compare(saved, decode_run(changed(change))).differences == (difference,)


def test_another_version_of_atcpy_is_what_is_compared(tmp_path: Path) -> None:
    newer = changed(lambda run: run["sides"][0].update(version="2.0"))
    assert compare(read_saved(write(tmp_path / "j", RUN)), decode_run(newer)).differences == ()


DAMAGE: dict[str, Change] = {
    "no sides": lambda run: run.pop("sides"),
    "not the side of the package": lambda run: run["sides"].pop(0),
    "a time of 0": lambda run: run["sides"][0].update(median=0),
    "a time that is no number": lambda run: run["sides"][0].update(median="1"),
    "true for a time": lambda run: run["sides"][0].update(median=True),
    "infinity": lambda run: run["sides"][0].update(ci=[1, float("inf")]),
    "an integer too large for a float": lambda run: run["sides"][0].update(median=10**400),
    "an interval of three": lambda run: run["sides"][0].update(ci=[1, 2, 3]),
    "threads as text": lambda run: run.update(threads="2"),
    "layers of another form": lambda run: run.update(layers=[1]),
    "nodes that are no texts": lambda run: run["layers"][0].update(nodes=[[]]),
    "a machine that is a list": lambda run: run.update(machine=[]),
    "shapes without integers": lambda run: run["inputs"][0].update(shape=[None]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_records_are_refused(damage: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not what bench --save writes") as caught:
        read_saved(write(tmp_path / "j", changed(DAMAGE[damage])))
    assert caught.value.code == "E13005"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "7", "{}", "[" * 100_000, '{"schema": "atcpy.run/1", "version": "1", "result": {}}',
     '{"schema": "atcpy.bench/1", "version": "1", "result": null}',
     '{"schema": "atcpy.bench/1", "version": "1", "result": {"runs": 1}}', "\xff"],
)  # fmt: skip
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as caught:
        read_saved(str(tmp_path / "j"))
    assert caught.value.code == "E13005"


def test_the_schema_of_another_version_is_refused(tmp_path: Path) -> None:
    record = {"schema": "atcpy.bench/2", "version": "9.0", "result": RUN}
    (tmp_path / "j").write_text(json.dumps(record))
    with pytest.raises(UsageError, match=r"its schema is 'atcpy\.bench/2', not 'atcpy\.bench/1'"):
        read_saved(str(tmp_path / "j"))

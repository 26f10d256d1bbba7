"""--singleop: operators that a file describes become packages of their own, under ATC's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from tests.cli.conftest import Invoke, Ran

SOC = "--soc_version=Ascend310P3"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def desc(shape: list[int], dtype: str = "float", **more: Any) -> dict[str, Any]:
    return {"format": "ND", "shape": shape, "type": dtype, **more}


def converted(invoke: Invoke, *ops: Any, options: tuple[str, ...] = ()) -> Ran:
    Path("ops.json").write_text(json.dumps(list(ops)))
    return invoke("atc", "--singleop=ops.json", "--output=out", SOC, *options)


def packages() -> list[str]:
    return sorted(path.name for path in Path("out").iterdir()) if Path("out").exists() else []


ADD = {
    "op": "Add",
    "input_desc": [desc([8, 16], "int32"), desc([8, 16], "int32")],
    "output_desc": [desc([8, 16], "int32")],
}


def test_an_operator_becomes_a_package_with_the_name_that_atc_gives(invoke: Invoke) -> None:
    ran = converted(invoke, ADD)
    assert ran.code == 0, ran.out
    assert packages() == ["0_Add_3_2_8_16_3_2_8_16_3_2_8_16.om"]
    a, b = np.arange(256, dtype=np.int32).reshape(2, 8, 16)
    [sums] = InferenceSession(f"out/{packages()[0]}").run(None, {"x0": a, "x1": b})
    np.testing.assert_array_equal(sums, a + b)


def test_each_operator_of_a_file(invoke: Invoke) -> None:
    axis = {"name": "axis", "type": "int", "value": 1}
    named = {
        "op": "Concat",
        "name": "joined",
        "input_desc": [desc([2, 1], name="a"), desc([2, 3], name="b"), desc([2, 2], name="c")],
        "output_desc": [desc([2, 6])],
        "attr": [axis],
    }
    cast = {
        "op": "Cast",
        "input_desc": [desc([3], "float16")],
        "output_desc": [desc([3], "int64")],
        "attr": [{"name": "to", "type": "data_type", "value": "int64"}],
    }
    reshape = {
        "op": "Reshape",
        "name": "reshape",
        "input_desc": [desc([2, 3]), desc([1], "int64", is_const=True, const_value=[6])],
        "output_desc": [desc([6])],
    }
    ran = converted(invoke, named, cast, reshape)
    assert ran.code == 0, ran.out
    assert packages() == ["1_Cast_1_2_3_9_2_3.om", "joined.om", "reshape.om"]
    parts = [np.random.default_rng(n).random((2, n), np.float32) for n in (1, 3, 2)]
    [y] = InferenceSession("out/joined.om").run(None, dict(zip("abc", parts, strict=True)))
    np.testing.assert_array_equal(y, np.concatenate(parts, 1))
    [y] = InferenceSession("out/1_Cast_1_2_3_9_2_3.om").run(None, {"x0": np.float16([1.5, -2.25, 3])})
    np.testing.assert_array_equal(y, np.int64([1, -2, 3]))
    assert [port.name for port in InferenceSession("out/reshape.om").get_inputs()] == ["x0"]


def test_inputs_that_are_left_out_and_open_sizes(invoke: Invoke) -> None:
    absent = {"format": "ND", "type": "UNDEFINED"}
    clip = {
        "op": "Clip",
        "input_desc": [desc([-1, 2]), absent, desc([])],
        "output_desc": [desc([-1, 2])],
    }
    ran = converted(invoke, clip)
    assert ran.code == 0, ran.out
    assert packages() == ["0_Clip_0_2_-1_2_0_2_0_2_-1_2.om"]
    x = np.float32([[-1, 2], [3, 0.5], [1, 9]])
    [y] = InferenceSession(f"out/{packages()[0]}").run(None, {"x0": x, "x2": np.float32(1)})
    np.testing.assert_array_equal(y, np.minimum(x, 1))


@pytest.mark.parametrize(
    ("change", "code", "status"),
    [
        ({"op": "Adds"}, "E19010", 4),
        ({"op": None}, "E20003", 2),
        ({"input_desc": [desc([8, 16])]}, "E12009", 3),  # an input is missing
        ({"input_desc": [desc([8, 16])] * 3}, "E20003", 2),
        ({"input_desc": [desc([8, 16]), desc([8, 16], "float33")]}, "E20003", 2),
        ({"input_desc": [desc([8, 16]), desc([8, -2])]}, "E20003", 2),
        ({"input_desc": [desc([8, 16]), desc([8, 16], format="NC1HWC0")]}, "E20003", 2),
        ({"input_desc": [desc([8, 16]), desc([8, 16], is_const=True)]}, "E20003", 2),
        ({"input_desc": [desc([8, 16]), desc([8, 16], const_value=[1, 2])]}, "E20003", 2),
        ({"output_desc": []}, "E20003", 2),
        ({"attr": [{"name": "alpha", "type": "float", "value": 1}]}, "E13014", 3),
        ({"attr": [{"name": "alpha", "type": "float"}]}, "E20003", 2),
        ({"name": "a/b"}, "E20003", 2),
        ({"outputs": []}, "E20003", 2),
    ],
)
def test_descriptions_that_are_wrong(invoke: Invoke, change: dict[str, Any], code: str, status: int) -> None:
    ran = converted(invoke, {**ADD, **change})
    assert (ran.code, code in ran.out) == (status, True), ran.out
    assert packages() == []


@pytest.mark.parametrize("output", [desc([8, 15], "int32"), desc([8, 16, 1], "int32"), desc([8, 16], "int64")])
def test_outputs_are_what_they_are_declared_to_be(invoke: Invoke, output: dict[str, Any]) -> None:
    ran = converted(invoke, {**ADD, "output_desc": [output]})
    assert (ran.code, "output 0 is int32 [8,16], not" in ran.out) == (2, True), ran.out
    assert packages() == []


def test_two_packages_have_two_names(invoke: Invoke) -> None:
    ran = converted(invoke, {**ADD, "name": "a"}, {**ADD, "name": "a"})
    assert (ran.code, "E20003" in ran.out) == (2, True)
    assert converted(invoke, {**ADD, "name": "a"}, {**ADD, "name": "b"}).code == 0


def test_files_that_are_no_list_of_operators(invoke: Invoke, folder: Path) -> None:
    for text, code in (("[", "E10025"), ("[]", "E20003"), ("[1]", "E20003")):
        (folder / "ops.json").write_text(text)
        ran = invoke("atc", "--singleop=ops.json", "--output=out", SOC)
        assert (ran.code, code in ran.out) == (2, True), ran.out
    assert "E10001" in invoke("atc", "--singleop=none.json", "--output=out", SOC).out
    (folder / "ops.json").write_text(json.dumps(ADD))  # one without a list
    assert invoke("atc", "--singleop=ops.json", "--output=out", SOC).code == 0


@pytest.mark.parametrize("option", ["--framework=5", "--mode=1", "--insert_op_conf=a.cfg", "--display_model_info=1"])
def test_options_of_models_do_not_go_with_it(invoke: Invoke, option: str) -> None:
    ran = converted(invoke, ADD, options=(option,))
    assert (ran.code, "E10001" in ran.out) == (2, True)
    assert packages() == []


def test_options_that_go_with_it(invoke: Invoke) -> None:
    assert converted(invoke, ADD, options=("--mode=0", "--display_model_info=0")).code == 0
    for missing in ("--output=out", SOC):
        words = [word for word in ("--singleop=ops.json", "--output=out", SOC) if word != missing]
        assert "E10054" in invoke("atc", *words).out


@pytest.mark.parametrize(("left", "right"), [(False, False), (True, False), (False, True)])
def test_products_have_the_attributes_of_ge(invoke: Invoke, left: bool, right: bool) -> None:
    a = np.arange(6, dtype=np.float32).reshape((3, 2) if left else (2, 3))
    b = np.arange(12, dtype=np.float32).reshape((4, 3) if right else (3, 4))
    descs = [{"format": "ND", "shape": list(array.shape), "type": "float"} for array in (a, b)]
    attrs = [{"name": f"transpose_x{n}", "type": "bool", "value": on} for n, on in ((1, left), (2, right))]
    output = {"format": "ND", "shape": [2, 4], "type": "float"}
    op = {"op": "MatMul", "name": "product", "input_desc": descs, "output_desc": [output], "attr": attrs}
    Path("mm.json").write_text(json.dumps([op]))
    assert invoke("atc", "--singleop=mm.json", "--output=out", "--soc_version=Ascend310P3").code == 0
    [y] = InferenceSession("out/product.om").run(None, {"x0": a, "x1": b})
    np.testing.assert_array_equal(y, (a.T if left else a) @ (b.T if right else b))
    attrs[0]["value"] = 1
    Path("mm.json").write_text(json.dumps([op]))
    assert "E20003" in invoke("atc", "--singleop=mm.json", "--output=out", "--soc_version=Ascend310P3").out

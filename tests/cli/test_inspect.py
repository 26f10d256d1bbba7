import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from atcpy import InferenceSession
from tests.models_in_text import model as parse

from .conftest import Invoke


def test_the_info_block_is_atcs(invoke: Invoke, package: Path) -> None:
    lines = invoke("inspect", package, "--model-info").out.splitlines()
    assert lines[0] == "============ Display Model Info start ============"
    assert lines[1] == "Original Atc command line: atcpy convert"
    assert lines[2] == "system   info: atc_version[0.1.0], soc_version[Ascend910], framework_type[onnx]."
    assert lines[5] == "============ Display Model Info end   ============"
    assert "CANN's own runtime cannot load this package" in lines[6]
    assert invoke("inspect", package).out.splitlines() == lines[6:]


def test_the_result_has_the_keys_of_convert(invoke: Invoke, package: Path, model: Path, tmp_path: Path) -> None:
    converted = invoke("convert", "--model", model, "-o", tmp_path / "m", "--json").envelope["result"]
    inspected = invoke("inspect", package, "--json").envelope["result"]
    same = (
        "bytes",
        "sha256",
        "source",
        "soc",
        "nodes_before",
        "task_count",
        "engines",
        "host_cpu_ops",
        "custom_ops",
        "gears",
    )
    assert {key: inspected[key] for key in same} == {key: converted[key] for key in same}
    assert inspected["outputs"][0]["name"] == "y"


def test_tasks_trace_back_to_the_model(invoke: Invoke, package: Path) -> None:
    [task] = invoke("inspect", package, "--tasks", "--json").envelope["result"]["tasks"]
    assert (task["op"], task["engine"], task["stream"], task["sources"]) == ("MatMul", "AIcoreEngine", 0, ["y"])
    assert task["kernel"].startswith("matmul_f32_")
    [output] = task["outputs"]
    assert (output["name"], output["dtype"], output["format"], output["bytes"]) == ("y", "float32", "ND", 32)


# In a plan for open sizes, rows that take some launches only are not named.
@pytest.mark.parametrize(("rows", "mode"), [("32", "origin"), ("32", "mixed_bfloat16"), ("n", "origin")])
def test_kernels_are_those_that_this_cpu_binds(rows: str, mode: str, invoke: Invoke, tmp_path: Path) -> None:
    text = f"m (float[{rows},64] x) => (float[{rows},48] y) <float[64,48] w> {{ y = MatMul(x, w) }}"
    onnx.save(parse(text), tmp_path / "m.onnx")
    assert invoke("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.om", "--precision_mode_v2", mode).code == 0
    tasks = invoke("inspect", tmp_path / "m.om", "--tasks", "--json").envelope["result"]["tasks"]
    session = InferenceSession(tmp_path / "m.om", threads=1)
    session.run(None, {"x": np.ones((32, 64), np.float32)})
    [bound] = {row for plan in session.plans for row in plan.plan.rows() if row and row.startswith("matmul")}
    [listed] = {task["kernel"] for task in tasks if task["kernel"].startswith("matmul")}
    assert listed == bound


@pytest.mark.parametrize(
    ("table", "texts"),
    [
        ("io", ["input", "x", "float32", "[2,3]"]),
        ("nodes", ["MatMul", "AIcoreEngine"]),
        ("tasks", ["MatMul", "matmul_f32"]),
        ("weights", ["w", "FRACTAL_NZ", "[3,4]"]),
        ("passes", ["ConstantFoldingPass", "prepare"]),
        ("precision", ["origin: 0 nodes lowered"]),
        ("memory", ["lower bound", "largest values"]),
        ("provenance", ["model sha256", "hand", "ai.onnx 17"]),
    ],
)
def test_each_table_shows_its_matter(invoke: Invoke, package: Path, table: str, texts: list[str]) -> None:
    shown = invoke("inspect", package, f"--{table}").out.partition(f"\n\n{table}\n")[2]
    assert [word for word in texts if word not in shown] == []
    assert invoke("inspect", package, "--all").out.count(f"\n\n{table}\n") == 1


def test_a_node_is_found_by_its_name_and_by_the_models(invoke: Invoke, package: Path) -> None:
    ran = invoke("inspect", package, "--node", "y")
    assert ran.out.splitlines()[0] == "y  MatMul  AIcoreEngine"
    ran = invoke("inspect", package, "--node", "yy")
    assert (ran.code, ran.err.splitlines()[0]) == (2, f'error[E10016] --node: no node "yy" in {package}')


def test_damage_is_exit_7_and_never_repaired(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "m.om"
    content = bytearray(package.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    ran = invoke("inspect", damaged)
    assert (ran.code, ran.out) == (7, "")
    assert ran.err.startswith("error[P0003]")
    assert damaged.read_bytes() == content
    damaged.write_bytes(content[:100])
    assert invoke("inspect", damaged).code == 7
    damaged.write_bytes(b"")
    assert invoke("run", damaged).code == 7


def test_a_package_may_have_any_name(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    shutil.copy(package, tmp_path / "package.bin")
    assert "cannot load this package" in invoke("inspect", tmp_path / "package.bin").out


def test_a_model_is_told_from_a_package(invoke: Invoke, model: Path) -> None:
    ran = invoke("inspect", model, "--nodes")
    assert "an ONNX model, not yet converted" in ran.out
    assert "  inputs     x float32 [2,3]" in ran.out
    assert ran.out.splitlines()[-3:] == ["op        count", "Constant      1", "MatMul        1"]
    ran = invoke("inspect", model, "--tasks")
    assert (ran.code, ran.err.splitlines()[0]) == (
        2, f"error[E10057] --tasks: {model} is a model, and only a package has that"
    )  # fmt: skip


def test_tasks_of_open_dims_name_their_plan(invoke: Invoke, tmp_path: Path) -> None:
    text = "g (float[n] x) => (float[k] z) { y = Neg(x) i = NonZero(y) j = Transpose(i) g = GatherND(y, j) z = Exp(g) }"
    onnx.save(parse(text), tmp_path / "m.onnx")
    invoke("convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m")
    tasks = invoke("inspect", tmp_path / "m.om", "--tasks", "--json").envelope["result"]["tasks"]
    assert {(task["plan"], task["op"]) for task in tasks} >= {("0.0.0.0", "NonZero"), ("0.0.0.1", "Exp")}
    assert all(output["offset"] is None for task in tasks for output in task["outputs"])
    assert "0.0.0.1" in invoke("inspect", tmp_path / "m.om", "--tasks").out


def test_plans_that_assume_full_caches_say_so(invoke: Invoke, tmp_path: Path) -> None:
    text = """g (float[b,n,16] x, int32[b] ends, int32[1] total, float[b,1,p,8] k, float[b,1,p,8] v) =>
        (float[b,n,16] y, float[b,1,t,8] all_k, float[b,1,t,8] all_v) {
        i, j = Split<axis=2, num_outputs=2>(x)
        y, all_k, all_v = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1>
            (x, i, j, k, v, ends, total) }"""
    onnx.save(parse(text), tmp_path / "m.onnx")
    invoke("convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m")
    plans = invoke("inspect", tmp_path / "m.om", "--plans", "--json").envelope["result"]["plans"]
    conditional = {plan["plan"] for plan in plans if "all rows of the caches are in use" in plan["guards"]}
    assert {"0.0.0.0", "0.0.0.0.states"} <= conditional < {plan["plan"] for plan in plans}


@pytest.mark.usefixtures("all_variants")
def test_plans_of_open_dims_list_their_guards(invoke: Invoke, tmp_path: Path) -> None:
    text = (
        "g (float[batch,tokens,8] x) => (float[batch,tokens,tokens] y)"
        " { t = Transpose<perm=[0,2,1]>(x) y = MatMul(x, t) }"
    )
    onnx.save(parse(text), tmp_path / "m.onnx")
    converted = invoke("convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m")
    assert "1 task, planned for all sizes that keep 2 guards, 3 plans more for other sizes" in converted.out
    plans = invoke("inspect", tmp_path / "m.om", "--plans", "--json").envelope["result"]["plans"]
    assert plans == [
        {"plan": "0.0.0.0", "tasks": 1, "arena": 0, "guards": ["batch >= 1", "tokens >= 1"]},
        {"plan": "0.0.1.0", "tasks": 0, "arena": 0, "guards": ["batch >= 1", "tokens == 0"]},
        {"plan": "0.0.2.0", "tasks": 0, "arena": 0, "guards": ["batch == 0", "tokens >= 1"]},
        {"plan": "0.0.3.0", "tasks": 0, "arena": 0, "guards": ["batch == 0", "tokens == 0"]},
    ]
    shown = invoke("inspect", tmp_path / "m.om", "--plans").out
    assert "0.0.1.0      0      0  batch >= 1, tokens == 0" in shown
    assert "1 task, planned for all sizes that keep 2 guards" in shown


SQUARES = "g (float[n,8] x) => (float[n,n] y) { t = Transpose(x) p = MatMul(x, t) s = Softmax(p) y = MatMul(s, p) }"


@pytest.mark.parametrize(
    ("options", "arena", "text", "column"),
    [
        (["--input_shape", "x:2~128,8"], 2 * 4 * 128 * 128, "arena at most 128.0 KB", "131072  n >= 2, n <= 128"),
        ([], None, "arena sized at run time", "by size  n >= 1"),
    ],
    ids=["bounded", "open"],
)
def test_the_arena_of_many_sizes(
    invoke: Invoke, tmp_path: Path, options: list[str], arena: int | None, text: str, column: str
) -> None:
    onnx.save(parse(SQUARES), tmp_path / "m.onnx")
    convert = ["convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m", *options]
    assert text in invoke(*convert).out
    memory = invoke(*convert, "--json").envelope["result"]["memory"]
    assert (memory["arena"], memory["lower_bound"], memory["unshared"]) == (arena, None, None)
    inspected = invoke("inspect", tmp_path / "m.om", "--json").envelope["result"]["memory"]
    assert (inspected["arena"], inspected["lower_bound"], inspected["unshared"]) == (arena, None, None)
    shown = invoke("inspect", tmp_path / "m.om", "--plans", "--memory").out
    assert shown.count(text) == 2 and column in shown

"""Netron opens what we write and shows every node, shape and weight."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import netron
import onnx
import pytest

from atcpy.ir import CompiledModel
from atcpy.om import writer
from atcpy.om.container import Partition, Sign
from atcpy.om.reader import parse_package, read_model, read_package
from atcpy.om.schema.task_pb2 import ModelTaskDef
from atcpy.om.signature import SigningKey
from atcpy.ops import all_opdefs
from atcpy.options import ExternalWeight, convert_options
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model
from tests.om import sample
from tests.om.signing_keys import private_key

ROOT = Path(__file__).parents[2]
CHECKER = ROOT.parent / "shared/tools/netron_om/netron_om.mjs"
LISTED = (ROOT / "atcpy/om/schema/netron_unknown.txt").read_text().splitlines()
STREAM_ACTIVE_TASK = 8  # RT_MODEL_TASK_STREAM_ACTIVE
KNOWN = {entry["name"] for entry in json.loads((Path(netron.__file__).parent / "om-metadata.json").read_text())}


def opened(
    compiled: CompiledModel,
    folder: Path,
    sign: Sign | None = None,
    external: ExternalWeight = ExternalWeight.INSIDE,
) -> Mapping[str, Any]:
    checker = Path(os.environ.get("NETRON_OM", CHECKER))
    if not shutil.which("node"):
        pytest.skip("needs node")
    if not checker.exists():
        pytest.skip("needs ../shared/tools/netron_om")
    writer.write(folder / "m.om", compiled, sign=sign, external=external)
    run = subprocess.run(
        ["node", str(checker), "--strict", "--nodes", "all", "--allow-type", ",".join(LISTED), str(folder / "m.om")],
        env={**os.environ, "PYTHON": sys.executable}, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(run.stdout)
    assert run.returncode == 0, (found.get("error"), found.get("problems"), found.get("warnings"))
    return found


@pytest.mark.parametrize("external", [ExternalWeight.FILES, ExternalWeight.COMBINED])
def test_opens_with_weights_in_files(external: ExternalWeight, tmp_path: Path) -> None:
    text = "wide (float[4,60] x) => (float[4,70] y) <float[60,70] w, float[70] b> { h = MatMul(x, w)  y = Add(h, b) }"
    compiled, _ = compile_model(model(text), convert_options({}))
    (graph,) = opened(compiled, tmp_path, external=external)["graphs"]
    assert graph["types"].get("FileConstant") == 1 and os.listdir(tmp_path / "weight")


def test_opens_with_all_nodes_shapes_and_weights(tmp_path: Path) -> None:
    compiled = sample.small()
    found = opened(compiled, tmp_path)
    (graph,) = found["graphs"]
    assert graph["types"] == {"Conv2D": 1, "Data": 1, "NetOutput": 1, "Relu": 1, "TransData": 2}
    assert graph["inputs"] == [{"name": "x:0", "dtype": "float32", "shape": [1, 3, 8, 8], "layout": "NCHW"}]
    assert [(o["name"], o["shape"]) for o in graph["outputs"]] == [("y_4d:0", [1, 4, 8, 8])]
    blob = parse_package((tmp_path / "m.om").read_bytes()).weights
    assert {w["name"]: w["sha256"] for w in graph["initializers"]} == {
        f"{w.name}:0": hashlib.sha256(blob[w.offset : w.offset + w.nbytes]).hexdigest() for w in compiled.weights
    }
    assert found["producer"]["soc_version"] == "Ascend910"
    conv = next(node for node in graph["list"] if node["name"] == "conv")
    assert conv["attributes"]["pads"]["value"] == [1, 1, 1, 1]
    assert conv["attributes"]["auto_pad"]["value"] == "NOTSET"


def test_opens_with_a_signature(tmp_path: Path) -> None:
    sign = SigningKey(private_key()).sign
    assert opened(sample.small(), tmp_path, sign)["graphs"] == opened(sample.small(), tmp_path)["graphs"]


def test_opens_with_rare_types_bodies_and_symbolic_dims(tmp_path: Path) -> None:
    found = opened(sample.odd(), tmp_path)
    assert [graph["name"] for graph in found["graphs"]] == ["odd ☃", "1.body", "2.body"]
    constants = {w["name"]: (w["dtype"], w["shape"]) for w in found["graphs"][0]["initializers"]}
    assert constants["f8:0"] == ("uint8", [2]) and constants["u4:0"] == ("uint8", [2])
    assert constants["i4:0"] == ("int4", [3]) and constants["f64 scalar:0"] == ("float64", [])


def test_opens_with_collectives_on_a_stream_of_their_own(tmp_path: Path) -> None:
    text = """g (float[8] x, float[4] y) => (float[8] a, float[4] b) {
        a0 = Exp(x) a1 = HcomAllReduce<reduction = "sum">(a0) a = Neg(a1)
        b0 = Sin(y) b1 = HcomAllReduce<reduction = "sum">(b0) b = Neg(b1)
    }"""
    found = opened(compile_model(model(text), convert_options({"allreduce_split": "auto"}))[0], tmp_path)
    assert found["graphs"][0]["types"]["HcomAllReduce"] == 1
    package = read_package(tmp_path / "m.om")
    assert (package.stream_count, package.event_count) == (2, 2)
    assert read_model(package).attrs["hcom_group_names"] == "hccl_world_group"


def test_opens_with_branches_on_streams(tmp_path: Path) -> None:
    compiled = compile_model(model(branches()), convert_options({}))[0]
    info = ModelTaskDef.FromString(parse_package(writer.to_bytes(compiled)).container.partition(Partition.TASK_INFO))
    assert [task.type for task in info.task[:2]] == [STREAM_ACTIVE_TASK, 0]
    assert {task.stream_id for task in info.task} == set(range(8))
    assert opened(compiled, tmp_path)["graphs"][0]["types"]["StreamActive"] == 1


def test_opens_with_the_loop_of_a_package_that_repeats_itself(tmp_path: Path) -> None:
    text = "g (float[4] x, float[4] h) => (float[4] h2, float[4] y) { h2 = Add(h, x) y = Tanh(h2) }"
    options = convert_options({"iterations_per_loop": 9, "state": "h2=h", "stepped": "x"})
    whole, body = opened(compile_model(model(text), options)[0], tmp_path)["graphs"]
    assert whole["types"] == {"Data": 2, "Loop": 1, "NetOutput": 1}
    assert "npu_runconfig/iterations_per_loop:0" in {each["name"] for each in whole["initializers"]}
    assert "IteratorCtrl_StreamSwitch" in {node["name"] for node in whole["list"]}
    assert body["types"] == {"Add": 1, "Data": 5, "GatherV2D": 1, "NetOutput": 1, "Tanh": 1}
    assert body["inputs"][0]["name"] == "npu_runconfig/loop_cond:0"


def branches() -> str:
    """Eight branches that are worth a stream each."""
    ops = ("Sin", "Cos", "Exp", "Neg", "Tanh", "Abs", "Sqrt", "Sigmoid")
    nodes = " ".join(f"a{n} = {op}(x) y{n} = Softmax(a{n})" for n, op in enumerate(ops))
    outputs = ", ".join(f"float[64,64] y{n}" for n in range(len(ops)))
    return f"g (float[64,64] x) => ({outputs}) {{ {nodes} }}"


def test_list_of_types_that_netron_does_not_know_is_exact() -> None:
    assert sorted(set(LISTED)) == LISTED, "one type a line, sorted, none twice"
    assert not KNOWN & set(LISTED), "Netron knows these by now"


def test_every_type_that_a_record_names_is_known_or_listed() -> None:
    written = [opdef for opdef in all_opdefs() if opdef.engines or opdef.signature is None]  # others are expanded
    types = {opdef.ge_type or opdef.name for opdef in written if isinstance(opdef.ge_type, str)}
    assert not types - KNOWN - set(LISTED)


def test_every_op_of_the_standard_is_known_or_listed() -> None:
    """An op without a record is written under its own name."""
    ours = {(opdef.domain, opdef.name) for opdef in all_opdefs()}
    standard = {schema.name for schema in onnx.defs.get_all_schemas() if (schema.domain, schema.name) not in ours}
    assert not standard - KNOWN - set(LISTED)

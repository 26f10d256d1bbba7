"""GE's dumps of graphs, for which users set environment variables."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest
from google.protobuf import text_format
from onnx import parser

from atcpy.errors import AtcError
from atcpy.om.schema.ge_ir_pb2 import ModelDef
from atcpy.report.ge_dump import ge_dumps
from tests.cli.conftest import Invoke

PLAIN = """<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Relu(x) }"""
CHOICE = """<ir_version: 8, opset_import: ["" : 17]> g (float[3] x, bool[1] c) => (float[3] y)
<float[3] w = {1, 2, 3}> {
    [product] a = Mul(x, w)
    [choice] y = If(c) <then_branch = t () => (float[3] p) { p = Relu(a) },
                        else_branch = e () => (float[3] q) { q = Neg(a) }>
}"""
STAGES = ["PreRunBegin", "PreRunAfterPrepare", "AfterEnginePlacer", "PreRunAfterOptimizeSubgraph", "Build"]
VARIABLES = ("DUMP_GE_GRAPH", "DUMP_GRAPH_LEVEL", "DUMP_GRAPH_FORMAT", "DUMP_GRAPH_PATH", "NPU_COLLECT_PATH")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the model m.onnx; nothing is asked for."""
    monkeypatch.chdir(tmp_path)
    for name in (*VARIABLES, "ASCEND_WORK_PATH"):
        monkeypatch.delenv(name, raising=False)
    onnx.save(parser.parse_model(CHOICE), "m.onnx")
    return tmp_path


def dumped(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, folder: str = ".", **variables: str) -> list[Path]:
    """The dumps of a conversion in a folder, by name."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ran = invoke("atc", "--model=m.onnx", "--framework=5", "--output=m", "--soc_version=Ascend310P3")
    assert ran.code == 0, ran.out
    return sorted(path for path in Path(folder).iterdir() if path.name.startswith("ge_"))


def stages_of(paths: list[Path], form: str) -> list[str]:
    """The stages of the dumps of a form, in the order of their numbers."""
    return [path.stem.split("_graph_")[1].partition("_")[2] for path in paths if path.name.startswith(form)]


@pytest.mark.parametrize(
    ("level", "stages"),
    [
        (None, [STAGES[0], STAGES[1], STAGES[3], STAGES[4]]),
        ("1", STAGES),
        ("3", ["Build"]),
        ("4", ["PreRunBegin"]),
        ("Engine|Prepare", ["PreRunAfterPrepare", "AfterEnginePlacer"]),
    ],
)
def test_stages(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, level: str | None, stages: list[str]) -> None:
    onnx.save(parser.parse_model(PLAIN), "m.onnx")
    paths = dumped(invoke, monkeypatch, DUMP_GE_GRAPH="2", **({} if level is None else {"DUMP_GRAPH_LEVEL": level}))
    assert stages_of(paths, "ge_proto") == stages_of(paths, "ge_onnx") == stages
    assert {path.suffix for path in paths} == {".txt", ".pbtxt"}


@pytest.mark.parametrize("value", ["0", "4", "17"])
def test_no_dump(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    assert dumped(invoke, monkeypatch, DUMP_GE_GRAPH=value) == []


def test_what_is_in_them(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    models = []
    for content in "123":
        variables = {"DUMP_GE_GRAPH": content, "DUMP_GRAPH_LEVEL": "4", "DUMP_GRAPH_FORMAT": "GE_PROTO"}
        [path] = dumped(invoke, monkeypatch, **variables)
        models.append(text_format.Parse(path.read_text(), ModelDef()))
        path.unlink()
    assert len({len(model.graph) for model in models}) == 1
    weights = [next(op for op in model.graph[0].op if op.name == "w") for model in models]
    data = [weight.attr["value"].t.data if "value" in weight.attr else None for weight in weights]
    assert data == [b"\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40", b"", None]
    edges = [[(op.name, op.type, list(op.input), list(op.dst_name)) for op in model.graph[0].op] for model in models]
    assert edges[0] == edges[1] == edges[2]
    assert not any(op.attr or op.input_desc or op.output_desc for op in models[2].graph[0].op)


def test_the_onnx_form(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    [path] = dumped(invoke, monkeypatch, DUMP_GE_GRAPH="2", DUMP_GRAPH_LEVEL="4", DUMP_GRAPH_FORMAT="onnx")
    graph = text_format.Parse(path.read_text(), onnx.ModelProto()).graph
    nodes = {node.name: node for node in graph.node}
    assert (nodes["product"].op_type, nodes["product"].input, nodes["product"].output) == (
        "ge:Mul",
        ["x:0", "w:0"],
        ["product:0"],
    )
    attributes = {item.name: onnx.helper.get_attribute_value(item) for item in nodes["product"].attribute}
    assert attributes["input_desc_shape:1"] == [3]
    assert attributes["output_desc_dtype:0"] == b"DT_FLOAT"
    assert attributes["output_desc_layout:0"] == b"ND"
    bodies = [item.g for item in nodes["choice"].attribute if item.type == onnx.AttributeProto.GRAPH]
    for body, kind in zip(bodies, ("ge:Relu", "ge:Neg"), strict=True):
        assert kind in [node.op_type for node in body.node]


@pytest.mark.parametrize(("content", "dims"), [("2", [[3], [1]]), ("3", [[], []])])
def test_ports_of_the_onnx_form(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, content: str, dims: list[list[int]]
) -> None:
    [path] = dumped(invoke, monkeypatch, DUMP_GE_GRAPH=content, DUMP_GRAPH_LEVEL="4", DUMP_GRAPH_FORMAT="onnx")
    graph = text_format.Parse(path.read_text(), onnx.ModelProto()).graph
    assert [port.name for port in graph.input] == ["x:0", "c:0"]
    assert [port.name for port in graph.output] == ["choice:0"]
    assert [[dim.dim_value for dim in port.type.tensor_type.shape.dim] for port in graph.input] == dims


def test_folders(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    process = os.getpid()
    for name, folder in (
        ("ASCEND_WORK_PATH", f"a/pid_{process}_deviceid_0"),
        ("DUMP_GRAPH_PATH", f"a/pid_{process}_deviceid_0"),
        ("NPU_COLLECT_PATH", f"a/extra-info/graph/{process}_0"),
    ):  # each beats the one before it
        variables = {"DUMP_GE_GRAPH": "3", "DUMP_GRAPH_LEVEL": "3", "DUMP_GRAPH_FORMAT": "onnx"}
        variables[name] = name
        paths = dumped(invoke, monkeypatch, folder=folder.replace("a/", name + "/"), **variables)
        assert len(paths) == 1
    assert [path for path in Path().iterdir() if path.name.startswith("ge_")] == []


def test_the_folder_of_debug_dir(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    command = ("atc", "--model=m.onnx", "--framework=5", "--output=m", "--soc_version=Ascend310P3", "--debug_dir=d")
    monkeypatch.setenv("DUMP_GE_GRAPH", "3")
    assert "E10001" in invoke(*command).out
    (folder / "d").mkdir()
    assert invoke(*command).code == 0
    assert all(path.name.startswith("ge_") for path in (folder / "d").iterdir())
    assert not list(folder.glob("ge_*"))


def test_numbers_count_on_through_a_process(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"DUMP_GE_GRAPH": "2", "DUMP_GRAPH_LEVEL": "3", "DUMP_GRAPH_FORMAT": "ge_proto"}
    dumped(invoke, monkeypatch, **variables)
    first, second = (path.name.split("_") for path in dumped(invoke, monkeypatch, **variables))
    assert (int(second[2]), int(second[4])) == (int(first[2]) + 1, int(first[4]) + 1)


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"DUMP_GE_GRAPH": "yes"}, "E13024"),
        ({"DUMP_GE_GRAPH": "1", "DUMP_GRAPH_LEVEL": "5"}, "E13024"),
        ({"DUMP_GE_GRAPH": "1", "DUMP_GRAPH_FORMAT": "ge_proto|txt"}, "E13024"),
        ({"DUMP_GE_GRAPH": "1", "DUMP_GRAPH_FORMAT": "readable"}, "E10055"),
    ],
)
def test_what_is_refused(variables: dict[str, str], code: str) -> None:
    with pytest.raises(AtcError) as caught:
        ge_dumps(variables)
    assert caught.value.code == code

"""Command lines of public model zoos, on models that have the inputs and outputs which they name.

A line converts, or it is refused because of an option that is refused whatever the model is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from atcpy import InferenceSession
from atcpy.atc_flags import FLAG_BY_NAME, Support
from atcpy.cli.atc.arguments import read_arguments
from tests.cli.conftest import Invoke

LINES = Path(__file__).with_name("command_lines.txt").read_text(encoding="utf-8")
# A space is missing in the line, so that --output is part of the shape, and no option.
BROKEN = {"ACL_PyTorch/built-in/cv/EfficientNet_for_Pytorch/README.md": ("E10054", 2)}


def command_lines() -> Iterator[tuple[str, str]]:
    """The file that has it, and the line."""
    for block in LINES.split("\n\n")[1:]:
        source, line = block.strip().split("\n")
        yield source, line


def stub(texts: dict[str, str]) -> onnx.ModelProto:
    """A model whose inputs are those of the line, and whose nodes are those that it names as outputs."""
    items = [item for item in re.split(r";(?=[^;]*:)", texts.get("input_shape", "x:1,3")) if item]
    shapes = dict(item.rstrip(";").rpartition(":")[::2] for item in items)
    inputs = [
        helper.make_tensor_value_info(
            name.strip(), TensorProto.FLOAT, [f"{name}{n}" for n in range(len(dims.strip("[] ").split(",")))]
        )
        for name, dims in shapes.items()
    ]
    named = texts.get("out_nodes", "y")
    ending = "_value" if ":" in named else ""  # nodes with an index, or values
    wanted = [text.partition(":")[0] for text in named.split(";") if text]
    nodes = [helper.make_node("Neg", [inputs[0].name], [name + ending], name) for name in wanted]
    nodes += [helper.make_node("Neg", [port.name], [port.name + "_out"], port.name + "_node") for port in inputs[1:]]
    outputs = [onnx.ValueInfoProto(name=node.output[0]) for node in nodes]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def write_files(texts: dict[str, str]) -> None:
    """The files that a line names."""
    model = Path(texts["model"])
    model.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(stub(texts), model)
    for name, content in {
        "fusion_switch_file": "SoftmaxFusionPass:off\n",
        "insert_op_conf": "aipp_op { aipp_mode: static input_format: RGB888_U8 mean_chn_0: 124 }",
        "keep_dtype": "OpType::Neg\n",
        "customize_dtypes": "OpType::Neg:InputDtype:float16,OutputDtype:float16\n",
        "op_precision_mode": "[ByOpType]\nNeg=high_precision\n",
        "modify_mixlist": '{"white-list": {"to-add": ["Neg"]}}',
    }.items():
        if name in texts:
            Path(texts[name]).write_text(content, encoding="utf-8")


def test_there_are_enough() -> None:
    assert len(list(command_lines())) >= 40


@pytest.mark.parametrize(("source", "line"), [pytest.param(*pair, id=pair[0]) for pair in command_lines()])
def test_it_converts_or_says_which_option_is_refused(
    source: str, line: str, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word.replace("/home/ascend/", "home/") for word in shlex.split(line)[1:]]
    texts = dict(read_arguments(words))
    write_files(texts)
    refused = [name for name in texts if FLAG_BY_NAME[name].support is Support.REFUSED]
    ran = invoke("atc", *words)
    if refused:
        assert ran.code == (2 if FLAG_BY_NAME[refused[0]].code == "E10001" else 4), ran.out
        assert f"--{refused[0]} is not supported" in ran.out
    elif source in BROKEN:
        code, status = BROKEN[source]
        assert (ran.code, code in ran.out) == (status, True), ran.out
    else:
        assert ran.code == 0, ran.out
        assert InferenceSession(texts["output"] + ".om").get_inputs()

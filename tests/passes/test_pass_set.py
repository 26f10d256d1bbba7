"""Passes that `--custom-ops` files declare: they belong to the calls that name the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from atcpy.errors import UsageError
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.ops.custom.models import model, module

pytestmark = pytest.mark.usefixtures("no_custom_ops")

NAME = "AbsOfReluPass"
FUSION = f"""
from atcpy.passes.fusion import Fusion

class AbsOfRelu(Fusion, switch="{NAME}"):
    pattern = op("Abs", op("Relu", var("x")))

    def replacement(self, m, rw):
        return rw.op("Relu", m["x"])
"""
FUNCTION = f"""
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase

@graph_pass("{NAME}", Phase.RECOGNISE)
def abs_of_relu(graph, record, options):
    for node in graph.nodes_of("Abs"):
        if node.operand(0).producer.op_type == "Relu" and record.may_apply():
            record.fire([node])
            graph.replace_uses(node.output, node.operand(0))
"""
RELU_ABS = "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Abs(a) y = Softmax(b) }"


def converted(*files: Path) -> tuple[list[str], bytes]:
    """The ops that are left, and the package."""
    options = convert_options({"custom_ops": ",".join(map(str, files))} if files else {})
    compiled, _ = compile_model(model(RELU_ABS), options)
    nodes = [node.op_type for node in compiled.graph.nodes]
    ops = [op_type for op_type in nodes if op_type in {"Relu", "Abs", "Sigmoid", "Tanh", "GraphKernel"}]
    return ops, writer.to_bytes(compiled)


def passes_of(*files: Path) -> list[str]:
    """The records of the file's pass."""
    options = convert_options({"custom_ops": ",".join(map(str, files))} if files else {})
    compiled, _ = compile_model(model(RELU_ABS), options)
    return [f"{record.name} {record.applied}" for record in compiled.graph.decisions.passes if record.name == NAME]


@pytest.mark.parametrize("source", [FUSION, FUNCTION], ids=["class", "function"])
def test_a_pass_of_a_file_serves_the_calls_that_name_the_file(tmp_path: Path, source: str) -> None:
    before = converted()
    file = module(tmp_path, source)
    assert passes_of(file) == [f"{NAME} 1"]
    assert passes_of() == []
    assert converted() == before
    assert passes_of(file) == [f"{NAME} 1"]


@pytest.mark.parametrize("source", [FUSION, FUNCTION], ids=["class", "function"])
def test_an_edited_file_brings_its_new_pass(tmp_path: Path, source: str) -> None:
    assert passes_of(module(tmp_path, source)) == [f"{NAME} 1"]
    edited = source.replace('"Relu"', '"Sigmoid"')
    assert passes_of(module(tmp_path, edited)) in ([], [f"{NAME} 0"])
    assert passes_of(module(tmp_path, source)) == [f"{NAME} 1"]


def test_a_pass_that_has_the_name_of_another_is_refused(tmp_path: Path) -> None:
    file = module(tmp_path, FUSION.replace(NAME, "GeluFusionPass"))
    with pytest.raises(UsageError, match="GeluFusionPass is registered twice") as raised:
        converted(file)
    assert raised.value.code == "E13030"
    other = module(tmp_path, FUSION, "other.py")
    with pytest.raises(UsageError, match=f"{NAME} is registered twice"):
        converted(other, module(tmp_path, FUSION))
    assert converted(other)[1] != converted()[1]


def test_a_file_without_operators_and_passes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="registers no operator"):
        converted(module(tmp_path, "class Plain: ..."))

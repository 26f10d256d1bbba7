"""The check of defaults that runs with every test sees a wrong one."""

import pytest

from atcpy.ir import Graph
from tests.attribute_defaults import problem

CODE = "atcpy/ops/norm/softmax.py"


@pytest.mark.parametrize(
    ("op", "name", "right", "wrong"),
    [
        ("::Softmax", "axis", -1, 1),
        ("::BatchNormalization", "epsilon", 1e-5, 1e-6),
        ("::HardSigmoid", "alpha", 0.2, 1 / 6),
        ("::Resize", "mode", "nearest", "linear"),
        ("::LayerNormalization", "axis", -1, 1),
        ("com.microsoft::SkipLayerNormalization", "epsilon", 1e-12, 1e-5),
        ("com.microsoft::FusedConv", "group", 1, 0),
        ("ai.onnx.ml::Normalizer", "norm", "MAX", "L2"),
    ],
)
def test_a_default_is_that_of_the_schema(op: str, name: str, right: object, wrong: object) -> None:
    domain, _, op_type = op.partition("::")
    assert problem(domain, op_type, name, right, CODE) == ""
    assert f"{op_type} has {name} = " in problem(domain, op_type, name, wrong, CODE)


def test_code_for_older_opsets_may_read_an_older_default() -> None:
    assert problem("", "Softmax", "axis", 1, "atcpy/parsers/onnx/opsets/rewrites.py") == ""
    assert problem("", "Softmax", "axis", 2, "atcpy/parsers/onnx/opsets/rewrites.py")


def test_every_read_of_a_node_is_checked() -> None:
    node = Graph("g").append("LeakyRelu", (), {"alpha": 0.3})
    assert node.float_attr("alpha", 0.01) == 0.3
    with pytest.raises(AssertionError, match=r"LeakyRelu has alpha = 0\.0"):
        node.float_attr("alpha", 0.1)

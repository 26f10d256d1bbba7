"""Which nodes of an optimized model are unchanged, so that verification need not run them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from atcpy.rewrite.export import Constant, RewrittenModel
from atcpy.verify.unchanged import is_unchanged

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, bool c) => (float[2] y, float[2] z) <float[2] w = {1, 2}> {
  a = Add(x, w) b = Neg(a)
  d = If(c) <then_branch = t () => (float[2] p) { p = Neg(b) }, else_branch = e () => (float[2] q) { q = Exp(b) }>
  y = Clip(d, , a) z = Sub(b, x) }"""


def parts() -> tuple[onnx.ModelProto, dict[str, Constant], RewrittenModel]:
    source, result = onnx.parser.parse_model(TEXT), onnx.parser.parse_model(TEXT)
    constants = [Constant(tensor) for tensor in [*result.graph.initializer]]
    return (
        source,
        {tensor.name: Constant(tensor) for tensor in source.graph.initializer},
        RewrittenModel(result, constants),
    )


def test_an_identical_model_is_unchanged() -> None:
    assert is_unchanged(*parts())


def test_removal_of_unused_nodes_is_no_change() -> None:
    source, constants, result = parts()
    source.graph.node.add(op_type="Neg", input=["x"], output=["unread"])
    constants["more"] = Constant(numpy_helper.from_array(np.zeros(1), "more"))
    assert is_unchanged(source, constants, result)


def _another_op(result: RewrittenModel) -> None:
    result.model.graph.node[1].op_type = "Abs"


def _another_op_in_a_body(result: RewrittenModel) -> None:
    result.model.graph.node[2].attribute[0].g.node[0].op_type = "Abs"


def _another_input(result: RewrittenModel) -> None:
    result.model.graph.node[1].input[0] = "x"


def _another_constant(result: RewrittenModel) -> None:
    result.constants[0] = Constant(numpy_helper.from_array(np.ones(2, np.float32), "w"))


def _other_bytes(result: RewrittenModel) -> None:
    result.constants[0] = Constant(result.constants[0].proto, memoryview(b"other"))


def _no_constant(result: RewrittenModel) -> None:
    result.constants.clear()


def _another_order(result: RewrittenModel) -> None:
    first = onnx.NodeProto()
    first.CopyFrom(result.model.graph.node[1])
    del result.model.graph.node[1]
    result.model.graph.node.append(first)  # the If reads its value


def _no_output(result: RewrittenModel) -> None:
    del result.model.graph.node[4]


def _another_node(result: RewrittenModel) -> None:
    result.model.graph.node.add(op_type="Neg", input=["x"], output=["more"])


def _another_opset(result: RewrittenModel) -> None:
    result.model.opset_import[0].version = 18


def _no_input(result: RewrittenModel) -> None:
    del result.model.graph.input[1]


@pytest.mark.parametrize(
    "change",
    [
        _another_op, _another_op_in_a_body, _another_input, _another_constant, _other_bytes, _no_constant,
        _another_order, _no_output, _another_node, _another_opset, _no_input,
    ],
)  # fmt: skip
def test_each_change_is_detected(change: Callable[[RewrittenModel], None]) -> None:
    source, constants, result = parts()
    change(result)
    assert not is_unchanged(source, constants, result)

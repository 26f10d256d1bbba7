"""Engine placement where golden files do not reach: operators of no standard, and what a Conv's engine decides."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.errors import Unsupported
from atcpy.ir import ND, DType, Engine, Graph, Node, PassRecord, Reject, TensorDesc
from atcpy.ir.shape import Shape, Sym
from atcpy.ops import Layout, find_opdef
from atcpy.options import SplitOptions
from atcpy.passes.compile.lower import lower_node
from atcpy.passes.split.assign_engines import assign_engines, choose_engine
from tests.harness import make_node


def one_node(op_type: str, domain: str) -> Node:
    graph = Graph("test")
    x = graph.append("Data", (), {"index": 0}, name="x")
    x.output.desc = TensorDesc.plain(DType.FLOAT32, (4,))
    node = graph.append(op_type, [x.output], name="whirl", domain=domain)
    node.output.desc = x.output.desc
    graph.append("NetOutput", [node.output], name="out", outputs=())
    return node


def test_an_operator_of_a_users_domain_needs_an_engine_of_its_record() -> None:
    node = one_node("Whirl", "acme")
    assert choose_engine(node) == (None, [Reject("not-standard", "whirl")])
    assert node.graph is not None
    record = PassRecord("EnginePlacerPass", "split")
    with pytest.raises(Unsupported) as raised:
        assign_engines(node.graph, record, SplitOptions())
    (problem,) = raised.value.problems
    assert (problem.code, problem.where and problem.where.node) == ("EZ3002", "whirl")
    assert record.rejects == [Reject("not-standard", "whirl")]


def test_an_operator_of_the_standard_without_a_record_runs_on_the_host() -> None:
    assert choose_engine(one_node("Binarizer", "ai.onnx.ml"))[0] is Engine.HOST_CPU


def convolution(x: Shape, w: tuple[int, ...], dtype: type = np.float32, *, is_constant: bool = True) -> Node:
    """A Conv whose input has the shape `x`, with symbols where the sizes are not known."""
    sizes = tuple(dim if isinstance(dim, int) else 9 for dim in x)
    node = make_node("Conv", [np.ones(sizes, dtype), np.ones(w, dtype)], constants=[1] if is_constant else [])
    node.operand(0).desc = TensorDesc.plain(node.operand(0).desc.dtype, x)
    if sizes != x:
        node.output.desc = TensorDesc.plain(node.output.desc.dtype, (x[0], w[0], *x[2:]))
    node.engine, _ = choose_engine(node)
    return node


@pytest.mark.parametrize(
    ("node", "engine"),
    [
        (convolution((1, 8, 9, 9), (16, 8, 3, 3)), Engine.AICORE),
        (convolution((1, 8, 9, Sym("w")), (16, 8, 3, 3)), Engine.AICORE),
        (convolution((0, 8, 9, 9), (16, 8, 3, 3)), Engine.VECTOR),
        (convolution((1, 8, 9), (16, 8, 3)), Engine.VECTOR),
        (convolution((1, 8, 9, 9), (16, 8, 3, 3), np.float64), Engine.VECTOR),
        (convolution((1, 8, 9, 9), (16, 8, 3, 3), is_constant=False), Engine.VECTOR),
    ],
    ids=["blocked", "open", "empty", "one-dim", "double", "computed"],
)
def test_the_engine_of_a_convolution_says_whether_it_runs_in_blocks(node: Node, engine: Engine) -> None:
    opdef = find_opdef(node)
    assert node.engine is engine and opdef is not None and opdef.layout is not None
    if node.operand(0).desc.is_static:
        layout = opdef.layout(node, (ND, ND))
        assert isinstance(layout, Layout) == (engine is Engine.AICORE)
        assert engine is Engine.AICORE or layout == Reject("direct-kernel", node.name)


def test_a_convolution_is_lowered_for_the_engine_that_it_has() -> None:
    node = convolution((1, 8, 9, 9), (16, 8, 3, 3))
    opdef = find_opdef(node)
    assert opdef is not None and opdef.lower is not None
    assert [call.family for call in opdef.lower(node)] == ["conv2d"]
    node.engine = Engine.VECTOR
    assert [call.family for call in opdef.lower(node)] == ["convnd"]


@pytest.mark.parametrize(
    ("op_type", "domain", "shape", "engine"),
    [
        ("Binarizer", "ai.onnx.ml", (0, 3), Engine.VECTOR),
        ("Binarizer", "ai.onnx.ml", (3,), Engine.HOST_CPU),
        ("Whirl", "acme", (0,), None),
    ],
)
def test_nothing_runs_for_a_node_that_makes_nothing(
    op_type: str, domain: str, shape: Shape, engine: Engine | None
) -> None:
    node = one_node(op_type, domain)
    node.operand(0).desc = node.output.desc = TensorDesc.plain(DType.FLOAT32, shape)
    assert choose_engine(node)[0] is engine
    node.engine = engine
    if engine is not None:
        assert len(list(lower_node(node))) == (engine is Engine.HOST_CPU)

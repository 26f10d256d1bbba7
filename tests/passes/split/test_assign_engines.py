"""Engine placement where golden files do not reach: operators that are not of the standard."""

from __future__ import annotations

import pytest

from atcpy.errors import Unsupported
from atcpy.ir import DType, Engine, Graph, Node, PassRecord, Reject, TensorDesc
from atcpy.options import SplitOptions
from atcpy.passes.split.assign_engines import assign_engines, place


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
    assert place(node) == (None, [Reject("not-standard", "whirl")])
    assert node.graph is not None
    record = PassRecord("EnginePlacerPass", "split")
    with pytest.raises(Unsupported) as raised:
        assign_engines(node.graph, record, SplitOptions())
    (problem,) = raised.value.problems
    assert (problem.code, problem.where and problem.where.node) == ("EZ3002", "whirl")
    assert record.rejects == [Reject("not-standard", "whirl")]


def test_an_operator_of_the_standard_without_a_record_runs_on_the_host() -> None:
    assert place(one_node("Binarizer", "ai.onnx.ml"))[0] is Engine.HOST_CPU

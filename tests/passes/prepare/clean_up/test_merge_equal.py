"""Common subexpressions: what counts as equal, and whose name the survivor bears."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.ir import DType, Graph, PassRecord, Tensor, TensorDesc
from atcpy.options import PrepareOptions
from atcpy.passes.prepare.clean_up.merge_equal import merge_equal


def sample(**second: object) -> Graph:
    """Two Relu of one input that lead to an Add; `second` gives attributes to the second."""
    graph = Graph("test")
    x = graph.append("Data", (), {"index": 0}, name="x")
    x.output.desc = TensorDesc.plain(DType.FLOAT32, (4,))
    nodes = [graph.append("Relu", [x.output], attrs, name=name) for name, attrs in (("a", {}), ("b", second))]
    for node in nodes:
        node.output.desc, node.sources = x.output.desc, (node.name,)
    both = graph.append("Add", [node.output for node in nodes], name="add")
    graph.append("NetOutput", [both.output], name="out", outputs=())
    return graph


def merge(graph: Graph) -> PassRecord:
    record = PassRecord("CommonSubexpressionEliminationPass", "prepare")
    merge_equal(graph, record, PrepareOptions())
    return record


def test_the_survivor_stands_for_both_in_their_order() -> None:
    graph = sample()
    assert merge(graph).applied == 1
    (relu,) = [node for node in graph.nodes if node.op_type == "Relu"]
    assert (relu.name, relu.sources) == ("a", ("a", "b"))
    (add,) = [node for node in graph.nodes if node.op_type == "Add"]
    assert add.inputs == (relu.output, relu.output)


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 1.0), (0.0, -0.0), ((1, 2), (2, 1)), ("a", b"a"), (1, True)],
    ids=["int and float", "signed zeros", "order", "text and bytes", "int and bool"],
)
def test_attributes_are_equal_only_bit_for_bit(first: object, second: object) -> None:
    graph = sample(k=second)
    next(node for node in graph.nodes if node.name == "a").attrs["k"] = first
    assert merge(graph).matched == 0


def with_constants(*tensors: Tensor) -> Graph:
    graph = Graph("test")
    values = [graph.add_const(tensor, f"c{index}") for index, tensor in enumerate(tensors)]
    total = graph.append("Sum", values, name="sum")
    graph.append("NetOutput", [total.output], name="out", outputs=())
    return graph


def count_constants(graph: Graph) -> int:
    return sum(1 for node in graph.nodes if node.op_type == "Const")


def test_equal_constants_are_one() -> None:
    array = np.arange(6, dtype=np.float32)
    graph = with_constants(*(Tensor.of(array.copy()) for _ in range(3)))
    assert merge(graph).applied == 2
    assert count_constants(graph) == 1


@pytest.mark.parametrize(
    "other",
    [
        Tensor.of(np.arange(6, dtype=np.int32)),
        Tensor.of(np.arange(6, dtype=np.float32).reshape(2, 3)),
        Tensor.of(np.array([-0.0, 1, 2, 3, 4, 5], np.float32)),
    ],
    ids=["type", "shape", "sign of zero"],
)
def test_other_constants_stay(other: Tensor) -> None:
    graph = with_constants(Tensor.of(np.arange(6, dtype=np.float32)), other)
    assert merge(graph).applied == 0
    assert count_constants(graph) == 2


def test_bits_decide_where_digests_collide() -> None:
    """The third equals the second, though the first has the same digest."""
    tensors = [Tensor.of(np.array([value], np.float32)) for value in (1, 2, 2)]
    for tensor in tensors:
        tensor._digest = b"made to collide"
    graph = with_constants(*tensors)
    merge(graph)
    (total,) = [node for node in graph.nodes if node.op_type == "Sum"]
    assert [value.array.item() for value in total.operands] == [1, 2, 2]


def test_random_ops_stay_apart() -> None:
    graph = sample()
    for node in graph.nodes:
        if node.op_type == "Relu":
            node.op_type = "Bernoulli"
    assert merge(graph).matched == 0


def test_optional_outputs_that_only_one_has_keep_both() -> None:
    graph = sample()
    second = next(node for node in graph.nodes if node.name == "b")
    graph.add_output(second, "mask")
    assert merge(graph).matched == 0

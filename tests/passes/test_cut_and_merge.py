"""Cutting a graph into its engines' pieces and joining them again changes nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atcpy.ir import DType, Engine, Graph, Node, Tensor, TensorDesc, Value
from atcpy.ir.dump import dump
from atcpy.ir.verify import violations
from atcpy.passes.optimize.merge import merge
from atcpy.passes.split.cut import cut

DESC = TensorDesc.plain(DType.FLOAT32, (2,))
ENGINES = st.sampled_from([Engine.AICORE, Engine.VECTOR])


@st.composite
def placed_graphs(draw: st.DrawFn) -> Graph:
    """Relu, Add and Split over two engines, constants between them, some values outputs, some dead."""
    graph = Graph("random")
    values: list[Value] = []
    for index in range(draw(st.integers(1, 2))):
        values.append(graph.append("Data", (), {"index": index}, name=f"x{index}").output)
    for index in range(draw(st.integers(0, 3))):
        values.append(graph.append("Const", (), {"value": Tensor.of(np.float32([index, -1]))}, name=f"c{index}").output)
    for index in range(draw(st.integers(1, 20))):
        op_type, inputs, outputs = draw(
            st.sampled_from([("Relu", 1, 1), ("Add", 2, 1), ("Sub", 2, 1), ("Split", 1, 2)])
        )
        operands = [draw(st.sampled_from(values[-6:] + values[:3])) for _ in range(inputs)]
        node = graph.append(op_type, operands, name=f"n{index}", outputs=tuple(f"n{index}.{i}" for i in range(outputs)))
        node.engine = draw(ENGINES)
        values.extend(node.outputs)
    results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))
    graph.append("NetOutput", results, name="out", outputs=())
    for value in values:
        value.desc = DESC
    return graph


def evaluate(graph: Graph) -> list[list[float]]:
    """The outputs, each op by its plainest meaning."""
    known: dict[Value, np.ndarray] = {}
    for node in graph.nodes:
        operands = [known[value] for value in node.operands]
        for value in node.outputs:
            known[value] = _result(node, value.index, operands)
    return [known[value].tolist() for value in graph.outputs]


def _result(node: Node, index: int, operands: list[np.ndarray]) -> np.ndarray:
    match node.op_type:
        case "Data":
            return np.array([0.5, -2.0]) * (1 + node.int_attr("index", 0))
        case "Const":
            return np.asarray(node.output.array)
        case "Relu":
            return np.maximum(operands[0], 0)
        case "Add":
            return operands[0] + operands[1]
        case "Sub":
            return operands[0] - operands[1]
        case _:
            return operands[0] + index


@given(graph=placed_graphs())
def test_pieces_are_whole_and_hold_one_engine(graph: Graph) -> None:
    before = [node for node in graph.nodes if node.op_type not in {"Data", "Const", "NetOutput"}]
    partition = cut(graph)
    inside = []
    for piece in partition.subgraphs:
        for node in piece.graph.nodes:
            if node.op_type in {"PlaceHolder", "End", "Const", "NetOutput"}:
                continue
            assert node.engine is piece.engine
            assert all(value.producer.graph in (piece.graph, partition.root) for value in node.operands)
            inside.append(node)
    assert set(inside) == set(before) and len(inside) == len(before)
    for border in partition.borders:
        assert border.end.attrs["peerIndex"] == border.placeholder.attrs["peerIndex"]
        assert border.placeholder.attrs["_peerNodeName"] == border.end.name
        assert border.end.operand(0).desc == border.placeholder.output.desc


@given(graph=placed_graphs())
def test_merging_undoes_cutting(graph: Graph) -> None:
    before = [line for line in dump(graph).splitlines() if "Const(" not in line]
    results = evaluate(graph)
    merged = merge(cut(graph))
    assert list(violations(merged)) == []
    # Constants may be split among the pieces and lie elsewhere; all other nodes keep names, inputs and order.
    names = {node.output.name for node in merged.nodes if node.op_type == "Const"}
    after = [line for line in dump(merged).splitlines() if "Const(" not in line]
    plain = [line for line in before if not any(name in line for name in names)]
    assert [line for line in after if not any(name in line for name in names)] == plain
    assert len(after) == len(before)
    assert evaluate(merged) == results


@given(graph=placed_graphs())
def test_cutting_twice_gives_the_same_pieces(graph: Graph) -> None:
    first = cut(graph)
    sizes = [len(piece.graph) for piece in first.subgraphs]
    again = cut(merge(first))
    assert [len(piece.graph) for piece in again.subgraphs] == sizes

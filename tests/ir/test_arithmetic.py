"""Arithmetic on values: what is known is computed, what is not becomes nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atcpy.errors import ModelInvalid, Unsupported
from atcpy.ir import Builder, DType, Graph, TensorDesc, Value
from atcpy.ir import arithmetic as ar
from atcpy.ir.arithmetic import Expr, IndexExpr
from atcpy.ir.shape import Shape, Sym

_BINARY: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("Add", operator.add), ("Sub", operator.sub), ("Mul", operator.mul), ("Mod", operator.mod), ("Less", operator.lt),
]  # fmt: skip


def builder() -> Builder:
    """A builder that appends to an empty graph."""
    return Builder(Graph("g"), name="n")


def value(b: Builder, dtype: DType = DType.INT64, shape: Shape | None = None) -> Value:
    """An input of the builder's graph."""
    x = b.graph.append("Data", outputs=("x",)).output
    x.desc = TensorDesc(dtype, None) if shape is None else TensorDesc.plain(dtype, shape)
    return x


def op_types(b: Builder) -> list[str]:
    """The nodes that were created, without constants."""
    return [node.op_type for node in b.created if node.op_type != "Const"]


@pytest.mark.parametrize(("op_type", "function"), _BINARY)
def test_operators_create_nodes_in_their_order(op_type: str, function: Callable[[Any, Any], Any]) -> None:
    b = builder()
    x, y = value(b, DType.FLOAT32), value(b, DType.FLOAT32)
    node = function(Expr(b, x), Expr(b, y)).value.producer
    assert (node.op_type, node.operands) == (op_type, [x, y])


@pytest.mark.parametrize(("op_type", "function"), [("Sub", operator.sub), ("Div", operator.truediv)])
def test_a_number_on_the_left_stays_there(op_type: str, function: Callable[[Any, Any], Any]) -> None:
    b = builder()
    x = value(b, DType.FLOAT16)
    node = function(2.0, Expr(b, x)).value.producer
    number = node.operand(0)
    assert (node.op_type, node.operand(1), float(number.array), number.desc.dtype) == (op_type, x, 2.0, DType.FLOAT16)


@pytest.mark.parametrize(("op_type", "function"), _BINARY)
@pytest.mark.parametrize(("left", "right"), [(7, 3), (-7, 3), (0, 5), (7, -3)])
def test_known_integers_are_computed(op_type: str, function: Callable[[Any, Any], Any], left: int, right: int) -> None:
    b = builder()
    assert function(IndexExpr.of(b, [left]), right).elements.tolist() == [function(left, right)]
    assert function(IndexExpr(b, value(b)), right).value.producer.op_type == op_type


def test_results_above_the_limit_are_left_to_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ar, "MAX_FOLDED", 6)
    b = builder()
    rows, columns = IndexExpr.of(b, [[0], [1]]), IndexExpr.of(b, [0, 1, 2])
    assert (rows + columns).value.array.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert op_types(b) == []
    assert isinstance((rows + IndexExpr.of(b, [0, 1, 2, 3])).elements, Value)
    assert ar.index_range(b, IndexExpr.of(b, 6)).value.array.tolist() == [0, 1, 2, 3, 4, 5]
    assert isinstance(ar.index_range(b, IndexExpr.of(b, 7)).elements, Value)
    assert op_types(b) == ["Add", "Range"]


def test_numbers() -> None:
    b = builder()
    assert IndexExpr.of(b, [4]).number == 4
    assert IndexExpr.of(b, [4, 5]).number is None
    assert IndexExpr(b, value(b)).number is None
    assert IndexExpr.of(b, [1, 2]).equals(2).value.desc.dtype is DType.BOOL


def test_choose_and_gather() -> None:
    b = builder()
    items = IndexExpr.of(b, [-2, 0, 3])
    assert items.equals(0).choose(9, items).value.array.tolist() == [-2, 9, 3]
    assert items.gather(IndexExpr.of(b, [2, -1, 0])).value.array.tolist() == [3, 3, -2]
    assert items.max(0).min(2).value.array.tolist() == [0, 0, 2]
    assert op_types(b) == []
    items.equals(0).choose(9, IndexExpr(b, value(b)))
    assert op_types(b) == ["Where"]


def test_reshape_checks_how_many_there_are() -> None:
    b = builder()
    items = IndexExpr.of(b, range(6))
    assert items.reshape(2, 3).column(-1).value.array.tolist() == [2, 5]
    assert items.reshape(-1, 2).value.array.tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ModelInvalid, match="6 numbers instead of 4"):
        items.reshape(2, 2)
    node = IndexExpr(b, value(b)).reshape(0, 2).value.producer
    assert (node.op_type, node.attrs) == ("Reshape", {"allowzero": 1})


@pytest.mark.parametrize(("axis", "expected"), [(0, 7), (-1, 7), (1, None), (-2, None)])
def test_sizes_of_axes(axis: int, expected: int | None) -> None:
    b = builder()
    x = value(b, shape=(7, Sym("n"), 7)[:2] if axis in (0, 1) else (Sym("n"), 7))
    size = ar.size_of(b, x, axis)
    assert size.number == expected
    if expected is None:
        start = axis % 2
        assert size.value.producer.attrs == {"start": start, "end": start + 1}


@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_beyond_the_rank_is_refused(axis: int) -> None:
    b = builder()
    with pytest.raises(ModelInvalid, match=f"has 2 dims, none of them is {axis}"):
        ar.size_of(b, value(b, shape=(2, 3)), axis)
    with pytest.raises(Unsupported, match="rank"):
        ar.size_of(b, value(b), 0)


def test_join_and_product() -> None:
    b = builder()
    known, open_ = IndexExpr.of(b, [3]), IndexExpr(b, value(b, shape=(1,)))
    assert ar.join(b, [known, known]).value.array.tolist() == [3, 3]
    assert ar.join(b, []).value.array.tolist() == []
    assert ar.join(b, [open_]) is open_
    assert ar.product(b, [known, known]).number == 9
    assert ar.product(b, [IndexExpr.of(b, [1]), open_]) is open_
    assert op_types(b) == []
    assert ar.join(b, [known, open_]).value.producer.op_type == "Concat"
    assert ar.product(b, [known, open_, known]).value.producer.op_type == "Mul"


def test_a_single_unknown_size_is_inferred() -> None:
    b = builder()
    x, open_ = value(b), IndexExpr(b, value(b, shape=(1,)))

    def target(*sizes: IndexExpr) -> Value:
        return ar.reshape_to(b, x, sizes).producer.operand(1)

    assert target(IndexExpr.of(b, [2]), open_).array.tolist() == [2, -1]
    assert target(IndexExpr.of(b, [2]), IndexExpr.of(b, [0])).array.tolist() == [2, 0]
    assert target(IndexExpr.of(b, [0]), open_).producer.op_type == "Concat"  # 0 · ? is 0: it can be anything
    assert target(open_, open_).producer.op_type == "Concat"


def test_dims_and_ranges() -> None:
    b = builder()
    x = value(b, shape=(Sym("n"), 5))
    assert ar.dim(b, x, 1).value.array.shape == ()
    assert ar.dim(b, x, 0).value.producer.op_type == "Squeeze"
    assert np.array_equal(ar.arange(b, 3).value.array, np.float32([0, 1, 2]))
    assert ar.arange(b, value(b, shape=())).value.producer.operand(0).producer.op_type == "Range"

"""Shape arithmetic against the ONNX reference, and on symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.errors import ModelInvalid
from atcpy.ir import Dim, DType, Sym, Tensor, TensorDesc, Value
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.core.reference import infer_by_onnx, known_constant
from atcpy.ops.core.shape_values import UNNAMED, add, broadcast, div, mul, product, quotient, sub
from tests.harness import make_node, reference_op, run_op
from tests.ops.exact import arange, assert_same

N = Sym("n")


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("op_type", "arrays", "attrs"),
    [
        ("Shape", [arange((2, 3, 4))], {}),
        ("Shape", [arange((2, 3, 4))], {"start": 1}),
        ("Shape", [arange((2, 3, 4))], {"start": -2, "end": -1}),
        ("Shape", [arange((2, 3, 4))], {"start": -9, "end": 9}),
        ("Shape", [arange(())], {}),
        ("Size", [arange((2, 3, 4))], {}),
        ("Size", [arange((2, 0))], {}),
        ("ConstantOfShape", [ints(2, 3)], {}),
        ("ConstantOfShape", [ints(0)], {"value": Tensor.of(ints(7))}),
        ("ConstantOfShape", [ints(3)], {"value": Tensor.of(ints(-7))}),
        ("Range", [np.array(0), np.array(10), np.array(3)], {}),
        ("Range", [np.array(5), np.array(-5), np.array(-2)], {}),
        ("Range", [np.array(5), np.array(5), np.array(1)], {}),
        ("Range", [np.float32(0), np.float32(1), np.float32(0.1)], {}),
    ],
)
def test_agrees_with_the_reference(op_type: str, arrays: list[Array], attrs: dict[str, object]) -> None:
    node = make_node(op_type, [np.asarray(array) for array in arrays], attrs, constants=(0, 1, 2))
    assert [value.desc for value in node.outputs] == infer_by_onnx(node, known_constant)
    opdef = find_opdef(node)
    assert opdef is not None and opdef.evaluate is not None
    expected = reference_op(node, arrays)
    assert_same(opdef.evaluate(node, arrays), expected)
    if opdef.propagate is not None and expected[0].dtype == np.int64 and expected[0].ndim <= 1:
        assert opdef.propagate(node, known_constant) == tuple(expected[0].reshape(-1))


@pytest.mark.parametrize("value", [np.float16(-0.0), np.float32(np.nan), np.int64(-2), np.uint8(200), np.bool_(True)])
def test_fill_kernel(value: np.generic) -> None:
    arrays = [ints(3, 50, 7)]
    node = make_node("ConstantOfShape", arrays, {"value": Tensor.of(np.asarray([value]))}, constants=(0,))
    assert_same(run_op(node, arrays), reference_op(node, arrays))


PROPAGATED = [
    ("Gather", [(N, 3, 8), (1,)], [(3,), ()], {}, (3,)),
    ("Gather", [(N, 3, 8), (0, -1)], [(3,), (2,)], {}, (N, 8)),
    ("Concat", [(N,), (3, -1)], [(1,), (2,)], {"axis": 0}, (N, 3, -1)),
    ("Slice", [(N, 3, 8), (-2,), (9,)], [(3,), (1,), (1,)], {}, (3, 8)),
    ("Slice", [(N, 3, 8), (2,), (-9,), (0,), (-1,)], [(3,), (1,), (1,), (1,), (1,)], {}, (8, 3, N)),
    ("Unsqueeze", [(N,), (0,)], [(), (1,)], {}, (N,)),
    ("Reshape", [(N, 2), (-1,)], [(2,), (1,)], {}, (N, 2)),
    ("Expand", [(N,), (3,)], [(1,), (1,)], {}, (N, N, N)),
    ("Tile", [(N, 2), (2,)], [(2,), (1,)], {}, (N, 2, N, 2)),
]


@pytest.mark.parametrize(("op_type", "elements", "shapes", "attrs", "expected"), PROPAGATED)
def test_symbolic_elements(
    op_type: str,
    elements: list[tuple[Dim, ...]],
    shapes: list[tuple[int, ...]],
    attrs: dict[str, object],
    expected: tuple[Dim, ...],
) -> None:
    node = make_node("Identity", [ints(1)])  # any graph will do
    graph = node.graph
    assert graph is not None
    values = [graph.append("Data", (), {"index": index + 1}).output for index in range(len(elements))]
    by_value: dict[Value | None, tuple[Dim, ...]] = dict(zip(values, elements, strict=True))
    for value, shape in zip(values, shapes, strict=True):
        value.desc = TensorDesc.plain(DType.INT64, shape)
    node = graph.append(op_type, values, attrs)
    opdef = find_opdef(node)
    assert opdef is not None and opdef.infer is not None and opdef.propagate is not None
    node.output.desc = opdef.infer(node, by_value.get)[0]
    assert opdef.propagate(node, by_value.get) == expected


def test_shape_of_symbolic_sizes() -> None:
    node = make_node("Shape", [arange((2, 3))])
    node.operand(0).desc = TensorDesc.plain(DType.FLOAT32, (N, 3))
    opdef = find_opdef(node)
    assert opdef is not None and opdef.propagate is not None
    assert opdef.propagate(node, known_constant) == (N, 3)


def test_symbolic_arithmetic() -> None:
    assert (add(N, 0), add(2, 3), add(N, 1)) == (N, 5, Sym("(n+1)"))
    assert (sub(N, N), sub(2, 5), sub(UNNAMED, UNNAMED)) == (0, -3, UNNAMED)
    assert (mul(N, 0), mul(1, N), mul(2, N)) == (0, N, Sym("(2*n)"))
    assert (div(-7, 2), div(7, 0), div(N, 1)) == (-3, UNNAMED, N)
    assert product([N, 2, Sym("m"), 3]) == Sym("((6*m)*n)")
    assert quotient((N, 6), (N, 2)) == 3
    assert (quotient((N, 6), (4,)), quotient((UNNAMED,), (UNNAMED,))) == (None, None)
    assert (quotient((mul(4, N), 6), (4, 6)), quotient((mul(mul(N, 6), Sym("m")),), (N, 2))) == (N, mul(3, Sym("m")))


def test_repeated_products_of_sizes_stay_bounded() -> None:
    size = N
    for _ in range(12):
        size = mul(size, size)
    assert quotient((size, 4), (2, size)) == 2
    assert broadcast(mul, (2,), (N, 3)) == (Sym("(2*n)"), 6)
    assert broadcast(mul, (1, 2, 3), (1, 2)) is None


def test_what_onnx_forbids_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="delta is 0"):
        make_node("Range", [np.array(0), np.array(1), np.array(0)], constants=(0, 1, 2))
    with pytest.raises(ModelInvalid, match="negative size"):
        make_node("ConstantOfShape", [ints(-1)], constants=(0,))
    with pytest.raises(ModelInvalid, match="value has 2 elements"):
        make_node("ConstantOfShape", [ints(1)], {"value": Tensor.of(ints(1, 2))}, constants=(0,))

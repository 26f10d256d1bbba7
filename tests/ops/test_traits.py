"""Traits of ops in their records, and the defaults of nodes without a record."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.ir import Graph, Node
from atcpy.ir.tensor import Array
from atcpy.ops import OpDef, Trait, all_opdefs, has_trait, op_types
from atcpy.ops.core.reference import evaluate_by_onnx


def node_of(op_type: str, domain: str = "") -> Node:
    graph = Graph("g")
    return graph.append(op_type, (), name="n", outputs=("y",), domain=domain)


def ops_with(trait: Trait) -> set[str]:
    return {opdef.name for opdef in all_opdefs() if trait in opdef.traits}


def test_views_and_reshapes() -> None:
    assert ops_with(Trait.VIEW) == {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout", "ReFormat"}
    assert ops_with(Trait.RESHAPE) == {"Reshape", "Squeeze", "Unsqueeze", "Flatten"}


def test_algebraic_traits() -> None:
    assert ops_with(Trait.INVOLUTION) == {"Neg", "Not", "BitwiseNot"}
    unary, binary = {"Abs", "Relu", "Ceil", "Floor", "Round", "Sign"}, {"And", "Or", "BitwiseAnd", "BitwiseOr"}
    assert ops_with(Trait.IDEMPOTENT) == unary | binary | {"Max", "Min", "ReduceMax", "ReduceMin"}
    assert ops_with(Trait.VARIADIC) == {"Concat", "Max", "Mean", "Min", "Sum"}
    assert op_types(Trait.NON_NEGATIVE) == {
        "Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus", "ReduceL1", "ReduceSumSquare",
    }  # fmt: skip


def operands(opdef: OpDef) -> Array:
    if opdef.name.startswith("Bit"):
        return np.array([0, 1, 255], np.uint8)
    if opdef.name in {"And", "Or", "Xor"}:
        return np.array([False, True])
    return np.array([-np.inf, -2.5, -0.0, 0.0, 1, 3], np.float32)


@pytest.mark.parametrize("opdef", [opdef for opdef in all_opdefs() if opdef.neutral], ids=lambda opdef: opdef.name)
def test_a_neutral_operand_leaves_the_other_unchanged_bit_for_bit(opdef: OpDef) -> None:
    assert opdef.neutral is not None
    x = operands(opdef)
    node, neutral = node_of(opdef.name), np.array([opdef.neutral.value]).astype(x.dtype)
    node.attrs |= {"direction": "LEFT"} if opdef.name == "BitShift" else {}
    for index in opdef.neutral.inputs:
        [y] = evaluate_by_onnx(node, [neutral, x] if index == 0 else [x, neutral])
        assert np.asarray(y).tobytes() == x.tobytes()


@pytest.mark.parametrize("name", sorted(op_types(Trait.STEPWISE)))
def test_a_stepwise_reduction_may_reduce_one_dim_after_another(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)

    def reduce(array: Array, *axes: int) -> Array:
        return np.asarray(evaluate_by_onnx(node_of(name), [array, np.array(axes)])[0])

    np.testing.assert_allclose(reduce(reduce(x, 1), 2), reduce(x, 1, 2), rtol=1e-5)
    assert name in {
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
    }  # others transform each element they read


@pytest.mark.parametrize(
    ("op_type", "domain", "traits", "has"),
    [
        ("Relu", "", Trait.ELEMENTWISE, True),
        ("CastLike", "", Trait.ELEMENTWISE, False),
        ("Identity", "", Trait.RESHAPE, False),
        ("Identity", "", Trait.RESHAPE | Trait.VIEW, True),
        ("Relu", "my.domain", Trait.ELEMENTWISE, False),
        ("RandomNormal", "", Trait.RANDOM, True),
        ("NonZero", "", Trait.RANDOM, False),
    ],
)
def test_a_node_has_the_traits_of_its_op(op_type: str, domain: str, traits: Trait, has: bool) -> None:
    assert has_trait(node_of(op_type, domain), traits) is has


@pytest.mark.parametrize(
    ("op_type", "is_source", "is_structural"),
    [("Data", True, True), ("Const", True, True), ("NetOutput", False, True), ("Relu", False, False)],
)
def test_source_and_structural_nodes(op_type: str, is_source: bool, is_structural: bool) -> None:
    node = node_of(op_type)
    assert (node.is_source, node.is_structural) == (is_source, is_structural)

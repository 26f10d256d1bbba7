"""Traits of ops: what the records say of them, and what nodes without a record have."""

from __future__ import annotations

import pytest

from atcpy.ir import Graph, Node
from atcpy.ops import Trait, all_opdefs, has_trait, op_types


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
    assert ops_with(Trait.IDEMPOTENT) == {"Abs", "Relu", "Ceil", "Floor", "Round", "Sign"}
    assert op_types(Trait.NON_NEGATIVE) == {
        "Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus", "ReduceL1", "ReduceSumSquare",
    }  # fmt: skip


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
def test_structural_nodes_compute_nothing(op_type: str, is_source: bool, is_structural: bool) -> None:
    node = node_of(op_type)
    assert (node.is_source, node.is_structural) == (is_source, is_structural)

"""Tree ensembles of every op version against ONNX Runtime and a plain definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import atcpy
from atcpy.errors import AtcError, Unsupported
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import ISAS
from tests.ops.ml.agreement import SCORES, agree, classify, model_of
from tests.ops.ml.random_trees import MODES, RandomTrees, rows

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def trees_of(
    rng: np.random.Generator, *, modes: tuple[str, ...] = MODES, features: int = 4, count: int = 11
) -> RandomTrees:
    trees = RandomTrees(rng, features, modes, missing=bool(rng.random() < 0.5))
    for tree in range(count):
        trees.grow(tree, int(rng.integers(0, 6)))
    return trees


@settings(max_examples=trials(12), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    modes=st.sets(st.sampled_from(MODES), min_size=1).map(lambda chosen: tuple(sorted(chosen))),
    targets=st.sampled_from([1, 1, 3]),
    aggregate=st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]),
    transform=st.sampled_from(TRANSFORMS),
    dtype=st.sampled_from(["float32", "float64"]),
    one_each=st.booleans(),
)
def test_regressor(
    seed: int, modes: tuple[str, ...], targets: int, aggregate: str, transform: str, dtype: str, one_each: bool
) -> None:
    rng = np.random.default_rng(seed)
    trees = trees_of(rng, modes=modes)
    attrs: dict[str, Any] = {
        **trees.nodes, **trees.weights("target", list(range(targets)), positive=False, one_each=one_each),
        "n_targets": targets, "aggregate_function": aggregate, "post_transform": transform,
    }  # fmt: skip
    if rng.random() < 0.5:
        attrs["base_values"] = rng.normal(size=targets).astype(np.float32).tolist()
    agree("TreeEnsembleRegressor", [rows(rng, 19, 4, dtype)], attrs)


@settings(max_examples=trials(12), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    classes=st.sampled_from([(1, [0]), (2, [0]), (2, [1]), (2, [0, 1]), (3, [0, 1, 2]), (4, [1, 3])]),
    transform=st.sampled_from(TRANSFORMS),
    dtype=st.sampled_from(["float32", "float64", "int64", "int32"]),
    positive=st.booleans(),
    one_each=st.booleans(),
    texts=st.booleans(),
)
def test_classifier(
    seed: int,
    classes: tuple[int, list[int]],
    transform: str,
    dtype: str,
    positive: bool,
    one_each: bool,
    texts: bool,
) -> None:
    rng = np.random.default_rng(seed)
    trees = trees_of(rng)
    count, scored = classes
    labels: dict[str, Any] = {"classlabels_int64s": rng.permutation(20)[:count].tolist()}
    if texts and count > 1:
        labels = {"classlabels_strings": [f"c{label}" for label in range(count)]}
    attrs = {
        **trees.nodes, **trees.weights("class", scored, positive=positive, one_each=one_each), **labels,
        "post_transform": transform,
    }  # fmt: skip
    if rng.random() < 0.5 and (count, scored) != (2, [1]):
        attrs["base_values"] = rng.normal(size=count).astype(np.float32).tolist()
    x = rows(rng, 19, 4, dtype, missing=dtype[0] == "f")
    classify("TreeEnsembleClassifier", x, attrs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_tree_ensemble_with_set_membership(dtype: type[np.floating[Any]], aggregate: int) -> None:
    """Two trees: one tests membership in sets of several values and of one, the other compares."""
    sets = [[1, 2], [0], [-1, 3]]
    members = np.array([value for each in sets for value in (*each, np.nan)], dtype)
    attrs: dict[str, Any] = {
        "n_targets": 2, "aggregate_function": aggregate, "tree_roots": [0, 3],
        "nodes_featureids": [0, 1, 2, 0, 1],
        "nodes_modes": numpy_helper.from_array(np.array([6, 6, 6, 0, 2], np.uint8)),
        "nodes_splits": numpy_helper.from_array(np.array([0, 0, 0, 0.5, -0.5], dtype)),
        "membership_values": numpy_helper.from_array(members),
        "nodes_truenodeids": [0, 1, 2, 4, 4], "nodes_trueleafs": [1, 1, 1, 0, 1],
        "nodes_falsenodeids": [1, 2, 3, 5, 6], "nodes_falseleafs": [0, 0, 1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 0, 1, 0],
        "leaf_weights": numpy_helper.from_array(np.array([1, 2, 4, 8, 16, 32, 64], dtype)),
    }  # fmt: skip
    x = np.random.default_rng(0).integers(-2, 5, (60, 3)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    (y,) = agree("TreeEnsemble", [x], attrs, {"y": kind}, version=5)
    assert len(np.unique(y)) > 4


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("rows_", [1, 7, 8, 9, 300])
def test_no_row_depends_on_its_neighbours(isa: str, rows_: int) -> None:
    rng = np.random.default_rng(1)
    trees = trees_of(rng, count=13)
    attrs = {**trees.nodes, **trees.weights("target", [0, 1], positive=False, one_each=False), "n_targets": 2}
    x = rows(rng, rows_, 4)
    graph = compile_model(model_of("TreeEnsembleRegressor", [x], attrs, SCORES), convert_options({}))[0].graph
    (launch,) = graph.nodes_of("Trees")
    constants = [value.array for value in launch.operands[1:]]
    node = make_node("Trees", [x, *constants], dict(launch.attrs), constants=range(1, 6))
    every = run_op(node, [x, *constants], isa=isa, threads=2)[0]
    for row in range(min(rows_, 20)):
        one_row = make_node("Trees", [x[row : row + 1], *constants], dict(launch.attrs), constants=range(1, 6))
        assert run_op(one_row, [x[row : row + 1], *constants])[0].tolist() == every[row : row + 1].tolist()


def one_split(**changes: Any) -> dict[str, Any]:
    """The attributes of one tree with two leaves."""
    attrs: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "n_targets": 1,
        "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0],
    }  # fmt: skip
    return {**attrs, **changes}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "lie on a cycle"),
        ({"nodes_truenodeids": [3, 0, 0]}, "a child that does not exist"),
        ({"nodes_truenodeids": [-1, 0, 0]}, "a child that does not exist"),
        ({"nodes_featureids": [2, 0, 0]}, "asks for feature 2, the rows have 2"),
        ({"nodes_nodeids": [0, 1, 1]}, "two nodes have the same tree and node id"),
        ({"nodes_modes": ["BRANCH_ODD", "LEAF", "LEAF"]}, "an unknown mode"),
        ({"nodes_values": [0.0]}, "not equally long"),
        ({"target_weights": [0.0]}, "not equally long"),
        ({"target_ids": [0, 1]}, "none of 1"),
        ({"target_nodeids": [1, 5]}, "a node that does not exist"),
        ({"target_weights": [0.0, float("inf")]}, "not finite"),
        ({"aggregate_function": "MEDIAN"}, "MEDIAN"),
        ({"post_transform": "CUBE"}, "CUBE"),
    ],
)
def test_invalid_trees_are_refused(changes: dict[str, Any], why: str) -> None:
    x = np.array([[0, 1], [0, -1]], np.float32)
    agree("TreeEnsembleRegressor", [x], one_split())
    with pytest.raises(AtcError, match=why):
        atcpy.backend.run_model(model_of("TreeEnsembleRegressor", [x], one_split(**changes), SCORES), [x])


def test_trees_may_share_nodes() -> None:
    """LightGBM's categories are exported this way: x = 1 and x = 3 lead to one node."""
    attrs: dict[str, Any] = {
        "nodes_treeids": [0] * 7, "nodes_nodeids": list(range(7)), "nodes_featureids": [0, 0, 1, 0, 0, 0, 0],
        "nodes_modes": ["BRANCH_EQ", "BRANCH_EQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "LEAF"],
        "nodes_values": [1.0, 3.0, 0.5, 0, 0, 0, 0], "nodes_truenodeids": [2, 2, 4, 0, 0, 0, 0],
        "nodes_falsenodeids": [1, 3, 5, 0, 0, 0, 0], "n_targets": 1, "target_treeids": [0] * 4,
        "target_nodeids": [3, 4, 5, 6], "target_ids": [0] * 4, "target_weights": [1.0, 2.0, 4.0, 8.0],
    }  # fmt: skip
    x = np.array([[1, 0], [1, 1], [2, 0], [3, 0], [3, 1]], np.float32)
    (y,) = agree("TreeEnsembleRegressor", [x], attrs)
    assert y[:, 0].tolist() == [2, 4, 1, 2, 4]
    with pytest.raises(AtcError, match="lie on a cycle"):
        attrs["nodes_truenodeids"] = [2, 2, 1, 0, 0, 0, 0]
        atcpy.backend.run_model(model_of("TreeEnsembleRegressor", [x], attrs, SCORES), [x])


def test_a_class_that_some_leaves_lack_is_refused_where_weights_are_negative() -> None:
    """ONNX Runtime leaves such a class out of the comparison in those rows only."""
    weights = {
        "class_treeids": [0, 0, 0], "class_nodeids": [1, 2, 2], "class_ids": [0, 0, 1], "class_weights": [-1.0, 1, 2],
        "classlabels_int64s": [0, 1, 2],
    }  # fmt: skip
    nodes = {name: value for name, value in one_split().items() if name.startswith("nodes_")}
    x = np.array([[0, 1], [0, -1]], np.float32)
    outputs = {"label": TensorProto.INT64, "scores": TensorProto.FLOAT}
    with pytest.raises(Unsupported, match="no weight for some classes"):
        atcpy.backend.run_model(model_of("TreeEnsembleClassifier", [x], {**nodes, **weights}, outputs), [x])
    classify("TreeEnsembleClassifier", x, {**nodes, **weights, "class_weights": [1.0, 1, 2]})

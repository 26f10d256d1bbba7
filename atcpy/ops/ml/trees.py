"""Ensembles of decision trees: every version becomes Trees, one launch of the kernel `trees`, and what follows it.

TreeEnsembleRegressor(x)   →  transform(Trees(x) + base_values)
TreeEnsembleClassifier(x)  →  label and transform of the same, with a target for each class

What the standard leaves open (two classes with one score, say) is as ONNX Runtime has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, Tensor, TensorDesc, Value
from atcpy.ir.tensor import Array
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, register_operator
from atcpy.ops.core.strided import rejects_value
from atcpy.ops.ml import forest as forests
from atcpy.ops.ml.forest import Forest, NotATree
from atcpy.ops.ml.record import DOMAIN, features, floats, ints, ml, texts
from atcpy.ops.ml.scores import (
    label_above,
    label_of_best,
    labels_of,
    of_two_classes,
    post_transform,
)

_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")  # numbered as TreeEnsemble 5 does
_MODES_BY_NUMBER = (forests.LEQ, forests.LT, forests.GTE, forests.GT, forests.EQ, forests.NEQ, forests.MEMBER)


def _rows(node: Node, columns: int, dtype: DType) -> TensorDesc:
    """Return the type of rows, one for each row of features. Without it, inference would expand all trees."""
    x = node.operand(0).desc
    if x.shape is None:
        return TensorDesc.plain(dtype, None)
    if len(x.shape) not in (1, 2):
        raise ModelInvalid("EZ8888", where=node, what=f"the features have rank {len(x.shape)}, not 1 or 2")
    return TensorDesc.plain(dtype, (x.shape[0] if len(x.shape) == 2 else 1, columns))


def infer_regressor(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A row of targets for each row of features."""
    dtype = node.operand(0).desc.dtype if node.op_type == "TreeEnsemble" else DType.FLOAT32
    return [_rows(node, node.int_attr("n_targets", 1), dtype)]


def infer_classifier(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A label and a row of scores for each row of features."""
    texts, numbers = (node.attrs.get(f"classlabels_{kind}", ()) for kind in ("strings", "int64s"))
    assert isinstance(texts, tuple) and isinstance(numbers, tuple)
    scores = _rows(node, len(texts) or len(numbers), DType.FLOAT32)
    label = TensorDesc.plain(DType.STRING if texts else DType.INT64, None if scores.shape is None else scores.shape[:1])
    return [label, scores]


@ml("TreeEnsembleRegressor", "X", kernel=OpDef(name="TreeEnsembleRegressor", domain=DOMAIN, infer=infer_regressor))
def tree_ensemble_regressor(e: Expansion) -> Value:
    """What the leaves give to each target, combined, plus base_values."""
    x, forest, targets = _features(e), _read_forest(e, "target"), e.count("n_targets", 1)
    y = _combined(e, x, forest, targets, e.node.str_attr("aggregate_function", "SUM"))
    base = floats(e, "base_values", x.desc.dtype)
    if len(base) == targets:
        if targets > 1:  # ONNX Runtime leaves targets zero that no leaf has
            base[np.setdiff1d(np.arange(targets), forest.targets)] = 0
        y = e.op("Add", y, e.const(base, label="base_values"))
    return post_transform(e, e.cast(y, DType.FLOAT32), targets)


@ml("TreeEnsemble", "X", kernel=OpDef(name="TreeEnsemble", domain=DOMAIN, infer=infer_regressor))
def tree_ensemble(e: Expansion) -> Value:
    """The newest form, whose leaves are no nodes; its result has the type of its input."""
    x, targets = _features(e), e.count("n_targets", 1)
    aggregate = e.node.int_attr("aggregate_function", 1)
    if not 0 <= aggregate < len(_AGGREGATES):
        raise e.invalid(f"aggregate_function = {aggregate}")
    y = _combined(e, x, _read_newest(e), targets, _AGGREGATES[aggregate])
    return e.cast(post_transform(e, y, targets), e.operand("X").desc.dtype)


@ml(
    "TreeEnsembleClassifier",
    "X",
    outputs=(1, 2),
    kernel=OpDef(name="TreeEnsembleClassifier", domain=DOMAIN, infer=infer_classifier),
)
def tree_ensemble_classifier(e: Expansion) -> Sequence[Value]:
    """A score for each class, and the label of the best one."""
    x = _features(e)
    forest, labels, base = _read_forest(e, "class"), labels_of(e), floats(e, "base_values", x.desc.dtype)
    scored = sorted(set(forest.targets.tolist()))
    if not scored or not len(labels):
        raise e.invalid("it has no scores or no labels")
    if len(labels) > 2:
        return _of_many(e, _sums(e, x, forest, len(labels)), forest, labels, base)
    if len(scored) == 2:
        return _of_two(e, _sums(e, x, forest, 2), labels, base)
    positive = bool((forest.weights >= 0).all())
    forest.targets = np.zeros_like(forest.targets)
    score = _sums(e, x, forest, 1)
    if len(labels) == 1:
        return _of_one(e, score, labels, base)
    return _of_one_score(e, score, scored[0], labels, base, is_share=positive)


# --- classes -------------------------------------------------------------------------------------


def _of_many(e: Expansion, scores: Value, forest: Forest, labels: Array, base: Array) -> Sequence[Value]:
    """Three classes or more. A class without a score is no candidate."""
    classes = len(labels)
    if len(base) == classes:
        scores = e.op("Add", scores, e.const(base, label="base_values"))
    elif len(base):
        raise e.invalid(f"{len(base)} base_values for {classes} classes")
    candidates = scores
    missing = np.setdiff1d(np.arange(classes), forest.targets)
    if not len(base) and len(missing):
        excluded = np.zeros(classes, scores.desc.dtype.numpy)
        excluded[missing] = -np.inf
        candidates = e.op("Add", scores, e.const(excluded, label="without_scores"))
    if not len(base) and (forest.weights < 0).any() and not _gives_all(forest, np.unique(forest.targets)):
        raise e.unsupported("some leaves have no weight for some classes, others a negative one")
    transformed = post_transform(e, e.cast(scores, DType.FLOAT32), classes)
    return [label_of_best(e, candidates, labels), transformed]


def _of_two(e: Expansion, scores: Value, labels: Array, base: Array) -> Sequence[Value]:
    """Two classes with a score each: the second decides. ONNX Runtime gives 0 or 1 for labels that are numbers."""
    if len(base) == 2:
        second = e.op("Add", e.slice(scores, 0, 1, 1), e.const(base[1:], label="base_values"))
        scores = e.op("Concat", e.op("Neg", second), second, axis=1)
    elif len(base) == 1:
        scores = e.op("Add", scores, e.const(np.append(base, base.dtype.type(0)), label="base_values"))
    label = label_above(e, e.slice(scores, 1, 2, 1), 0.0, _digits(labels))
    return [label, post_transform(e, e.cast(scores, DType.FLOAT32), 2)]


def _of_one(e: Expansion, score: Value, labels: Array, base: Array) -> Sequence[Value]:
    """One class, which ONNX Runtime calls 1 where its score is above zero, else 0."""
    if labels.dtype == np.object_:
        raise e.unsupported("one class whose label is a text")
    if len(base) == 1:
        score = e.op("Add", score, e.const(base, label="base_values"))
    return [label_above(e, score, 0.0, _digits(labels)), post_transform(e, e.cast(score, DType.FLOAT32), 1)]


def _of_one_score(
    e: Expansion, score: Value, scored: int, labels: Array, base: Array, *, is_share: bool
) -> Sequence[Value]:
    """Two classes of which one, `scored`, has a score: above a half is the second class if all weights are positive."""
    if scored == 1 and len(base) == 2:
        raise e.unsupported("two base_values, and scores of the second class only", "add the second to the weights")
    if scored == 0 and len(base):
        score = e.op("Add", score, e.const(base[:1], label="base_values"))
    label, score = label_above(e, score, 0.5 if is_share else 0.0, labels), e.cast(score, DType.FLOAT32)
    if scored == 1 or len(base) == 2:
        zero = e.op("Mul", score, e.like(0.0, score))
        both = e.op("Concat", *((zero, score) if scored == 1 else (score, zero)), axis=1)
        return [label, post_transform(e, both, 2)]
    return [label, of_two_classes(e, score, is_share=is_share)]


def _digits(labels: Array) -> Array:
    return labels if labels.dtype == np.object_ else np.arange(2)


def _gives_all(forest: Forest, classes: Array) -> bool:
    """Return whether each class has a tree all of whose leaves have a weight for it."""
    tree, _ = forests.check_trees(forest)
    leaves = np.bincount(tree[(tree >= 0) & (forest.modes == forests.LEAF)], minlength=len(forest.roots))
    for label in classes:
        of_class = np.unique(forest.leaves[forest.targets == label])
        if not (np.bincount(tree[of_class], minlength=len(forest.roots)) == leaves).any():
            return False
    return True


# --- attributes ----------------------------------------------------------------------------------


def _features(e: Expansion) -> Value:
    """Return the rows of features, as float64 if they are, else as float32."""
    x = features(e)
    return x if x.desc.dtype is DType.FLOAT64 else e.cast(x, DType.FLOAT32)


def _read_forest(e: Expansion, prefix: str) -> Forest:
    """Return the trees of a TreeEnsembleClassifier or TreeEnsembleRegressor: tree and node ids name the nodes."""
    trees, ids, values = ints(e, "nodes_treeids"), ints(e, "nodes_nodeids"), floats(e, "nodes_values", DType.FLOAT64)
    modes = [forests.MODES.get(mode, -1) for mode in texts(e, "nodes_modes")]
    leaf_trees, leaf_ids = ints(e, f"{prefix}_treeids"), ints(e, f"{prefix}_nodeids")
    targets, weights = ints(e, f"{prefix}_ids"), floats(e, f"{prefix}_weights", DType.FLOAT64)
    features = ints(e, "nodes_featureids")
    children = [ints(e, f"nodes_{side}nodeids") for side in ("true", "false")]
    missing = ints(e, "nodes_missing_value_tracks_true")
    if {len(each) for each in (trees, values, features, *children)} != {len(ids)} or not len(ids) == len(modes) > 0:
        raise e.invalid("the attributes of its nodes are not equally long")
    if any(len(each) != len(targets) for each in (leaf_trees, leaf_ids, weights)):
        raise e.invalid("the attributes of its leaves are not equally long")
    if -1 in modes or min(trees.min(), ids.min()) < 0 or max(trees.max(), ids.max()) >= 2**31:
        raise e.invalid("a node has an unknown mode, or an id that is no number of 31 bits")
    try:
        true, false = (forests.find_nodes(trees, ids, trees, side) for side in children)
        leaves = forests.find_nodes(trees, ids, leaf_trees, leaf_ids)
    except NotATree as error:
        raise e.invalid(str(error)) from error
    if (leaves < 0).any():
        raise e.invalid("a weight belongs to a node that does not exist")
    is_first = np.append(True, trees[1:] != trees[:-1])
    nan_true = np.zeros(len(ids), bool)
    nan_true[: len(missing)] = missing[: len(ids)] != 0
    return Forest(
        modes=np.array(modes), features=features, values=values, true=true, false=false, nan_true=nan_true,
        roots=np.flatnonzero(is_first), leaves=leaves, targets=targets, weights=weights, members={},
    )  # fmt: skip


def _read_newest(e: Expansion) -> Forest:
    """Return the trees of a TreeEnsemble: leaves become nodes behind the others."""
    features, missing = ints(e, "nodes_featureids"), ints(e, "nodes_missing_value_tracks_true")
    numbers, values = _tensor(e, "nodes_modes").astype(np.int64), _tensor(e, "nodes_splits").astype(np.float64)
    targets, weights = ints(e, "leaf_targetids"), _tensor(e, "leaf_weights").astype(np.float64)
    n, leaves = len(features), len(targets)
    children = [ints(e, f"nodes_{side}{what}") for side in ("true", "false") for what in ("nodeids", "leafs")]
    if (
        any(len(each) != n for each in (numbers, values, *children))
        or len(weights) != leaves
        or len(missing) not in (0, n)
    ):
        raise e.invalid("the attributes of its nodes or leaves are not equally long")
    true, false = (ids + np.where(are_leaves != 0, n, 0) for ids, are_leaves in (children[:2], children[2:]))
    if ((numbers < 0) | (numbers >= len(_MODES_BY_NUMBER))).any():
        raise e.invalid("a node has an unknown mode")
    modes = np.array(_MODES_BY_NUMBER)[numbers]
    nan_true = np.zeros(n, bool)
    nan_true[: len(missing)] = missing != 0
    zeros, false_flags = np.zeros(leaves, np.int64), np.zeros(leaves, bool)
    return Forest(
        modes=np.append(modes, zeros + forests.LEAF), features=np.append(features, zeros),
        values=np.append(values, zeros), true=np.append(true, zeros), false=np.append(false, zeros),
        nan_true=np.append(nan_true, false_flags), roots=ints(e, "tree_roots"), leaves=n + np.arange(leaves),
        targets=targets, weights=weights, members=_members(e, modes),
    )  # fmt: skip


def _members(e: Expansion, modes: Array) -> dict[int, Array]:
    """Return the values of each MEMBER node: NaN ends each set in `membership_values`."""
    values = _tensor(e, "membership_values").astype(np.float64) if "membership_values" in e.node.attrs else np.zeros(0)
    sets = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
    nodes = np.flatnonzero(modes == forests.MEMBER)
    if len(sets) < len(nodes) or (len(nodes) and not np.isnan(values).sum() >= len(nodes)):
        raise e.invalid(f"membership_values has {len(sets) - 1} sets for {len(nodes)} nodes")
    return {int(node): values[~np.isnan(values)] for node, values in zip(nodes, sets, strict=False)}


def _tensor(e: Expansion, name: str) -> Array:
    tensor = e.node.attrs.get(name)
    if not isinstance(tensor, Tensor):
        raise e.invalid(f"{name} is missing")
    return tensor.array.reshape(-1)


# --- Trees: csrc/ml/trees.c says what it computes ------------------------------------------------


def _sums(e: Expansion, x: Value, forest: Forest, targets: int) -> Value:
    return _combined(e, x, forest, targets, "SUM")


def _combined(e: Expansion, x: Value, forest: Forest, targets: int, aggregate: str) -> Value:
    """Return what the leaves give to each target."""
    if aggregate not in _AGGREGATES:
        raise e.invalid(f"aggregate_function = {aggregate}")
    if len(forest.targets) and not 0 <= forest.targets.min() <= forest.targets.max() < targets:
        raise e.invalid(f"a leaf has a target or class that is none of {targets}")
    asked = forest.features[forest.modes != forests.LEAF]
    width = x.desc.shape[1] if x.desc.shape is not None else None
    last = int(asked.max(initial=0))
    if asked.min(initial=0) < 0 or (isinstance(width, int) and last >= width):
        raise e.invalid(f"a node asks for feature {last}, the rows have {width}")
    if not np.isfinite(forest.weights).all():
        raise e.unsupported("a weight is not finite")
    try:
        packed = forests.pack(forest, targets, np.float64 if x.desc.dtype is DType.FLOAT64 else np.float32)
    except NotATree as error:
        raise e.invalid(str(error)) from error
    operands = [e.const(array, label=label) for array, label in ((packed.nodes, "nodes"), (packed.roots, "roots"))]
    for array, label in zip(packed.leaves or (), ("leaves", "targets", "weights"), strict=False):
        operands.append(e.const(array, label=label))
    y = e.op(
        "Trees", x, *operands, targets=targets, depth=packed.depth, max_entries=packed.max_entries,
        missing=int(packed.missing), aggregate="sum" if aggregate == "AVERAGE" else aggregate.lower(),
    )  # fmt: skip
    return e.op("Div", y, e.like(float(len(forest.roots)), y)) if aggregate == "AVERAGE" else y


def infer_trees(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A row of targets for each row of features."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    if len(x.shape) != 2:
        raise ModelInvalid("EZ8888", where=node, what=f"the features have rank {len(x.shape)}, not 1 or 2")
    return [TensorDesc.plain(x.dtype, (x.shape[0], node.int_attr("targets", 1)))]


def evaluate_trees(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The plain definition, on features of any float type."""
    x, nodes, roots, *leaves = (array for array in arrays if array is not None)
    combine = {"sum": np.add, "min": np.minimum, "max": np.maximum}[node.str_attr("aggregate", "sum")]
    nothing = {"sum": 0.0, "min": np.inf, "max": -np.inf}[node.str_attr("aggregate", "sum")]
    reached, words = forests.walk(x, nodes, roots, node.int_attr("depth", 0))
    y = np.full((len(x), node.int_attr("targets", 1)), nothing, x.dtype)
    for tree in range(len(roots)):
        numbers = words[reached[:, tree]]
        if not leaves:
            weights = numbers.view(np.float32 if numbers.dtype == np.int32 else np.float64)
            y[:, 0] = combine(y[:, 0], weights)
            continue
        starts, targets, weights = leaves
        for row, number in enumerate(numbers):
            entries = slice(starts[number], starts[number + 1])
            combine.at(y[row], targets[entries], weights[entries].astype(x.dtype))
    return [np.where(y == nothing, x.dtype.type(0), y)]


def supports_trees(node: Node) -> Iterable[Reject]:
    """Rows of a known shape."""
    yield from rejects_value(node, node.operand(0).desc)


def lower_trees(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    x, nodes, roots, *leaves = node.operands
    rows, features = x.desc.static_shape
    params: dict[str, ParamValue] = {
        "rows": rows, "features": features, "targets": node.int_attr("targets", 1),
        "trees": roots.desc.elements, "nodes": nodes.desc.static_shape[0], "depth": node.int_attr("depth", 0),
        "max_entries": node.int_attr("max_entries", 0), "missing": node.int_attr("missing", 0),
        "aggregate": node.str_attr("aggregate", "sum"),
    }  # fmt: skip
    if leaves:
        params |= {"leaves": leaves[0].desc.elements - 1, "entries": leaves[1].desc.elements}
    if rows:
        yield KernelCall("trees", (x, nodes, roots, *leaves, *[None] * (3 - len(leaves))), (node.output,), params)


register_operator(
    OpDef(
        name="Trees",
        ge_type="TreeEnsemble",
        infer=infer_trees,
        evaluate=evaluate_trees,
        engines={Engine.AICPU: supports_trees},
        lower=lower_trees,
    )
)

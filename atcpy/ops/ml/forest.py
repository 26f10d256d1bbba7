"""Ensembles of decision trees: what the versions of the ops say, checked, and the constants of the kernel `trees`.

    Forest     the nodes of all trees in arrays, whichever op they come from
    pack       sorts them into the records that csrc/ml/trees.c reads

Every comparison becomes `x ≤ threshold`: x < t is x ≤ the number before t, x ≥ t is x < t with the children swapped,
and x = t is two of them. A leaf is a node whose children are itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from atcpy.ir.tensor import Array

LEAF, LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(8)
MODES = {
    "LEAF": LEAF, "BRANCH_LEQ": LEQ, "BRANCH_LT": LT, "BRANCH_GTE": GTE, "BRANCH_GT": GT, "BRANCH_EQ": EQ,
    "BRANCH_NEQ": NEQ,
}  # fmt: skip
_NAN_TO_CHILD_0 = 1 << 31


@dataclass(slots=True)
class Forest:
    """Nodes in arrays of one length. `true` and `false` are the indices of a node's children, `nan_true` says that NaN
    goes to the first. Entry i adds `weights[i]` to `targets[i]` at the leaf `leaves[i]`. `members` holds the values of
    the nodes whose mode is MEMBER.
    """

    modes: Array
    features: Array
    values: Array
    true: Array
    false: Array
    nan_true: Array
    roots: Array
    leaves: Array
    targets: Array
    weights: Array
    members: dict[int, Array]


@dataclass(frozen=True, slots=True)
class Packed:
    """The constants and arguments of a launch of `trees`; starts, targets and weights are None where each leaf has one
    weight for the only target.
    """

    nodes: Array
    roots: Array
    leaves: tuple[Array, Array, Array] | None
    depth: int
    max_entries: int
    missing: bool


class NotATree(ValueError):
    """Why nodes are no trees."""


def find_nodes(trees: Array, nodes: Array, target_trees: Array, target_nodes: Array) -> Array:
    """Return the index of each wanted node among those with these tree and node ids; −1 where there is none."""
    width = int(max(nodes.max(initial=0), target_nodes.max(initial=0))) + 1
    keys, targets = trees * width + nodes, target_trees * width + target_nodes
    order = np.argsort(keys, kind="stable")
    if len(keys) > 1 and (np.diff(keys[order]) == 0).any():
        raise NotATree("two nodes have the same tree and node id")
    found = order[np.minimum(np.searchsorted(keys, targets, sorter=order), len(keys) - 1)]
    return np.where((keys[found] == targets) & (target_nodes >= 0), found, -1)


def check_trees(forest: Forest) -> tuple[Array, Array]:
    """Return for each node the tree that it is in (−1: none) and how many comparisons come before it at most. Nodes may
    be shared, as LightGBM's categories are exported.

    Raises NotATree for a child that does not exist, and for nodes on a cycle.
    """
    n = len(forest.modes)
    is_inner = forest.modes != LEAF
    inner = np.flatnonzero(is_inner)
    children = np.concatenate([forest.true[inner], forest.false[inner]])
    if ((children < 0) | (children >= n)).any():
        raise NotATree("a node has a child that does not exist")
    if ((forest.roots < 0) | (forest.roots >= n)).any():
        raise NotATree("a tree begins with a node that does not exist")
    cost = np.where((forest.modes == EQ) | (forest.modes == NEQ), 2, 1)
    for node, values in forest.members.items():
        cost[node] = max(2 * len(values), 1)
    tree, before, done = np.full(n, -1), np.zeros(n, np.int64), 0
    tree[forest.roots] = np.arange(len(forest.roots))
    parents_left = np.bincount(children, minlength=n)
    level = np.flatnonzero(parents_left == 0)
    while len(level):  # a node comes when all of its parents have come
        done += len(level)
        parents = np.tile(level[is_inner[level]], 2)
        children = np.concatenate([side[level[is_inner[level]]] for side in (forest.true, forest.false)])
        np.maximum.at(before, children, before[parents] + cost[parents])
        np.maximum.at(tree, children, tree[parents])
        np.subtract.at(parents_left, children, 1)
        level = np.unique(children[parents_left[children] == 0])
    if done < n:
        raise NotATree("its nodes lie on a cycle")
    return tree, before


def pack(forest: Forest, targets: int, dtype: type[np.floating]) -> Packed:
    """Return the constants of the kernel for features of this type. Raises NotATree."""
    tree, before = check_trees(forest)
    used = np.flatnonzero(tree >= 0)
    order = used[np.lexsort((before[used], tree[used]))]  # each tree together, its upper levels first
    forest, order = _without_sets(forest, order, dtype)
    below = np.nextafter(forest.values.astype(dtype), dtype(-np.inf))
    thresholds = np.where((forest.modes == LT) | (forest.modes == GTE), below, forest.values.astype(dtype))
    thresholds[((forest.modes == LT) | (forest.modes == GTE)) & (forest.values == -np.inf)] = np.nan  # nothing is less
    is_leaf, swapped = forest.modes == LEAF, (forest.modes == GTE) | (forest.modes == GT)
    child_0, child_1 = (
        np.where(swapped, one, other) for one, other in ((forest.false, forest.true), (forest.true, forest.false))
    )
    nan_to_0 = (forest.nan_true != swapped) & ~is_leaf

    position = np.full(len(forest.modes), 0)
    position[order] = np.arange(len(order))
    itself = np.arange(len(order))
    leaf = is_leaf[order]
    child_0, child_1 = (
        np.where(leaf, itself, position[np.where(is_leaf, 0, children)[order]]) for children in (child_0, child_1)
    )
    features = np.where(leaf, 0, forest.features[order])
    payload, leaves, max_entries = _leaves(forest, order[leaf], targets, dtype)
    words = thresholds[order].view(np.int32 if dtype is np.float32 else np.int64).astype(np.int64)
    words[leaf] = payload
    flags = features | np.where(nan_to_0[order], _NAN_TO_CHILD_0, 0)
    children = child_0 | child_1 << 32
    if dtype is np.float32:
        nodes = np.stack([words & 0xFFFFFFFF | flags << 32, children], axis=1)
    else:
        nodes = np.stack([words, flags, children], axis=1)
    depth = int(before[used].max(initial=0))
    return Packed(
        nodes, position[forest.roots].astype(np.int32), leaves, depth, max_entries, bool(nan_to_0[order].any())
    )


def walk(x: Array, nodes: Array, roots: Array, depth: int) -> tuple[Array, Array]:
    """Return the node that each row reaches in each tree, and the nodes' first words: leaf numbers or weights."""
    if nodes.shape[1] == 2:
        first, features = nodes[:, 0].astype(np.int32), nodes[:, 0] >> 32 & 0xFFFFFFFF
        thresholds = first.view(np.float32)
    else:
        first, features = nodes[:, 0], nodes[:, 1]
        thresholds = np.ascontiguousarray(first).view(np.float64)
    children = np.stack([nodes[:, -1] & 0xFFFFFFFF, nodes[:, -1] >> 32])
    nan_to_0, features = features >= _NAN_TO_CHILD_0, features % _NAN_TO_CHILD_0
    at = np.tile(roots.astype(np.int64), (len(x), 1))
    for _ in range(depth):
        reached = np.take_along_axis(x, features[at], 1)
        goes_to_0 = (reached <= thresholds[at]) | (np.isnan(reached) & nan_to_0[at])
        at = np.where(goes_to_0, children[0][at], children[1][at])
    return at, first


def _leaves(
    forest: Forest, leaves: Array, targets: int, dtype: type[np.floating]
) -> tuple[Array, tuple[Array, Array, Array] | None, int]:
    """Return what the node of each leaf holds, the entries of all leaves, and how many one has at most."""
    number = np.full(len(forest.modes), -1)
    number[leaves] = np.arange(len(leaves))
    of_entry = number[forest.leaves]
    entries = np.flatnonzero(of_entry >= 0)  # weights of inner nodes are ignored, as ONNX Runtime does
    entries = entries[np.argsort(of_entry[entries], kind="stable")]
    counts = np.bincount(of_entry[entries], minlength=len(leaves))
    weights = forest.weights[entries].astype(dtype)
    integer = np.int32 if dtype is np.float32 else np.int64
    if targets == 1 and (counts == 1).all():
        return weights.view(integer).astype(np.int64), None, 0
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return (
        np.arange(len(leaves)),
        (starts, forest.targets[entries].astype(np.int32), weights),
        int(counts.max(initial=0)),
    )


def _without_sets(forest: Forest, order: Array, dtype: type[np.floating]) -> tuple[Forest, Array]:
    """Write EQ, NEQ and MEMBER nodes as chains: for each value v, x < v goes on to the next, then x ≤ v is it."""
    sets: list[tuple[int, list[float]]] = [
        (int(node), (forest.members[int(node)] if forest.modes[node] == MEMBER else forest.values[[node]]).tolist())
        for node in order[forest.modes[order] >= EQ]
    ]
    if not sets:
        return forest, order
    modes, features, values = forest.modes.tolist(), forest.features.tolist(), forest.values.tolist()
    true, false, nan_true = forest.true.tolist(), forest.false.tolist(), forest.nan_true.tolist()
    followers: dict[int, list[int]] = {}
    for node, numbers in sets:
        yes, no = (true[node], false[node]) if modes[node] != NEQ else (false[node], true[node])
        to_yes = nan_true[node] and modes[node] != NEQ
        chain = [node, *range(len(modes), len(modes) + max(2 * len(numbers) - 1, 0))]
        for array, fill in (
            (modes, LEQ), (features, features[node]), (values, np.nan), (true, no), (false, no), (nan_true, False)
        ):  # fmt: skip
            array.extend([fill] * (len(chain) - 1))
        modes[node], values[node], true[node], false[node], nan_true[node] = LEQ, np.nan, no, no, False
        for index, number in enumerate(numbers):
            less, same = chain[2 * index : 2 * index + 2]
            following = chain[2 * index + 2] if index + 1 < len(numbers) else no
            modes[less], values[less], true[less], false[less] = LT, number, following, same
            modes[same], values[same], true[same], false[same], nan_true[same] = LEQ, number, yes, following, to_yes
        followers[node] = chain[1:]
    expanded = [each for node in order.tolist() for each in (node, *followers.get(node, ()))]
    changed = replace(
        forest, modes=np.array(modes), features=np.array(features), values=np.array(values), true=np.array(true),
        false=np.array(false), nan_true=np.array(nan_true), members={},
    )  # fmt: skip
    return changed, np.array(expanded)

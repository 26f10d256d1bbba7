"""Random attributes of TreeEnsembleClassifier and TreeEnsembleRegressor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from atcpy.ir.tensor import Array

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@dataclass(slots=True)
class RandomTrees:
    """Builder of random trees; features are multiples of ½ in [−1.5, 1.5], so that many equal a threshold."""

    rng: np.random.Generator
    features: int
    modes: tuple[str, ...] = MODES
    missing: bool = False
    nodes: dict[str, list[Any]] = field(default_factory=dict)
    leaves: list[tuple[int, int]] = field(default_factory=list)

    def grow(self, tree: int, depth: int) -> None:
        """Add a tree of at most this depth."""
        self._node(tree, [0], depth)

    def _node(self, tree: int, count: list[int], depth: int) -> int:
        number = count[0]
        count[0] += 1
        is_leaf = depth == 0 or self.rng.random() < 0.15
        row: dict[str, Any] = {
            "treeids": tree, "nodeids": number, "featureids": int(self.rng.integers(self.features)),
            "modes": "LEAF" if is_leaf else str(self.rng.choice(self.modes)),
            "values": float(self.rng.integers(-3, 4) / 2), "truenodeids": 0, "falsenodeids": 0,
            "missing_value_tracks_true": int(self.missing and self.rng.random() < 0.5),
        }  # fmt: skip
        for name, value in row.items():
            self.nodes.setdefault(f"nodes_{name}", []).append(value)
        if is_leaf:
            self.leaves.append((tree, number))
            return number
        position = len(self.nodes["nodes_nodeids"]) - 1
        for side in ("true", "false"):
            self.nodes[f"nodes_{side}nodeids"][position] = self._node(tree, count, depth - 1)
        return number

    def weights(self, prefix: str, targets: list[int], *, positive: bool, one_each: bool) -> dict[str, Any]:
        """Leaf weights for all targets, or for one target per tree."""
        entries: list[tuple[int, int, int, float]] = []
        for tree, node in self.leaves:
            for target in [targets[tree % len(targets)]] if one_each else targets:
                weight = float(np.float32(self.rng.normal()))
                entries.append((tree, node, target, abs(weight) if positive else weight))
        columns = zip(*entries, strict=True)
        names = ("treeids", "nodeids", "ids", "weights")
        return {f"{prefix}_{name}": list(column) for name, column in zip(names, columns, strict=True)}


def rows(rng: np.random.Generator, count: int, features: int, dtype: str = "float32", *, missing: bool = True) -> Array:
    """Rows of features; some floats are NaN or infinite."""
    x = rng.integers(-3, 4, (count, features)) / 2
    if missing:
        x[rng.random(x.shape) < 0.15] = np.nan
        x[rng.random(x.shape) < 0.05] = np.inf
    return x.astype(dtype)

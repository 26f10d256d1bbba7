"""Linear models: a product with the coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.ir import Value
from atcpy.ir.tensor import Array
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.ml.record import float_features, floats, ml
from atcpy.ops.ml.scores import label_above, label_of_best, labels_of, of_two_classes, post_transform


@ml("LinearRegressor", "X")
def linear_regressor(e: Expansion) -> Value:
    """X · coefficientsᵀ + intercepts"""
    targets = e.count("targets", 1)
    return post_transform(e, _product(e, targets), targets)


@ml("LinearClassifier", "X", outputs=(1, 2))
def linear_classifier(e: Expansion) -> Sequence[Value]:
    """X · coefficientsᵀ + intercepts, and the label of the highest score; one score decides between two labels."""
    labels = labels_of(e)
    targets = len(floats(e, "intercepts")) or max(len(labels), 1)
    scores = _product(e, targets)
    if targets > 1:
        if len(labels) < targets:
            raise e.invalid(f"{targets} intercepts for {len(labels)} labels")
        return [label_of_best(e, scores, labels), post_transform(e, scores, targets)]
    if len(labels) != 2:
        raise e.invalid(f"{len(labels)} labels for one score, which decides between two")
    return [label_above(e, scores, 0.0, labels), of_two_classes(e, scores, is_share=True)]


def _product(e: Expansion, targets: int) -> Value:
    coefficients, intercepts = floats(e, "coefficients"), floats(e, "intercepts")
    if len(coefficients) % targets or len(intercepts) not in (0, targets):
        raise e.invalid(f"{len(coefficients)} coefficients and {len(intercepts)} intercepts for {targets} targets")
    return product(e, float_features(e), coefficients.reshape(targets, -1), intercepts)


def product(e: Expansion, x: Value, rows: Array, bias: Array, scale: float = 1.0) -> Value:
    """Return scale · x · rowsᵀ + bias; an empty bias is none."""
    weights = e.const(np.ascontiguousarray(rows.T * np.float32(scale)), label="coefficients")
    added = e.const(bias, label="intercepts") if bias.any() else None
    return e.op("Gemm", x, weights, added)

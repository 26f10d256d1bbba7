"""SVMRegressor and SVMClassifier, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atcpy.ir.tensor import Array
from tests.harness import make_node, run_op
from tests.ops.ml.agreement import agree, classify

KERNELS: dict[str, list[float]] = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.5, 0.25, 3.0],
    "RBF": [0.5, 0.0, 3.0],
    "SIGMOID": [0.25, 0.5, 3.0],
}


def rows(count: int, offset: float = 0.0) -> Array:
    return (np.random.default_rng(0).normal(size=(count, 3)) + offset).astype(np.float32)


def kernel_of(name: str) -> dict[str, Any]:
    return {"kernel_type": name, "kernel_params": KERNELS[name]}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_regressor(kernel: str, one_class: int) -> None:
    vectors = rows(4)
    attrs: dict[str, Any] = {
        **kernel_of(kernel), "coefficients": [0.5, -1.0, 0.25, 0.75], "n_supports": 4, "rho": [0.25],
        "support_vectors": vectors.reshape(-1).tolist(), "one_class": one_class,
    }  # fmt: skip
    agree("SVMRegressor", [rows(7)], attrs, rtol=2e-5)


def test_regressor_without_vectors_is_linear() -> None:
    agree(
        "SVMRegressor",
        [rows(7)],
        {**kernel_of("LINEAR"), "coefficients": [0.5, -1.0, 0.25], "n_supports": 0, "rho": [0.25]},
    )


def machine(classes: int, *, probabilities: bool, offset: float = 0.0) -> dict[str, Any]:
    """The attributes of a classifier with two support vectors per class."""
    rng = np.random.default_rng(classes)
    pairs, vectors = classes * (classes - 1) // 2, rows(2 * classes, offset)
    attrs: dict[str, Any] = {
        "coefficients": rng.normal(size=(classes - 1) * len(vectors)).astype(np.float32).tolist(),
        "vectors_per_class": [2] * classes, "rho": rng.normal(size=pairs).astype(np.float32).tolist(),
        "support_vectors": vectors.reshape(-1).tolist(), "classlabels_ints": list(range(3, 3 + classes)),
    }  # fmt: skip
    if probabilities:
        attrs |= {"prob_a": [-1.5] * pairs, "prob_b": np.linspace(-0.5, 0.5, pairs).tolist()}
    return attrs


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("probabilities", [False, True])
def test_classifier(kernel: str, classes: int, probabilities: bool) -> None:
    attrs = {**kernel_of(kernel), **machine(classes, probabilities=probabilities)}
    label, _ = classify("SVMClassifier", rows(40), attrs, rtol=5e-5)
    assert len(set(label.tolist())) > 1


@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("classes", [2, 3])
def test_transforms(transform: str, classes: int) -> None:
    attrs = {**kernel_of("RBF"), **machine(classes, probabilities=False), "post_transform": transform}
    classify("SVMClassifier", rows(9), attrs, rtol=2e-5)


def test_rbf_of_rows_far_from_zero() -> None:
    """‖x‖² is 3e8 times the distances, so that ‖x‖² + ‖v‖² − 2·x·v would cancel completely."""
    attrs = {**kernel_of("RBF"), **machine(3, probabilities=False, offset=1e4)}
    classify("SVMClassifier", rows(9, offset=1e4), attrs, rtol=2e-4)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("classes", [2, 3])
def test_classifier_without_vectors_is_linear(sign: int, classes: int) -> None:
    coefficients = np.abs(np.random.default_rng(1).normal(size=3 * classes)).astype(np.float32) * sign
    attrs: dict[str, Any] = {
        "coefficients": coefficients.tolist(), "rho": [0.25], "classlabels_ints": list(range(classes)),
        **kernel_of("LINEAR"),
    }  # fmt: skip
    classify("SVMClassifier", rows(20), attrs)


def test_pairwise_coupling_gives_probabilities() -> None:
    x = np.random.default_rng(2).uniform(1e-7, 1 - 1e-7, (50, 6)).astype(np.float32)
    node = make_node("PairwiseCoupling", [x], {"classes": 4})
    (p,) = run_op(node, [x], threads=2)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)
    even = np.full((1, 6), 0.5, np.float32)
    np.testing.assert_allclose(run_op(make_node("PairwiseCoupling", [even], {"classes": 4}), [even])[0], 0.25)

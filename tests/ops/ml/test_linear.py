"""LinearRegressor and LinearClassifier, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import atcpy
from atcpy.errors import ModelInvalid
from tests.ops.ml.agreement import SCORES, agree, classify, model_of

X = np.array([[1, -2, 0.5], [0, 0, 0], [-3, 0.25, 1]], np.float32)
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
CLASSES: dict[str, Any] = {
    "coefficients": [0.5, 1.0, -2.0, 1.0, 0.0, 1.0, -1.0, 2.0, 0.5],
    "intercepts": [0.5, -1.0, 0.0],
    "classlabels_ints": [4, 5, 6],
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_regressor(transform: str) -> None:
    small = X / 16 + np.float32(0.25)  # PROBIT is defined between 0 and 1
    one = {"coefficients": [0.5, 1.0, -2.0], "intercepts": [0.25], "post_transform": transform}
    two = {"coefficients": [0.5, 1, 0.25, 1, 1, 0.125], "targets": 2, "post_transform": transform}
    agree("LinearRegressor", [small], one)
    agree("LinearRegressor", [small], {**two, "intercepts": [0.0, 0.125]})
    agree("LinearRegressor", [small], two)


@pytest.mark.parametrize("transform", TRANSFORMS[:-1])
def test_classifier(transform: str) -> None:
    classify("LinearClassifier", X, {**CLASSES, "post_transform": transform})
    classify("LinearClassifier", X.astype(np.int64), {**CLASSES, "post_transform": transform})


def test_classifier_with_string_labels() -> None:
    names = {name: value for name, value in CLASSES.items() if name != "classlabels_ints"}
    classify("LinearClassifier", X, {**names, "classlabels_strings": ["a", "b", "c"]})


@pytest.mark.parametrize("labels", [[7, 9], [0, 1]])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_one_score_decides_between_two_labels(labels: list[int], transform: str) -> None:
    attrs = {"coefficients": [0.5, 1, -2], "intercepts": [-0.25], "classlabels_ints": labels}
    classify("LinearClassifier", X, {**attrs, "post_transform": transform})


def test_without_intercepts_nothing_is_added() -> None:
    def run(attrs: dict[str, Any]) -> list[object]:
        model = model_of("LinearClassifier", [X], attrs, {"label": TensorProto.INT64, "scores": TensorProto.FLOAT})
        return [array.tolist() for array in atcpy.backend.run_model(model, [X])]

    without = {name: value for name, value in CLASSES.items() if name != "intercepts"}
    assert run(without) == run({**without, "intercepts": [0.0, 0.0, 0.0]})


def test_inconsistent_coefficients_are_refused() -> None:
    attrs = {"coefficients": [0.5, 1.0, -2.0], "targets": 2}
    with pytest.raises(ModelInvalid, match="3 coefficients and 0 intercepts for 2 targets"):
        atcpy.backend.run_model(model_of("LinearRegressor", [X], attrs, SCORES), [X])

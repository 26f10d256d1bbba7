"""Ops of ONNX-ML that prepare features, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

import atcpy
from atcpy.errors import AtcError
from atcpy.ir.tensor import Array
from tests.ops.ml.agreement import SCORES, agree, model_of

X = np.array([[1, -2, 0.5], [0, 0, 0], [np.nan, 3, -4]], np.float32)
WHOLE = np.array([[1, -2, 7], [0, 0, 7], [5, 3, -4]], np.int64)


@pytest.mark.parametrize("x", [X, X.astype(np.float64), WHOLE], ids=["float32", "float64", "int64"])
def test_scaler(x: Array) -> None:
    agree("Scaler", [x], {"offset": [1.0, 2.0, 3.0], "scale": [2.0, 0.5, -1.0]})
    agree("Scaler", [x], {"offset": [0.5], "scale": [2.0]})


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    agree("Normalizer", [X[:2]], {"norm": norm})
    agree("Normalizer", [WHOLE], {"norm": norm})


def test_binarizer() -> None:
    agree("Binarizer", [X[:2]], {"threshold": 0.5})


def test_imputer() -> None:
    agree("Imputer", [X], {"imputed_value_floats": [9.0, 8.0, 7.0], "replaced_value_float": float("nan")})
    agree("Imputer", [X[:2]], {"imputed_value_floats": [9.0], "replaced_value_float": -2.0})
    attrs = {"imputed_value_int64s": [9], "replaced_value_int64": 7}
    agree("Imputer", [WHOLE], attrs, {"y": TensorProto.INT64})


def test_array_feature_extractor() -> None:
    agree("ArrayFeatureExtractor", [X[:2], np.array([2, 0, 2])], {})
    agree("ArrayFeatureExtractor", [X[0], np.array([[1, 0]])], {})
    agree("ArrayFeatureExtractor", [WHOLE, np.array([1])], {}, {"y": TensorProto.INT64})


@pytest.mark.parametrize("sizes", [[3, 2], [2, 2], [4, 2], [1, 5]])
def test_feature_vectorizer_truncates_and_pads(sizes: list[int]) -> None:
    agree("FeatureVectorizer", [X, X[:, :2]], {"inputdimensions": sizes})
    agree("FeatureVectorizer", [X[0], X[0, :2]], {"inputdimensions": sizes})


@pytest.mark.parametrize(
    ("op_type", "attrs", "why"),
    [
        ("Imputer", {"replaced_value_float": 1.0}, "imputed_value_floats is missing"),
        ("FeatureVectorizer", {"inputdimensions": [3, 4]}, "2 sizes for 1 inputs"),
    ],
)
def test_inconsistent_attributes_are_refused(op_type: str, attrs: dict[str, object], why: str) -> None:
    with pytest.raises(AtcError, match=why):
        atcpy.backend.run_model(model_of(op_type, [X[:2]], attrs, SCORES), [X[:2]])

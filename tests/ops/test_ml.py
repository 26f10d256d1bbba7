"""Ops of ai.onnx.ml that have no shape functions in the standard, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import atcpy
from atcpy.errors import Unsupported
from atcpy.ir.tensor import Array

ML = "ai.onnx.ml"
X = np.array([[1, -2, 0.5], [0, 0, 0], [np.nan, 3, -4]], np.float32)
WHOLE = np.array([[1, -2, 7], [0, 0, 7], [5, 3, -4]], np.int64)


def agree(op_type: str, arrays: Sequence[Array], attrs: dict[str, object], *, outputs: Sequence[str] = ("y",)) -> None:
    names = [f"x{index}" for index in range(len(arrays))]
    node = helper.make_node(op_type, names, outputs, domain=ML, **attrs)
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, arrays, strict=True)
    ]
    dtype = helper.np_dtype_to_tensor_dtype(arrays[0].dtype) if op_type == "Imputer" else TensorProto.FLOAT
    types = [TensorProto.INT64 if name == "label" else dtype for name in outputs]
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outputs, types, strict=True)]
    graph = helper.make_graph([node], "g", ports, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(ML, 1), helper.make_opsetid("", 21)])
    model.ir_version = 10
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, dict(zip(names, arrays, strict=True)))
    for found, expected in zip(atcpy.backend.run_model(model, list(arrays)), wanted, strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("x", [X, WHOLE], ids=["float32", "int64"])
def test_scaler(x: Array) -> None:
    agree("Scaler", [x], {"offset": [1.0, 2.0, 3.0], "scale": [2.0, 0.5, -1.0]})
    agree("Scaler", [x], {"offset": [0.5], "scale": [2.0]})


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    agree("Normalizer", [X[:2]], {"norm": norm})
    agree("Normalizer", [WHOLE], {"norm": norm})


def test_linear_regressor() -> None:
    agree("LinearRegressor", [X[:2]], {"coefficients": [0.5, 1.0, -2.0], "intercepts": [0.25]})
    agree("LinearRegressor", [X[:2]], {"coefficients": [0.5, 1, -2, 1, 1, 1], "intercepts": [1.0, 2.0], "targets": 2})
    agree("LinearRegressor", [X[:2]], {"coefficients": [0.5, 1, -2, 1, 1, 1], "targets": 2})


CLASSES: dict[str, object] = {
    "coefficients": [0.5, 1.0, -2.0, 1.0, 0.0, 1.0, -1.0, 2.0, 0.5],
    "classlabels_ints": [4, 5, 6],
}


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear_classifier(transform: str) -> None:
    attrs = {**CLASSES, "post_transform": transform, "intercepts": [0.5, -1.0, 0.0]}
    agree("LinearClassifier", [X[:2]], attrs, outputs=("label", "scores"))


def test_without_intercepts_nothing_is_added() -> None:
    def run(**attrs: object) -> list[object]:
        node = helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain=ML, **CLASSES, **attrs)
        return [array.tolist() for array in atcpy.backend.run_node(node, [X[:2]], opset_version=1)]

    assert run() == run(intercepts=[0.0, 0.0, 0.0])


def test_imputer_and_vectorizer() -> None:
    agree("Imputer", [X], {"imputed_value_floats": [9.0, 8.0, 7.0], "replaced_value_float": float("nan")})
    agree("Imputer", [WHOLE], {"imputed_value_int64s": [9], "replaced_value_int64": 7})
    agree("FeatureVectorizer", [X, X[:, :2]], {"inputdimensions": [3, 2]})


def test_svm_regressor() -> None:
    attrs: dict[str, object] = {
        "coefficients": [0.5, -1.0],
        "kernel_params": [0.5, 0.0, 3.0],
        "kernel_type": "RBF",
        "n_supports": 2,
        "rho": [0.25],
        "support_vectors": [1.0, 2.0, 3.0, 0.0, 1.0, 0.5],
    }
    agree("SVMRegressor", [X[:2]], attrs)


def test_what_follows_a_regression_is_not_left_out_in_silence() -> None:
    node = helper.make_node("LinearRegressor", ["x"], ["y"], domain=ML, coefficients=[1.0], post_transform="PROBIT")
    with pytest.raises(Unsupported, match="PROBIT"):
        atcpy.backend.run_node(node, [X[:, :1]], opset_version=1)

"""Ops of ai.onnx.ml without good shape functions in the standard: scaling, filling in, linear and SVM models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.errors import ModelInvalid, Unsupported
from atcpy.ir import DType, Node, TensorDesc
from atcpy.ir.shape import Dim, Shape
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import Evaluate, Infer, Known, OpDef, register_operator

DOMAIN = "ai.onnx.ml"


def infer_as_input(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The input's type."""
    return [node.operand(0).desc.as_plain()]


def infer_as_floats(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The input's shape, in float32."""
    return [TensorDesc.plain(DType.FLOAT32, node.operand(0).desc.shape)]


def infer_linear(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A row of targets for each row of features."""
    _check_transform(node)
    return [_rows(node, node.int_attr("targets", 1))]


def infer_svm(node: Node, known: Known) -> Sequence[TensorDesc]:
    """One number for each row of features."""
    _check_transform(node)
    return [_rows(node, 1)]


def infer_vectorizer(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The rows of all inputs behind each other, each as long as `inputdimensions` says."""
    return [_rows(node, sum(node.ints_attr("inputdimensions")))]


def infer_linear_classifier(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A label for each row of features, and a score for each label; ONNX counts intercepts, which may be left out."""
    texts, numbers = (node.attrs.get(f"classlabels_{kind}", ()) for kind in ("strings", "ints"))
    assert isinstance(texts, tuple) and isinstance(numbers, tuple)
    scores = _rows(node, max(len(texts), len(numbers), 1))
    shape = None if scores.shape is None else scores.shape[:1]
    return [TensorDesc.plain(DType.STRING if texts else DType.INT64, shape), scores]


def _check_transform(node: Node) -> None:
    transform = node.str_attr("post_transform", "NONE")
    if transform != "NONE":
        raise Unsupported("E10055", f"post_transform = {transform}", where=node, hint="do that step behind the model")


def _rows(node: Node, columns: int) -> TensorDesc:
    shape = node.operand(0).desc.shape
    if shape is None:
        return TensorDesc.plain(DType.FLOAT32, None)
    if len(shape) not in (1, 2):
        raise ModelInvalid("EZ8888", where=node, what=f"the features have rank {len(shape)}, not 1 or 2")
    rows: Dim = shape[0] if len(shape) == 2 else 1
    made: Shape = (rows, columns)
    return TensorDesc.plain(DType.FLOAT32, made)


def evaluate_scaler(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """(x − offset) · scale."""
    offset, scale = (_floats(node, name, default) for name, default in (("offset", 0.0), ("scale", 1.0)))
    return [(_features(arrays) - offset) * scale]


def evaluate_normalizer(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Each row over its norm; a row whose norm is zero stays."""
    x = _features(arrays)
    match node.str_attr("norm", "MAX"):
        case "MAX":
            norm = x.max(-1, keepdims=True, initial=-np.inf)
        case "L1":
            norm = np.abs(x).sum(-1, keepdims=True)
        case _:
            norm = np.sqrt(np.square(x).sum(-1, keepdims=True))
    return [x / np.where(norm == 0, np.float32(1), norm)]


def evaluate_linear(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """x · coefficientsᵀ + intercepts."""
    x = np.atleast_2d(_features(arrays))
    coefficients = _floats(node, "coefficients", 0.0).reshape(node.int_attr("targets", 1), -1)
    return [x @ coefficients.T + _floats(node, "intercepts", 0.0)]


def _features(arrays: Sequence[Array | None]) -> Array:
    return np.asarray(arrays[0]).astype(np.float32)


def _floats(node: Node, name: str, default: float) -> Array:
    return np.asarray(node.attrs.get(name, (default,)), np.float32)


def _register(name: str, infer: Infer, evaluate: Evaluate | None = None) -> None:
    register_operator(OpDef(name=name, domain=DOMAIN, infer=infer, evaluate=evaluate))


_register("FeatureVectorizer", infer_vectorizer)
_register("Imputer", infer_as_input)
_register("LinearClassifier", infer_linear_classifier)
_register("LinearRegressor", infer_linear, evaluate_linear)
_register("Normalizer", infer_as_floats, evaluate_normalizer)
_register("SVMRegressor", infer_svm)
_register("Scaler", infer_as_floats, evaluate_scaler)

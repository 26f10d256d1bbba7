"""Linear algebra on the host, in TensorFlow graphs and as nodes, checked by the identities that define the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy.errors import AtcError, ModelInvalid
from atcpy.ops.linalg import DOMAIN
from tests.harness import make_node
from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type

RNG = np.random.default_rng(5)
A = RNG.normal(size=(2, 3, 4, 4)) + 4 * np.eye(4)
B = RNG.normal(size=(2, 3, 4, 2))
SYMMETRIC = A @ np.swapaxes(A, -1, -2)
TALL = RNG.normal(size=(3, 5, 3))
DTYPES = (("float32", 2e-4), ("float64", 1e-11))
MODES = (False, True)  # whether sizes are symbolic


def transposed(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def run(
    folder: Path, op: str, inputs: Sequence[Array], outputs: int, *, is_open: bool = False, **attrs: Any
) -> list[Array]:
    g = TfBuilder()
    names = [
        g.input(f"x{index}", str(x.dtype), [None] * x.ndim if is_open else x.shape) for index, x in enumerate(inputs)
    ]
    y = g.add(op, *names, name="y", T=Type(str(inputs[0].dtype)), **attrs)
    feeds = dict(zip(names, inputs, strict=True))
    return g.run(folder, feeds, *[f"{y}:{index}" for index in range(outputs)])


@pytest.mark.parametrize("is_open", MODES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_decompositions(tmp_path: Path, dtype: str, tolerance: float, is_open: bool) -> None:
    x, tall = SYMMETRIC.astype(dtype), TALL.astype(dtype)
    noise = np.triu(np.full((4, 4), 7, dtype), 1)  # the upper triangle is not read
    (low,) = run(tmp_path, "Cholesky", [np.tril(x) + noise], 1, is_open=is_open)
    assert low.dtype == dtype and np.array_equal(low, np.tril(low)) and (np.diagonal(low, 0, -1, -2) > 0).all()
    np.testing.assert_allclose(low @ transposed(low), x, tolerance, tolerance)
    values, vectors = run(tmp_path, "SelfAdjointEigV2", [np.tril(x) + noise], 2, is_open=is_open)
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(vectors * values[..., None, :] @ transposed(vectors), x, tolerance, tolerance * 100)
    for full, inner in ((False, 3), (True, 5)):
        q, r = run(tmp_path, "Qr", [tall], 2, full_matrices=full, is_open=is_open)
        assert q.shape == (3, 5, inner) and r.shape == (3, inner, 3) and np.array_equal(r, np.triu(r))
        np.testing.assert_allclose(q @ r, tall, tolerance, tolerance)
        np.testing.assert_allclose(transposed(q) @ q, np.broadcast_to(np.eye(inner), (3, inner, inner)), 0, tolerance)
        s, u, v = run(tmp_path, "Svd", [transposed(tall)], 3, full_matrices=full, is_open=is_open)
        assert (s.shape, u.shape, v.shape) == ((3, 3), (3, 3, 3), (3, 5, inner))
        np.testing.assert_allclose(u * s[:, None] @ transposed(v[..., :3]), transposed(tall), tolerance, tolerance)
    (values,) = run(tmp_path, "Svd", [tall], 1, compute_uv=False, is_open=is_open)
    np.testing.assert_allclose(values, s, tolerance, tolerance)


@pytest.mark.parametrize("is_open", MODES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_linear_systems(tmp_path: Path, dtype: str, tolerance: float, is_open: bool) -> None:
    a, b = A.astype(dtype), B.astype(dtype)
    unit = np.broadcast_to(np.eye(4), a.shape)
    sign, log = run(tmp_path, "LogMatrixDeterminant", [-a[0, 0, :3, :3]], 2, is_open=is_open)
    np.testing.assert_allclose(sign * np.exp(log), np.linalg.det(-A[0, 0, :3, :3]), tolerance)
    for adjoint in (False, True):
        m = transposed(a) if adjoint else a
        (inverse,) = run(tmp_path, "MatrixInverse", [a], 1, adjoint=adjoint, is_open=is_open)
        np.testing.assert_allclose(inverse @ m, unit, tolerance, tolerance)
        (x,) = run(tmp_path, "MatrixSolve", [a, b], 1, adjoint=adjoint, is_open=is_open)
        np.testing.assert_allclose(m @ x, b, tolerance, tolerance)
        for lower in (False, True):
            triangle = np.tril(a) if lower else np.triu(a)
            (x,) = run(tmp_path, "MatrixTriangularSolve", [a, b[0, 0]], 1, lower=lower, adjoint=adjoint)
            assert x.shape == b.shape and x.dtype == dtype
            product = (transposed(triangle) if adjoint else triangle) @ x
            np.testing.assert_allclose(product, np.broadcast_to(b[0, 0], x.shape), tolerance, tolerance)


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [
        ("Cholesky", [np.float32([[1, 2], [2, 1]])], "not positive definite"),
        ("MatrixInverse", [np.ones((2, 2), np.float32)], "Singular matrix"),
        ("MatrixSolve", [np.zeros((2, 2), np.float32), np.ones((2, 1), np.float32)], "Singular matrix"),
    ],
)
def test_inputs_without_a_solution_are_refused(tmp_path: Path, op: str, inputs: list[Array], message: str) -> None:
    with pytest.raises(ModelInvalid, match=message) as caught:
        run(tmp_path, op, inputs, 1)
    assert caught.value.code == "D0001"


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        ("Cholesky", [(3,)], "holds no matrices"),
        ("MatrixInverse", [(2, 3, 4)], "its matrices are not square"),
        ("MatrixSolve", [(3, 3), (2, 1)], "do not fit"),
        ("MatrixTriangularSolve", [(3, 3), (3,)], "input 1 of shape .* holds no matrices"),
        ("MatrixTriangularSolve", [(2, 3, 3), (3, 3, 1)], "do not broadcast"),
    ],
)
def test_invalid_shapes_are_refused(op: str, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(ModelInvalid, match=message):
        make_node(op, [np.zeros(shape, np.float32) for shape in shapes], domain=DOMAIN)


def test_unsupported_dtypes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AtcError, match=r"(?s)matrices of float16.*cast them to float32"):
        run(tmp_path, "Cholesky", [np.eye(2, dtype=np.float16)], 1)
    with pytest.raises(ModelInvalid, match="different element types"):
        make_node("MatrixSolve", [np.eye(2), np.eye(2, dtype=np.float32)], domain=DOMAIN)
    with pytest.raises(ModelInvalid, match="takes float32 and float64"):
        make_node("Qr", [np.eye(2, dtype=np.int64)], domain=DOMAIN, outputs=2)

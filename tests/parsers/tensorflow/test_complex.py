"""Complex numbers as pairs of real tensors, and Fourier transforms, against numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type

RANDOM = np.random.default_rng(3)
A = RANDOM.normal(size=(2, 3, 8)).astype("float32")
B = RANDOM.normal(size=(2, 3, 8)).astype("float32")
Z = A + 1j * B
BuildOp = Callable[[TfBuilder, str, str], str]  # adds an op that reads z and w = z²


def case(op: str, *more: Any, twice: bool = False, **attrs: Any) -> BuildOp:
    """An op on z, or on z and w if `twice`, followed by constant operands."""

    def make(g: TfBuilder, z: str, w: str) -> str:
        return g.add(op, *([z, w] if twice else [z]), *[g.const(item) for item in more], **attrs)

    return make


def length(*sizes: int) -> Array:
    return np.array(sizes, "int32")


CASES: list[tuple[BuildOp, Callable[[Any, Any], Any]]] = [
    (case("AddV2", twice=True), lambda z, w: z + w),
    (case("Sub", twice=True), lambda z, w: z - w),
    (case("Mul", twice=True), lambda z, w: z * w),
    (case("RealDiv", twice=True), lambda z, w: z / w),
    (case("Square"), lambda z, w: z * z),
    (case("Conj"), lambda z, w: z.conj()),
    (case("Exp"), lambda z, w: np.exp(z)),
    (case("Neg"), lambda z, w: -z),
    (case("Sum", length(2)), lambda z, w: z.sum(2)),
    (case("Reshape", length(3, -1)), lambda z, w: z.reshape(3, -1)),
    (case("Transpose", length(2, 0, 1)), lambda z, w: z.transpose(2, 0, 1)),
    (case("ConjugateTranspose", length(2, 0, 1)), lambda z, w: z.conj().transpose(2, 0, 1)),
    (case("BatchMatMulV2", twice=True, adj_y=True), lambda z, w: z @ w.conj().swapaxes(1, 2)),
    (case("Einsum", twice=True, equation="abc,abd->acd", N=2), lambda z, w: np.einsum("abc,abd->acd", z, w)),
    (case("Einsum", equation="abc->cb", N=1), lambda z, w: z.sum(0).T),
    (case("Pack", twice=True, axis=1), lambda z, w: np.stack([z, w], 1)),
    (case("Cast", DstT=Type("complex64")), lambda z, w: z),
    (case("FFT"), lambda z, w: np.fft.fft(z)),
    (case("IFFT"), lambda z, w: np.fft.ifft(z)),
    (case("FFT2D"), lambda z, w: np.fft.fft2(z)),
    (case("IFFT2D"), lambda z, w: np.fft.ifft2(z)),
    (case("FFT3D"), lambda z, w: np.fft.fftn(z)),
    (case("FFTND", length(4, 6), length(1, 2)), lambda z, w: np.fft.fftn(z, (4, 6), (1, 2))),
]
REALS: list[tuple[BuildOp, Callable[[Any, Any], Any]]] = [
    (case("Real"), lambda z, w: z.real),
    (case("Imag"), lambda z, w: z.imag),
    (case("ComplexAbs"), lambda z, w: abs(z)),
    (case("Angle"), lambda z, w: np.angle(z)),
    (case("Cast", DstT=Type("float32")), lambda z, w: z.real),
    (case("Shape"), lambda z, w: np.array(z.shape, "int32")),
    (case("IRFFT", length(14)), lambda z, w: np.fft.irfft(z, 14)),
    (case("IRFFT", length(9)), lambda z, w: np.fft.irfft(z, 9)),
    (case("IRFFT", length(20)), lambda z, w: np.fft.irfft(z, 20)),
    (case("IRFFT2D", length(3, 14)), lambda z, w: np.fft.irfft2(z, (3, 14))),
]


@pytest.mark.parametrize("is_known", [True, False])
def test_ops_of_complex_numbers(is_known: bool, tmp_path: Path) -> None:
    g = TfBuilder()
    a, b = (g.input(name, "float32", A.shape if is_known else [None] * 3) for name in "ab")
    z = g.add("Complex", a, b)
    w = g.add("Mul", z, z)
    outputs, expected = list[str](), list[Array]()
    for make, function in CASES:
        name, result = make(g, z, w), function(Z, Z * Z)
        outputs += [g.add("Real", name), g.add("Imag", name)]
        expected += [result.real, result.imag]
    for make, function in REALS:
        outputs.append(make(g, z, w))
        expected.append(function(Z, Z * Z))
    for result, array in zip(g.run(tmp_path, {"a": A, "b": B}, *outputs), expected, strict=True):
        assert result.shape == array.shape
        np.testing.assert_allclose(result, array, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("sizes", [(8,), (5,), (12,)])
def test_transforms_of_real_numbers(sizes: Sequence[int], tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", A.shape)
    one = g.add("RFFT", x, g.const(length(*sizes)))
    two = g.add("RFFT2D", x, g.const(length(3, *sizes)))
    results = g.run(tmp_path, {"x": A}, *[g.add(part, name) for name in (one, two) for part in ("Real", "Imag")])
    for result, array in zip(
        (results[:2], results[2:]), (np.fft.rfft(A, *sizes), np.fft.rfft2(A, (3, *sizes))), strict=True
    ):
        np.testing.assert_allclose(result[0] + 1j * result[1], array, rtol=2e-5, atol=2e-5)


def test_complex_constants_and_casts_to_complex(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", A.shape)
    factor = g.const(Z[:, :1].astype("complex64"))
    product = g.add("Mul", g.add("Cast", x, DstT=Type("complex64")), factor)
    real, imaginary = g.run(tmp_path, {"x": A}, g.add("Real", product), g.add("Imag", product))
    np.testing.assert_allclose(real + 1j * imaginary, A * Z[:, :1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["", "Tanh", "If"])
def test_unsupported_complex_ops_and_outputs_are_refused(op: str, tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", [4])
    node = g.add("FFT", g.add("Complex", x, x))
    if op == "If":
        body = TfBuilder()
        body.add("Identity", "a", name="same")
        branch = g.function("branch", body, {"a": "complex64"}, "same")
        node = g.add("If", g.input("p", "bool", []), node, then_branch=branch, else_branch=branch)
    elif op:
        node = g.add("Real", g.add(op, node))
    with pytest.raises(AtcError, match="complex"):
        g.converted(tmp_path, node)


def test_a_complex_input_is_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    node = g.add("Real", g.input("x", "complex64", [4]))
    with pytest.raises(AtcError, match="complex"):
        g.converted(tmp_path, node)

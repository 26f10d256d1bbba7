"""Gelu written with Erfc becomes one op; similar expressions do not."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import atcpy
from tests.parsers.tensorflow.graphs import TfBuilder, Type

ROOT = math.sqrt(0.5)
X = np.linspace(-6, 6, 41, dtype="float32")


def build(half: float = 0.5, root: float = ROOT, dtype: str = "float32", *, negated: bool = True) -> TfBuilder:
    """Add half · x · Erfc(−x · root), with constants cast to narrow dtypes."""
    g = TfBuilder()
    x, kind = g.input("x", dtype, [41]), Type(dtype)

    def number(value: float) -> str:
        constant = g.const(np.float32(value))
        return constant if dtype == "float32" else g.add("Cast", constant, SrcT=Type("float32"), DstT=kind)

    inner = g.add("Mul", g.add("Neg" if negated else "Identity", x, T=kind), number(root), T=kind)
    g.add("Mul", g.add("Mul", number(half), x, T=kind), g.add("Erfc", inner, T=kind), name="y", T=kind)
    return g


def kinds(folder: Path) -> list[str]:
    return [task.op_type for task in atcpy.InferenceSession(str(folder / "model.om")).tasks]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gelu_is_one_task(dtype: str, tmp_path: Path) -> None:
    (y,) = build(dtype=dtype).run(tmp_path, {"x": X.astype(dtype)}, "y")
    expected = [0.5 * x * math.erfc(-x / math.sqrt(2)) for x in X.astype(dtype).astype(float)]
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-6 if dtype == "float32" else 4e-3)
    assert kinds(tmp_path) == ["Gelu"] if dtype == "float32" else "Exp" not in kinds(tmp_path)


@pytest.mark.parametrize(("half", "root", "negated"), [(0.25, ROOT, True), (0.5, 0.7, True), (0.5, ROOT, False)])
def test_other_products_with_erfc_stay(half: float, root: float, negated: bool, tmp_path: Path) -> None:
    (y,) = build(half, root, negated=negated).run(tmp_path, {"x": X}, "y")
    sign = -1 if negated else 1
    expected = [half * x * math.erfc(sign * x * np.float32(root)) for x in X.astype(float)]
    np.testing.assert_allclose(y, expected, rtol=3e-6)
    assert "Gelu" not in kinds(tmp_path)

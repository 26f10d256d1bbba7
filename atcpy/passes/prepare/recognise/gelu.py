"""Name the Gelu that exporters spell out.

½ · x · (1 + Erf(x / √2))                        →  Gelu(x)
½ · x · (1 + Tanh(√(2/π) · (x + 0.044715 · x³)))  →  Gelu(x) {approximate=tanh}

PyTorch multiplies by ½ last, TensorFlow x first, Keras the bracket; a quotient may be a product with the inverse, x³ a
power or products, and x a common factor of the inner sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import pi, sqrt

from atcpy.ir import Match
from atcpy.ir.pattern import const, either, op, var
from atcpy.passes.formula import Formula, product, scaled, scaled_product

_X = var("x")
_ERF = op("Erf", either(*scaled(_X, "root_half", "root_two", name="inner")))
_BY_ERF = op("Add", _ERF, const("one"), commutative=True, name="bracket")

_SQUARE = op("Pow", _X, const("two_"), name="power")
_CUBE = op("Pow", _X, const("three"), name="power")
_SMALL = const("small")
_SQUARE_TERM = either(*product(_X, _X, _SMALL, name="term"), *product(_SQUARE, _SMALL, name="term"))
_CUBE_TERM = either(
    *product(_X, _X, _X, _SMALL, name="term"),
    *product(_X, _SQUARE, _SMALL, name="term"),
    *product(_CUBE, _SMALL, name="term"),
)
_SUM = op("Add", _X, _CUBE_TERM, commutative=True, name="sum")
_FACTORED = op("Add", const("one_"), _SQUARE_TERM, commutative=True, name="sum")
_ROOT = const("root")
_INNER = either(*product(_ROOT, _SUM, name="inner"), *product(_ROOT, _X, _FACTORED, name="inner"))
_BY_TANH = op("Add", op("Tanh", _INNER), const("one"), commutative=True, name="bracket")


_CONSTANTS = {"half": 0.5, "two": 2.0, "one": 1.0, "root_half": sqrt(0.5), "root_two": sqrt(2)}
_TANH_CONSTANTS = _CONSTANTS | {"one_": 1.0, "two_": 2.0, "three": 3.0, "small": 0.044715, "root": sqrt(2 / pi)}


class Gelu(Formula, switch="GeluFusionPass", creates="Gelu", constants=_CONSTANTS):
    """Replace ½ · x · (1 + Erf(x / √2)) by Gelu."""

    pattern = scaled_product(_X, _BY_ERF, "half", "two")


class GeluTanh(Formula, switch="TanhGeluFusionPass", creates="Gelu", constants=_TANH_CONSTANTS):
    """Replace ½ · x · (1 + Tanh(√(2/π) · (x + 0.044715 · x³))) by Gelu."""

    pattern = scaled_product(_X, _BY_TANH, "half", "two")

    def attributes(self, m: Match) -> Mapping[str, str]:
        return {"approximate": "tanh"}

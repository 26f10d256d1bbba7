"""Factors that add bytes with two rounded operations, and give what DequantizeLinear, Add and QuantizeLinear give.

By the definition, the sum of two bytes x and r, with the steps and zero points of x, r and the sum y, is

    round(((x - x_zero) * x_scale + (r - r_zero) * r_scale) / y_scale) + y_zero,

where each operation rounds to float32. A kernel computes

    round(fma(x - x_zero, product, fma(r, addend, offset))) + y_zero

without a division. Both are within a few units in the last place of the exact sum, and round differently only where
it is that close to a half: of the 65 536 pairs of bytes, about one. Factors a few units away from the quotients of the
scales move such a sum off the half. All pairs are computed both ways, so that the result is known to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as pairs_of
from typing import Any

import numpy as np
import numpy.typing as npt

from atcpy.passes.quantization_params import Steps

Floats = npt.NDArray[np.floating[Any]]

_MOST_UNITS = 3  # in the last place, by which a factor differs from the quotient
_SMALLEST, _LARGEST = 2.0**-10, 2.0**6  # so that products and sums of factors and bytes are exact in float64


@dataclass(frozen=True, slots=True)
class SumFactors:
    """What a step of each operand, and bytes of zero, add to the sum, in steps of the sum."""

    product: float
    addend: float
    offset: float


def find_sum_factors(x: Steps, r: Steps, y: Steps) -> SumFactors | None:
    """Return factors for operands x and r of one 8-bit type, and their sum y in that type, one scale each; or None if
    there are none: scales that differ very much, or many sums so close to a half that rounding decides each.
    """
    x_factor, r_factor = (np.float32(np.float64(of.scale.item()) / np.float64(y.scale.item())) for of in (x, r))
    if not all(_SMALLEST <= factor <= _LARGEST for factor in (x_factor, r_factor)):
        return None
    expected = _defined_sums(x, r, y)
    for factors in _candidates(x_factor, r_factor, int(r.zero)):
        if np.array_equal(_fused_sums(factors, x, r, y), expected):
            return factors
    return None


def _candidates(x_factor: np.float32, r_factor: np.float32, r_zero: int) -> Iterator[SumFactors]:
    """Yield the quotients of the scales, then what lies around, the closest first."""
    offset = np.float32(-r_zero * np.float64(r_factor))
    units = [np.spacing(x_factor), np.spacing(r_factor), np.spacing(np.maximum(abs(offset), 64 * r_factor))]
    steps = range(-_MOST_UNITS, _MOST_UNITS + 1)
    for moved in sorted(pairs_of(steps, repeat=3), key=lambda each: sum(map(abs, each))):
        factors = zip((x_factor, r_factor, offset), units, moved, strict=True)
        yield SumFactors(*(float(np.float32(factor + unit * count)) for factor, unit, count in factors))


def _all_bytes(of: Steps) -> Floats:
    info = np.iinfo(of.zero.dtype)
    return np.arange(info.min, info.max + 1).astype(np.float32)


def _defined_sums(x: Steps, r: Steps, y: Steps) -> Floats:
    """Return the sum of each byte of x (axis 0) and of r (axis 1) by the definition, less the zero point, saturated."""
    terms = [(_all_bytes(of) - of.zero.astype(np.float32)) * of.scale.reshape(()) for of in (x, r)]
    return _rounded((terms[0][:, None] + terms[1]) / y.scale.reshape(()), y)


def _fused_sums(factors: SumFactors, x: Steps, r: Steps, y: Steps) -> Floats:
    """Return the same as the kernel computes it: float64 has each product and sum, which is rounded once."""
    added = (_all_bytes(r) * np.float64(factors.addend) + factors.offset).astype(np.float32)
    numbers = (_all_bytes(x) - x.zero.astype(np.float32)) * np.float64(factors.product)
    return _rounded((numbers[:, None] + added.astype(np.float64)).astype(np.float32), y)


def _rounded(sums: Floats, y: Steps) -> Floats:
    info, zero = np.iinfo(y.zero.dtype), int(y.zero)
    return np.clip(np.rint(sums), info.min - zero, info.max - zero)

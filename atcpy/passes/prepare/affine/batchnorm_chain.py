"""Join a BatchNormalization and what stands before or behind it channel by channel, another one included.

k₂ · (k₁ · x + c₁) + c₂  →  BatchNormalization(x, k₂·k₁, k₂·c₁ + c₂, 0, 1) {epsilon=0}
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import either, var
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.passes.affine import Affine, added, affine_of, affine_requirements, multiplied, normalized
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase

_X = var("x")
_NORM = either(*normalized(_X))
_OTHER = either(*multiplied(_X), *added(_X))


class BatchnormAffine(
    Fusion,
    switch="BatchnormAffineFusionPass",
    phase=Phase.ABSORB,
    after=("ConvInputFusionPass", "MatMulInputFusionPass"),
    makes=("BatchNormalization",),
    repeats=True,
):
    """Join a BatchNormalization with factors and sums per channel, or with another one."""

    pattern = (
        *normalized(either(*normalized(_X), *multiplied(_X), *added(_X)), "last"),
        *multiplied(_NORM, "last"),
        *added(_NORM, "last"),
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        first, last = m.node("affine"), m.node("last")
        yield from only_read_by(first.output, last)
        if first.int_attr("training_mode", 0) or last.int_attr("training_mode", 0):
            yield Reject("training-mode", last.name)
        gamma, whole = self._gamma(m), self._whole(m)
        rejects = list(affine_requirements(last, whole))
        yield from rejects
        if not rejects and gamma.desc.dtype in HALF_DTYPES:
            yield Reject("weights-rounded", last.name, gamma.desc.dtype.long)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        gamma, whole = self._gamma(m), self._whole(m)
        assert whole is not None
        dtype = gamma.desc.dtype
        numbers = (whole.k, whole.c, np.zeros_like(whole.k), np.ones_like(whole.k))
        names = [value for key in ("gamma", "beta", "mean", "var") if (value := _norm_part(m, key)) is not None]
        constants = (rw.const(array, like=name, dtype=dtype) for array, name in zip(numbers, names, strict=True))
        return rw.op("BatchNormalization", m["x"], *constants, epsilon=0.0)

    @staticmethod
    def _gamma(m: Match) -> Value:
        gamma = _norm_part(m, "gamma")
        assert gamma is not None
        return gamma

    @classmethod
    def _whole(cls, m: Match) -> Affine | None:
        channels, rank = cls._gamma(m).desc.elements, len(m["x"].desc.shape or ())
        first, last = (affine_of(m, channels, rank - 2, rank, name) for name in ("affine", "last"))
        return None if first is None or last is None else last.after(first)


def _norm_part(m: Match, part: str) -> Value | None:
    """A constant of the BatchNormalization, of the last one if there are two."""
    return m.get(f"last.{part}") or m.get(f"affine.{part}")

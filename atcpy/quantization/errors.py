"""How far the values of a quantised model are from those in float32."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from atcpy.verify.inputs import Array


@dataclass(frozen=True, slots=True)
class QuantizationError:
    """The error of a value over all samples. The SNR is the energy of the value over that of the error, in dB."""

    cosine: float
    snr_db: float
    max_abs: float


class ErrorSum:
    """Sums of a value and its error over samples, from which the measures follow."""

    def __init__(self) -> None:
        self._signal = self._noise = self._actual = self._product = self._max = 0.0

    def add(self, actual: Array, expected: Array) -> None:
        """Add the value of one sample. Equal infinities and NaN have no error."""
        a, e = actual.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        usable = np.isfinite(a) & np.isfinite(e)
        if not (usable | same).all():
            self._max = self._noise = math.inf
        a, e = a[usable], e[usable]
        difference = a - e
        self._signal += float(e @ e)
        self._actual += float(a @ a)
        self._product += float(a @ e)
        self._noise += float(difference @ difference)
        self._max = max(self._max, float(np.abs(difference).max(initial=0.0)))

    @property
    def noise_share(self) -> float:
        """The energy of the error over that of the value."""
        if self._noise == 0:
            return 0.0
        return self._noise / self._signal if self._signal else math.inf

    @property
    def error(self) -> QuantizationError:
        """The measures of all that was added."""
        share = self.noise_share
        snr = math.inf if share == 0 else -math.inf if math.isinf(share) else -10 * math.log10(share)
        norms = math.sqrt(self._signal) * math.sqrt(self._actual)
        cosine = min(1.0, self._product / norms) if norms else float(self._signal == self._actual)
        return QuantizationError(cosine, snr, self._max)


def add_all(sums: dict[str, ErrorSum], actual: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Add the values of one sample by name."""
    for name, value in expected.items():
        sums.setdefault(name, ErrorSum()).add(actual[name], value)

"""The layers that must stay float for a model to meet a bound: the fewest of a ranking by measured effect.

The effect of a layer is the share of its own error in the outputs, where all else is float. Errors of layers hardly
depend on each other, so the sum of the smallest effects predicts how many layers may be quantised. From there a search
by bisection builds and measures models, and its result is a model that was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from atcpy.errors import VerifyFailed, Where
from atcpy.quantization.layers import ErrorEffects, LayerRuns
from atcpy.quantization.options import Bound, Metric
from atcpy.verify.fewest import shortest_beginning
from atcpy.verify.inputs import Feeds


def measure_effects(effects: ErrorEffects, runs: LayerRuns, samples: Iterable[Feeds]) -> dict[str, float]:
    """The share of each layer's own error in the outputs, summed over samples."""
    total = dict.fromkeys((layer.node for layer in runs.layers), 0.0)
    zero = np.zeros((), np.float32)
    for feeds in samples:
        values, own, _ = runs.run(feeds)
        for name, share in effects.shares(feeds, values, own, zero).items():
            total[name] += share
    return total


def rank(effects: Mapping[str, float]) -> list[str]:
    """The layers with the largest effect first."""
    return sorted(effects, key=lambda name: (-effects[name], name))


def fewest_kept(ranking: Sequence[str], first: int, bound: Bound, meets: Callable[[Sequence[str]], bool]) -> list[str]:
    """The shortest beginning of the ranking that `meets` the bound if it stays float. Raises VerifyFailed (V0001) if a
    model with no quantised layer would be left.
    """
    found = shortest_beginning(ranking, first, max(len(ranking) - 1, 0), meets)
    if found is None:
        what = f"no choice of the {len(ranking)} layers meets {bound}"
        hint = "ask for less, give more samples, or try another --method"
        raise VerifyFailed("V0001", what, where=Where(option="suggest"), hint=hint)
    return found


def predict_kept(ranking: Sequence[str], effects: Mapping[str, float], samples: int, bound: Bound) -> int:
    """How many layers must stay float if the effects of the others add up."""
    if bound.metric is Metric.MAX_ABS:
        return 1
    # For small errors that are independent of the value: cosine² = 1 / (1 + share).
    snr = 10 ** (bound.value / 10) if bound.metric is Metric.SNR else 1 / max(bound.value**-2 - 1, 1e-12)
    left = 0.0
    for count in range(len(ranking), 0, -1):
        left += effects[ranking[count - 1]] / samples
        if left > 1 / snr:
            return count
    return 0

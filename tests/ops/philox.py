"""A bit-exact Python reference of the random number generator in csrc/random."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

WORD = 0xFFFFFFFF


def philox(key: int, counter: Sequence[int]) -> list[int]:
    """Philox4x32-10: four 32-bit words from a 64-bit key and a counter of four words."""
    a, b, c, d = counter
    low, high = key & WORD, key >> 32
    for _ in range(10):
        of_a, of_c = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = of_c >> 32 ^ b ^ low, of_c & WORD, of_a >> 32 ^ d ^ high, of_a & WORD
        low, high = (low + 0x9E3779B9) & WORD, (high + 0xBB67AE85) & WORD
    return [a, b, c, d]


def uniform_pair(seed: float, pair: int) -> tuple[float, float]:
    """Uniform numbers 2·pair and 2·pair + 1 in [0, 1), with 53 random bits each."""
    key = struct.unpack("<I", struct.pack("<f", seed))[0]
    words = philox(key, [pair & WORD, pair >> 32, 0, 0])
    first, second = ((words[i] << 32 | words[i + 1]) >> 11 for i in (0, 2))
    return first * 2.0**-53, second * 2.0**-53


def draw(kind: str, a: float, b: float, seed: float, shape: Sequence[int], dtype: type) -> np.ndarray:
    """Reference of the `random` kernel."""
    count = math.prod(shape)
    step = 2.0**-24 if dtype is np.float32 else 2.0**-53
    numbers: list[float] = []
    for pair in range((count + 1) // 2):
        u = uniform_pair(seed, pair)
        if kind == "uniform":
            numbers += [a + (b - a) * (math.floor(number / step) * step) for number in u]
        else:
            radius, angle = math.sqrt(-2 * math.log(1 - u[0])), 2 * math.pi * u[1]
            numbers += [a + b * (radius * math.cos(angle)), a + b * (radius * math.sin(angle))]
    return np.array(numbers[:count]).astype(dtype).reshape(shape)


def draw_classes(logits: np.ndarray, samples: int, seed: float) -> np.ndarray:
    """Reference of the `multinomial` kernel."""
    drawn: list[int] = []
    for row in logits.astype(np.float64).tolist():
        total, upto = 0.0, []
        for number in row:
            total += math.exp(number - max(row))
            upto.append(total)
        for _ in range(samples):
            limit = uniform_pair(seed, len(drawn) // 2)[len(drawn) % 2] * total
            drawn.append(next((index for index, weight in enumerate(upto) if weight > limit), len(row) - 1))
    return np.array(drawn).reshape(len(logits), samples)

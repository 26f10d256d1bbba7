"""Graphs of any size that stress a compiler's algorithms: each has exactly `n` nodes, and its values stay finite.

Constants are initializers, so that `n` counts compute nodes only. All randomness comes from `seed`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import numpy as np
import onnx
from graph_builder import Graph

SHAPE: Final = (1, 8, 6, 6)
CHANNELS: Final = SHAPE[1]
REMEMBERED: Final = 32  # how far back a skip connection of `mixed` reaches


def chain(n: int) -> onnx.ModelProto:
    """Relu, Add, Relu, Add …: a chain of depth n, which breaks recursive algorithms."""
    g = Graph("chain")
    x = g.input("x", 1, 16)
    # The two constants cancel, so that the value does not grow with the depth.
    offsets = [g.weight(name, np.array([value], np.float32)) for name, value in (("up", 0.5), ("down", -0.5))]
    for index in range(n):
        x = g.op("Add", x, offsets[index // 2 % 2]) if index % 2 else g.op("Relu", x)
    g.output(x, "y", 1, 16)
    return g.to_model()


def wide(n: int) -> onnx.ModelProto:
    """One value with n - 1 different users and a Sum of their results: n live values, n uses, n inputs."""
    g = Graph("wide")
    x = g.input("x", 1, 16)
    branches = [
        # Every branch has its own constant, so that CSE does not merge them.
        g.op("Mul", x, g.weight(f"factor{index}", np.array([(index + 1) / n**2], np.float32)))
        for index in range(n - 1)
    ]
    g.output(g.op("Sum", *branches), "y", 1, 16)
    return g.to_model()


def diamonds(n: int) -> onnx.ModelProto:
    """A chain of x = Relu(x) + Min(x, 0), with 2^(n/3) paths. Up to two Neg nodes pad it to n."""
    g = Graph("diamonds")
    x = g.input("x", 1, 16)
    zero = g.weight("zero", np.array([0], np.float32))
    for _ in range(n // 3):
        x = g.op("Add", g.op("Relu", x), g.op("Min", x, zero))
    for _ in range(n % 3):
        x = g.op("Neg", x)
    g.output(x, "y", 1, 16)
    return g.to_model()


def mixed(n: int, seed: int = 0) -> onnx.ModelProto:
    """Elementwise ops, convolutions, concats, pools, transposes and reshapes with shape arithmetic, at random.

    Its activations are contractions: errors fade within dozens of nodes, so compare numbers at a small n.
    """
    return _Mixed(n, seed).build()


class _Mixed:
    """Adds random pieces to one trunk of SHAPE; each maps x to a value of SHAPE and of similar magnitude."""

    def __init__(self, n: int, seed: int) -> None:
        self._g = Graph("mixed")
        self._n = n
        self._random = random.Random(seed)
        self._recent: list[str] = []
        self._batch_axis = self._g.weight("batch_axis", np.array(0, np.int64))
        self._first_axis = self._g.weight("first_axis", np.array([0], np.int64))
        self._minus_one = self._g.weight("rest", np.array([-1], np.int64))
        self._halves = self._g.weight("halves", np.array([CHANNELS // 2] * 2, np.int64))

    def build(self) -> onnx.ModelProto:
        """Returns the model: an input, n nodes, an output."""
        pieces: tuple[tuple[int, int, Callable[[str], str]], ...] = (  # weight, nodes, piece
            (8, 1, self._activation),
            (6, 2, self._skip),
            (4, 3, self._conv_bn_relu),
            (2, 2, self._conv_add),
            (2, 4, self._split_concat),
            (2, 2, self._concat_conv),
            (1, 1, self._pool),
            (1, 3, self._transposes),
            (2, 8, self._reshape_and_back),
        )
        weights = [weight for weight, _, _ in pieces]
        x = self._g.input("x", *SHAPE)
        while (left := self._n - len(self._g)) > 0:
            _, count, piece = self._random.choices(pieces, weights)[0]
            if count > left:
                piece = self._activation
            self._recent = [*self._recent[-REMEMBERED:], x]
            with self._g.scope(f"piece{len(self._g)}"):
                x = piece(x)
        self._g.output(x, "y", *SHAPE)
        return self._g.to_model()

    def _activation(self, x: str) -> str:
        return self._g.op(self._random.choice(["Relu", "Sigmoid", "Tanh", "Abs", "Softsign"]), x)

    def _skip(self, x: str) -> str:
        combine = self._random.choice(["Add", "Sub", "Max", "Min"])
        return self._g.op("Tanh", self._g.op(combine, x, self._random.choice(self._recent)))

    def _conv(self, x: str, channels_in: int, kernel: int) -> str:
        # √3 times less than what preserves the deviation: bounds the sum for any mean of the input
        weight = self._g.random("weight", CHANNELS, channels_in, kernel, kernel, std=0.6 / (channels_in * kernel))
        return self._g.op("Conv", x, weight, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)

    def _conv_bn_relu(self, x: str) -> str:
        leaves = (("scale", 1.0), ("shift", 0.1), ("mean", 0.0), ("variance", 1.0))
        y = self._conv(x, CHANNELS, 3)
        statistics = [self._g.random(leaf, CHANNELS, std=0.05, mean=mean) for leaf, mean in leaves]
        return self._g.op("Relu", self._g.op("BatchNormalization", y, *statistics))

    def _conv_add(self, x: str) -> str:
        return self._g.op("Add", self._conv(x, CHANNELS, 1), self._g.random("bias", CHANNELS, 1, 1, std=0.1))

    def _split_concat(self, x: str) -> str:
        low, high = self._g.ops(2, "Split", x, self._halves, axis=1)
        return self._g.op("Concat", self._g.op("Relu", high), self._g.op("Tanh", low), axis=1)

    def _concat_conv(self, x: str) -> str:
        joined = self._g.op("Concat", x, self._random.choice(self._recent), axis=1)
        return self._conv(joined, 2 * CHANNELS, 1)

    def _pool(self, x: str) -> str:
        kind = self._random.choice(["MaxPool", "AveragePool"])
        return self._g.op(kind, x, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])

    def _transposes(self, x: str) -> str:
        y = self._g.op("Sigmoid", self._g.transpose(x, 0, 2, 3, 1))
        return self._g.transpose(y, 0, 3, 1, 2)

    def _reshape_and_back(self, x: str) -> str:
        """Flattens by x's own batch size, and restores x's shape."""
        batch = self._g.op("Gather", self._g.op("Shape", x), self._batch_axis)
        shape = self._g.op("Concat", self._g.op("Unsqueeze", batch, self._first_axis), self._minus_one, axis=0)
        y = self._g.op("Relu", self._g.op("Reshape", x, shape))
        return self._g.op("Reshape", y, self._g.op("Shape", x))

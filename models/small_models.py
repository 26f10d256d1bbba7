"""Networks of a few thousand weights built from the blocks of the larger ones, for tests without downloaded models."""

from __future__ import annotations

import math

import numpy as np
from detection_models import _c2f, _sppf
from graph_builder import Graph
from layers import conv_bn, gelu_erf, global_pool, layer_norm, linear, relu6
from vision_models import _classify, _inverted_residual, _mbconv


def small_mobile(g: Graph) -> None:
    """Inverted residuals with ReLU6, and one block with SiLU and squeeze and excitation."""
    x = g.input("input", 1, 3, 32, 32)
    with g.scope("stem"):
        x = relu6(g, conv_bn(g, x, 3, 16, 3, stride=2))
    for index, (channels_out, stride) in enumerate([(16, 1), (24, 2), (24, 1)]):
        with g.scope("features", str(index)):
            y = _inverted_residual(g, x, 16 if index < 2 else 24, channels_out, 2, stride)
            x = y if index == 1 else g.op("Add", x, y)
    with g.scope("mbconv"):
        x = _mbconv(g, x, 24, 32, 4, 5, 2)
    _classify(g, global_pool(g, x), "classifier", 32)


def small_detector(g: Graph) -> None:
    """The backbone of a detector: split and concatenated branches, pooling at four sizes, an upsampled level."""
    x = g.input("images", 1, 3, 48, 48)
    with g.scope("fine"):
        fine = _c2f(g, relu6(g, conv_bn(g, x, 3, 16, 3, stride=2)), 16, 16, [True, True])
    with g.scope("coarse"):
        coarse = _sppf(g, relu6(g, conv_bn(g, fine, 16, 32, 3, stride=2)), 32)
    scales = g.floats([1.0, 1.0, 2.0, 2.0])
    y = g.op("Concat", g.op("Resize", coarse, "", scales, mode="nearest", nearest_mode="floor"), fine, axis=1)
    with g.scope("head"):
        g.output(_c2f(g, y, 48, 16, [False]), "levels", 1, 16, 24, 24)


def small_text(g: Graph) -> None:
    """Two blocks of a causal transformer over 16 tokens."""
    tokens, width, heads = 16, 32, 4
    input_ids = g.input("input_ids", 1, tokens, dtype=np.int64, below=50)
    x = g.op("Gather", g.random("embedding", 50, width, std=1.0), input_ids)
    causal = g.weight("causal_mask", np.tri(tokens, dtype=np.bool_)[None, None])
    for block in range(2):
        with g.scope("h", str(block)):
            with g.scope("ln_1"):
                y = layer_norm(g, x, width, 1e-5)
            q, k, v = (_heads(g, y, name, width, heads) for name in "qkv")
            scores = g.op("Div", g.op("MatMul", q, g.transpose(k, 0, 1, 3, 2)), g.floats(math.sqrt(width // heads)))
            shares = g.op("Softmax", g.op("Where", causal, scores, g.floats(-1e30)), axis=-1)
            y = g.reshape(g.transpose(g.op("MatMul", shares, v), 0, 2, 1, 3), 1, tokens, width)
            with g.scope("proj"):
                x = g.op("Add", x, linear(g, y, width, width))
            with g.scope("mlp"):
                x = g.op("Add", x, gelu_erf(g, linear(g, x, width, width)))
    g.output(x, "states", 1, tokens, width)


def small_decoder(g: Graph) -> None:
    """Two blocks that read bytes, with a cache: each run gets the keys and values of earlier ones and gives all."""
    vocabulary, longest, width, heads = 256, 512, 64, 4
    size = width // heads
    input_ids = g.input("input_ids", 1, "tokens", dtype=np.int64, below=vocabulary)
    names = [f"{block}.{part}" for block in range(2) for part in ("key", "value")]
    past = {name: g.input(f"past_key_values.{name}", 1, heads, "past", size) for name in names}
    embedding = g.random("wte.weight", vocabulary, width, std=1.0)
    first, tokens = _size(g, past["0.key"], 2), _size(g, input_ids, 1)
    end, axis = g.op("Add", first, tokens), g.integers([1])
    positions = g.op("Slice", g.weight("position_ids", np.arange(longest)[None]), first, end, axis)
    x = g.op("Gather", g.random("wpe.weight", longest, width, std=0.5), positions)
    x = g.op("Add", g.op("Gather", embedding, input_ids), x)
    causal = g.weight("causal_mask", np.tri(longest, dtype=np.bool_)[None, None])
    causal = g.op("Slice", causal, first, end, g.integers([2]))
    causal = g.op("Slice", causal, g.integers([0]), end, g.integers([3]))
    for block in range(2):
        with g.scope("h", str(block)):
            with g.scope("ln_1"):
                y = layer_norm(g, x, width, 1e-5)
            q, k, v = (_heads(g, y, name, width, heads) for name in "qkv")
            k, v = (
                g.output(g.op("Concat", past[name], new, axis=2), f"present.{name}", 1, heads, "total", size)
                for name, new in ((f"{block}.key", k), (f"{block}.value", v))
            )
            scores = g.op("Div", g.op("MatMul", q, g.transpose(k, 0, 1, 3, 2)), g.floats(math.sqrt(size)))
            shares = g.op("Softmax", g.op("Where", causal, scores, g.floats(-1e30)), axis=-1)
            y = g.reshape(g.transpose(g.op("MatMul", shares, v), 0, 2, 1, 3), 1, -1, width)
            with g.scope("proj"):
                x = g.op("Add", x, linear(g, y, width, width))
            with g.scope("mlp"):
                x = g.op("Add", x, gelu_erf(g, linear(g, x, width, width)))
    g.output(g.op("MatMul", x, g.transpose(embedding, 1, 0)), "logits", 1, "tokens", vocabulary)


def _size(g: Graph, x: str, axis: int) -> str:
    """Return the size of an axis as a list of one."""
    return g.op("Unsqueeze", g.op("Gather", g.op("Shape", x), g.integers(axis), axis=0), g.integers([0]))


def _heads(g: Graph, x: str, name: str, width: int, heads: int) -> str:
    with g.scope(name):
        y = g.reshape(linear(g, x, width, width), 1, -1, heads, width // heads)
    return g.transpose(y, 0, 2, 1, 3)

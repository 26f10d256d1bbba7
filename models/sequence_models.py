"""Sequence models: an encoder, a decoder and a recurrent acoustic model."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from graph_builder import Graph
from layers import batch_norm, gelu_erf, gelu_tanh, gemm, layer_norm, layer_norm_spelled_out, linear
from onnx import TensorProto

Dims = tuple[int | str, ...]  # batch and tokens; a string is a symbolic dim

TOKENS: Final = 128
WIDTH: Final = 768
HEADS: Final = 12
HEAD_WIDTH: Final = WIDTH // HEADS
BLOCKS: Final = 12
LOWEST: Final = float(np.finfo(np.float32).min)


OPEN: Final = ("batch", "tokens")


def bert_base_open(g: Graph) -> None:
    """BERT-base exported with dynamic axes."""
    bert_base(g, OPEN)


def bert_base(g: Graph, dims: Dims = (1, TOKENS)) -> None:
    """BERT-base as Hugging Face exports it: LayerNormalization decomposed, the mask added to the scores."""
    vocabulary, longest = 30522, 512
    input_ids = g.input("input_ids", *dims, dtype=np.int64, below=vocabulary)
    attention_mask = g.input("attention_mask", *dims, dtype=np.int64, below=2)
    token_type_ids = g.input("token_type_ids", *dims, dtype=np.int64, below=2)
    with g.scope("embeddings"):
        word_embedding = g.op("Gather", g.random("word_embeddings.weight", vocabulary, WIDTH, std=1.0), input_ids)
        types = g.random("token_type_embeddings.weight", 2, WIDTH, std=0.2)
        position_table = g.random("position_embeddings.weight", longest, WIDTH, std=0.2)
        x = g.op("Add", word_embedding, g.op("Gather", types, token_type_ids))
        positions = _positions(g, input_ids, dims, longest, g.integers([0]))
        x = _bert_norm(g, g.op("Add", x, g.op("Gather", position_table, positions)))
    mask = g.op("Unsqueeze", g.op("Unsqueeze", attention_mask, g.integers([1])), g.integers([2]))
    mask = g.op("Sub", g.floats(1.0), g.op("Cast", mask, to=TensorProto.FLOAT))
    mask = g.op("Mul", mask, g.floats(LOWEST))
    for layer in range(BLOCKS):
        with g.scope("encoder", "layer", str(layer)):
            x = _bert_layer(g, x, mask, dims)
    x = g.output(x, "last_hidden_state", *dims, WIDTH)
    with g.scope("pooler"):
        first = g.op("Gather", x, g.integers(0), axis=1)
        g.output(g.op("Tanh", gemm(g, first, WIDTH, WIDTH)), "pooler_output", dims[0], WIDTH)


def _positions(g: Graph, input_ids: str, dims: Dims, longest: int, first: str) -> str:
    """Return the positions of all tokens, [1, tokens], the first of which is at `first`."""
    if dims != OPEN:
        return g.integers([range(TOKENS)])
    table = g.weight("position_ids", np.arange(longest)[None])
    return g.op("Slice", table, first, g.op("Add", first, _length(g, input_ids)), g.integers([1]))


def _length(g: Graph, x: str, axis: int = 1) -> str:
    """Return the size of an axis, the number of tokens, as a list of one."""
    return g.op("Unsqueeze", g.op("Gather", g.op("Shape", x), g.integers(axis), axis=0), g.integers([0]))


def _bert_layer(g: Graph, x: str, mask: str, dims: Dims) -> str:
    with g.scope("attention"):
        q = _split_heads(g, _dense(g, x, "query", WIDTH, WIDTH), dims)
        k = _split_heads(g, _dense(g, x, "key", WIDTH, WIDTH), dims, transposed=True)
        v = _split_heads(g, _dense(g, x, "value", WIDTH, WIDTH), dims)
        scores = g.op("Div", g.op("MatMul", q, k), g.floats(math.sqrt(HEAD_WIDTH)))
        shares = g.op("Softmax", g.op("Add", scores, mask), axis=-1)
        y = _merge_heads(g, g.op("MatMul", shares, v), dims)
        x = _bert_norm(g, g.op("Add", _dense(g, y, "output", WIDTH, WIDTH), x))
    y = gelu_erf(g, _dense(g, x, "intermediate", WIDTH, 4 * WIDTH))
    with g.scope("output"):
        return _bert_norm(g, g.op("Add", _dense(g, y, "dense", 4 * WIDTH, WIDTH), x))


def _bert_norm(g: Graph, x: str) -> str:
    with g.scope("LayerNorm"):
        return layer_norm_spelled_out(g, x, WIDTH, 1e-12)


def _dense(g: Graph, x: str, name: str, features_in: int, features_out: int) -> str:
    with g.scope(name):
        return linear(g, x, features_in, features_out)


def _reshape_dims(dims: Dims) -> tuple[int, ...]:
    """Return batch and tokens for a Reshape that keeps both; 0 copies a symbolic dim."""
    return tuple(dim if isinstance(dim, int) else 0 for dim in dims)


def _split_heads(g: Graph, x: str, dims: Dims, *, transposed: bool = False) -> str:
    """Reshapes [batch, tokens, width] to [batch, heads, tokens, head width], or with the last two swapped."""
    perm = (0, 2, 3, 1) if transposed else (0, 2, 1, 3)
    return g.transpose(g.reshape(x, *_reshape_dims(dims), HEADS, HEAD_WIDTH), *perm)


def _merge_heads(g: Graph, x: str, dims: Dims) -> str:
    return g.reshape(g.transpose(x, 0, 2, 1, 3), *_reshape_dims(dims), WIDTH)


def gpt2_small_open(g: Graph) -> None:
    """GPT-2 small exported with dynamic axes."""
    gpt2_small(g, OPEN)


def gpt2_small_past(g: Graph) -> None:
    """GPT-2 small exported with dynamic axes and a cache: keys and values of each block behind each other."""
    gpt2_small(g, OPEN, has_past=True)


def gpt2_small(g: Graph, dims: Dims = (1, TOKENS), *, has_past: bool = False) -> None:
    """GPT-2 small; the head is the transposed embedding, since the two are tied."""
    vocabulary, longest = 50257, 1024
    input_ids = g.input("input_ids", *dims, dtype=np.int64, below=vocabulary)
    shape = (2, dims[0], HEADS, "past", HEAD_WIDTH)
    past = [g.input(f"past_{block}", *shape) for block in range(BLOCKS)] if has_past else []
    embedding = g.random("wte.weight", vocabulary, WIDTH, std=1 / math.sqrt(WIDTH))
    position_table = g.random("wpe.weight", longest, WIDTH, std=0.02)
    x = g.op("Gather", embedding, input_ids)
    first = _length(g, past[0], axis=3) if past else g.integers([0])
    x = g.op("Add", x, g.op("Gather", position_table, _positions(g, input_ids, dims, longest, first)))
    causal = _causal_mask(g, input_ids, dims, longest, first)
    presents: list[str] = []
    for block in range(BLOCKS):
        with g.scope("h", str(block)):
            x, present = _gpt2_block(g, x, causal, dims, past[block] if past else "")
            presents.append(present)
    with g.scope("ln_f"):
        x = layer_norm(g, x, WIDTH, 1e-5)
    with g.scope("lm_head"):
        g.output(g.op("MatMul", x, g.transpose(embedding, 1, 0)), "logits", *dims, vocabulary)
    for block in range(len(past)):
        g.output(presents[block], f"present_{block}", 2, dims[0], HEADS, "total", HEAD_WIDTH)


def _causal_mask(g: Graph, input_ids: str, dims: Dims, longest: int, first: str) -> str:
    """Return which keys each query sees, [1, 1, tokens, keys]: of open length a part of the mask for the longest."""
    if dims != OPEN:
        return g.weight("causal_mask", np.tri(TOKENS, dtype=np.bool_)[None, None])
    mask = g.weight("causal_mask", np.tri(longest, dtype=np.bool_)[None, None])
    end = g.op("Add", first, _length(g, input_ids))
    rows = g.op("Slice", mask, first, end, g.integers([2]))
    return g.op("Slice", rows, g.integers([0]), end, g.integers([3]))


def _gpt2_block(g: Graph, x: str, causal: str, dims: Dims, past: str) -> tuple[str, str]:
    """Return the block's result, and the keys and values of all steps where there is a `past`."""
    with g.scope("ln_1"):
        y = layer_norm(g, x, WIDTH, 1e-5)
    with g.scope("attn"):
        y = _gpt2_conv1d(g, y, "c_attn", WIDTH, 3 * WIDTH, dims)
        q, k, v = g.ops(3, "Split", y, g.integers([WIDTH] * 3), axis=2)
        present = ""
        if past:
            k, v = _split_heads(g, k, dims), _split_heads(g, v, dims)
            both = [g.op("Gather", past, g.integers(part), axis=0) for part in range(2)]
            k, v = (g.op("Concat", old, new, axis=-2) for old, new in zip(both, (k, v), strict=True))
            parts = [g.op("Unsqueeze", part, g.integers([0])) for part in (k, v)]
            present = g.op("Concat", *parts, axis=0)
            q, k = _split_heads(g, q, dims), g.transpose(k, 0, 1, 3, 2)
        else:
            q, k, v = _split_heads(g, q, dims), _split_heads(g, k, dims, transposed=True), _split_heads(g, v, dims)
        scores = g.op("Div", g.op("MatMul", q, k), g.floats(math.sqrt(HEAD_WIDTH)))
        scores = g.op("Where", causal, scores, g.floats(LOWEST))
        y = _merge_heads(g, g.op("MatMul", g.op("Softmax", scores, axis=-1), v), dims)
        x = g.op("Add", _gpt2_conv1d(g, y, "c_proj", WIDTH, WIDTH, dims, gain=0.5), x)
    with g.scope("ln_2"):
        y = layer_norm(g, x, WIDTH, 1e-5)
    with g.scope("mlp"):
        y = gelu_tanh(g, _gpt2_conv1d(g, y, "c_fc", WIDTH, 4 * WIDTH, dims))
        return g.op("Add", x, _gpt2_conv1d(g, y, "c_proj", 4 * WIDTH, WIDTH, dims, gain=0.5)), present


def _gpt2_conv1d(
    g: Graph, x: str, name: str, features_in: int, features_out: int, dims: Dims, *, gain: float = 1.0
) -> str:
    """Adds Hugging Face's `Conv1D`, which is a Gemm between two Reshapes."""
    with g.scope(name):
        weight = g.random("weight", features_in, features_out, std=gain / math.sqrt(features_in))
        bias = g.random("bias", features_out, std=0.05)
        y = g.op("Gemm", g.reshape(x, -1, features_in), weight, bias, alpha=1.0, beta=1.0)
        if dims != OPEN:
            return g.reshape(y, 1, TOKENS, features_out)
        rows = g.op("Slice", g.op("Shape", x), g.integers([0]), g.integers([2]), g.integers([0]))
        return g.op("Reshape", y, g.op("Concat", rows, g.integers([features_out]), axis=0), allowzero=0)


def rnn_net(g: Graph) -> None:
    """A small acoustic model: Conv, two bidirectional LSTMs, a bidirectional GRU and a plain one."""
    hidden, frames, bands, classes = 256, 100, 80, 29
    x = g.input("features", 1, 1, bands, 2 * frames)
    with g.scope("conv"):
        weight = g.random("weight", 32, 1, 11, 11, std=math.sqrt(2.0) / 11)
        x = g.op("Conv", x, weight, dilations=[1, 1], group=1, kernel_shape=[11] * 2, pads=[5] * 4, strides=[2, 2])
    with g.scope("bn"):
        x = batch_norm(g, x, 32)
    x = g.op("Clip", x, g.floats(0.0), g.floats(20.0))
    x = g.transpose(g.reshape(x, 1, 32 * bands // 2, frames), 2, 0, 1)
    features = 32 * bands // 2
    for index, (kind, directions) in enumerate((("LSTM", 2), ("LSTM", 2), ("GRU", 2), ("GRU", 1))):
        with g.scope("rnn", str(index)):
            x = _recurrent(g, x, kind, features, hidden, directions)
        features = directions * hidden
    x = g.transpose(x, 1, 0, 2)
    with g.scope("fc"):
        x = g.op("LogSoftmax", linear(g, x, features, classes, gain=3.0), axis=-1)
    g.output(x, "log_probabilities", 1, frames, classes)


def _recurrent(g: Graph, x: str, kind: str, features: int, hidden: int, directions: int) -> str:
    """Adds one recurrent layer; returns [frames, 1, directions * hidden]."""
    gates = {"LSTM": 4, "GRU": 3}[kind]
    std = 1 / math.sqrt(3 * hidden)  # PyTorch draws from ±1/√hidden
    weights = [
        g.random("W", directions, gates * hidden, features, std=std),
        g.random("R", directions, gates * hidden, hidden, std=std),
        g.random("B", directions, 2 * gates * hidden, std=std),
    ]
    zeros = np.zeros((directions, 1, hidden), np.float32)
    states = [g.weight(f"initial_{state}", zeros) for state in ("hc" if kind == "LSTM" else "h")]
    options = {"linear_before_reset": 1} if kind == "GRU" else {}
    direction = "bidirectional" if directions == 2 else "forward"
    results = g.ops(len(states) + 1, kind, x, *weights, "", *states, hidden_size=hidden, direction=direction, **options)
    if directions == 1:
        return g.op("Squeeze", results[0], g.integers([1]))
    return g.reshape(g.transpose(results[0], 0, 2, 1, 3), 0, 0, -1)

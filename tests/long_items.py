"""Nodes whose kernels have one item, or few, of many milliseconds: within it, they are to ask whether the run ends.

What they compute is simple, so that numpy says what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from atcpy.ir.tensor import Array
from atcpy.ops.conv.winograd import as_winograd
from atcpy.ops.core.opdef import KernelCall
from atcpy.ops.quant import qwinograd


@dataclass(frozen=True)
class LongItem:
    """A node with its inputs, and its outputs by numpy."""

    op_type: str
    arrays: Sequence[Array]
    expected: Callable[..., Array | Sequence[Array]]
    attrs: Mapping[str, object] = field(default_factory=dict)
    constants: Sequence[int] = ()
    outputs: int = 1
    opset: int = 20
    domain: str = ""
    rewrite: Callable[[KernelCall], KernelCall] | None = None  # what a pass does to its launches

    def right(self) -> list[Array]:
        """The outputs by numpy."""
        results = self.expected(*self.arrays)
        return [results] if isinstance(results, np.ndarray) else list(results)


def ramp(*shape: int, dtype: str = "f4", period: int = 9973) -> Array:
    """Numbers from -1 to below 1 that differ within each period, sooner there than random ones."""
    n = int(np.prod(shape))
    one = ((np.arange(period, dtype=np.int64) * 7919) % period / period * 2 - 1).astype(dtype)
    return np.tile(one, -(-n // period))[:n].reshape(shape)


def counts(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def _softmax(axis: int) -> Callable[[Array], Array]:
    def softmax(x: Array) -> Array:
        e = np.exp(x.astype("f8") - x.max(axis, keepdims=True))
        y: Array = (e / e.sum(axis, keepdims=True)).astype(x.dtype)
        return y

    return softmax


def _normalized(x: Array, *_: Array) -> Array:
    wide = x.astype("f8")
    y = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    narrow: Array = y.astype(x.dtype)
    return narrow


def softmax() -> LongItem:
    return LongItem("Softmax", [ramp(1, 16_000_000)], _softmax(1), {"axis": 1})


def softmax_columns() -> LongItem:
    return LongItem("Softmax", [ramp(1_000_000, 16)], _softmax(0), {"axis": 0})


def reduction() -> LongItem:
    x = np.ones((1, 80_000_000), np.float32)
    return LongItem("ReduceSum", [x, counts(1)], lambda x, _: x.sum(1, keepdims=True), {}, [1])


def reduction_of_columns() -> LongItem:
    x = np.ones((4_000_000, 16), np.float32)
    return LongItem("ReduceSum", [x, counts(0)], lambda x, _: x.sum(0, dtype="f8", keepdims=True).astype("f4"), {}, [1])


def reduction_by_definition() -> LongItem:
    x = np.full((1, 20_000_000), 2, np.float64)
    return LongItem("ReduceSum", [x, counts(1)], lambda x, _: x.sum(1, keepdims=True), {}, [1])


def reduction_of_nothing() -> LongItem:
    """No work at all but to write the results."""
    x = np.zeros((20_000_000, 0), np.float32)
    return LongItem("ReduceSum", [x, counts(1)], lambda x, _: x.sum(1), {"keepdims": 0}, [1])


def remainder() -> LongItem:
    """Takes a loop over the bits by which the numbers differ in size."""
    x, y = np.full(60_000, 1.7e308), np.full(60_000, 3.3e-308)
    return LongItem("Mod", [x, y], np.fmod, {"fmod": 1})


def tangent() -> LongItem:
    """Of numbers that are far from where the function is fast; few, so that the executor does not ask."""
    return LongItem("Tan", [np.full(500_000, 1e300)], np.tan)


def power() -> LongItem:
    """Of numbers so small that the function is slow."""
    return LongItem("Pow", [np.full(500_000, 1e-310), np.full(500_000, 0.4)], np.power)


def arg_reduction() -> LongItem:
    x = ramp(1, 40_000_000)
    x[0, -1] = 3
    return LongItem("ArgMax", [x], lambda x: x.argmax(1), {"axis": 1, "keepdims": 0})


def cumulation() -> LongItem:
    x = np.ones(8_000_000, np.float32)
    return LongItem("CumSum", [x, counts(0)], lambda x, _: np.arange(1, x.size + 1, dtype="f4"), {}, [1])


def top() -> LongItem:
    x = np.arange(1_500_000, dtype=np.float32)

    def best(x: Array, k: Array) -> list[Array]:
        indices = np.argsort(-x, kind="stable")[: int(k[0])]
        return [x[indices], indices]

    return LongItem("TopK", [x, counts(100_000)], best, {}, [1], 2)


def nonzero() -> LongItem:
    x = np.arange(6_000_000, dtype=np.int32) % 3
    return LongItem("NonZero", [x], lambda x: np.stack(np.nonzero(x)))


def unique() -> LongItem:
    x = ramp(600_000, period=599_999)
    return LongItem("Unique", [x], lambda x: np.unique(x))


def compression() -> LongItem:
    x = np.arange(8_000_000, dtype=np.int32)
    return LongItem("Compress", [x, x % 3 == 0], lambda x, c: x[c], {"axis": 0})


def suppression() -> LongItem:
    n = 9000
    side = np.arange(n, dtype=np.float32)
    boxes = np.stack([side, side, side + 1, side + 1], 1)[None]
    scores = np.linspace(1, 0, n, dtype=np.float32)[None, None]
    inputs = [boxes, scores, counts(n), np.array([0.9], "f4")]
    rows = np.stack([np.zeros(n, int), np.zeros(n, int), np.arange(n)], 1)
    return LongItem("NonMaxSuppression", inputs, lambda *_: rows, {}, [2, 3])


def one_hot() -> LongItem:
    indices = np.arange(400_000) % 50

    def expected(i: Array, depth: Array, values: Array) -> Array:
        y: Array = (i == np.arange(int(depth[0]))[:, None]).astype("f4") * (values[1] - values[0]) + values[0]
        return y

    return LongItem("OneHot", [indices, counts(50), np.array([2, 5], "f4")], expected, {"axis": 0}, [1])


def batch_normalization() -> LongItem:
    one = np.ones(1, np.float32)
    inputs = [ramp(1, 1, 1, 30_000_000), one, one * 0, one * 0, one]
    return LongItem("BatchNormalization", inputs, lambda x, *_: x / np.float32(np.sqrt(1 + 1e-5)), {}, [1, 2, 3, 4])


def normalization() -> LongItem:
    one = np.ones(16_000_000, np.float32)
    return LongItem("LayerNormalization", [ramp(1, one.size), one], _normalized, {"axis": 1}, [1])


def response_normalization() -> LongItem:
    x = np.ones((1, 1, 1, 30_000_000), np.float32)
    return LongItem("LRN", [x], lambda x: x / np.float32((1 + 1e-4) ** 0.75), {"size": 1})


def product() -> LongItem:
    a, b = np.ones((4, 6_000_000), np.float32), np.ones((6_000_000, 4), np.float32)
    return LongItem("MatMul", [a, b], lambda a, b: np.full((4, 4), a.shape[1], "f4"))


def product_of_a_row() -> LongItem:
    a, b = np.ones((1, 12_000_000), np.float32), np.ones((4, 12_000_000), np.float32)
    return LongItem("Gemm", [a, b], lambda a, b: np.full((1, 4), a.shape[1], "f4"), {"transB": 1})


def product_of_integers(rows: int = 2) -> LongItem:
    a, b = np.ones((rows, 5_000_000), np.int64), np.ones((5_000_000, 2), np.int64)
    return LongItem("MatMul", [a, b], lambda a, b: np.full((rows, 2), a.shape[1]))


def sum_of_rows() -> LongItem:
    a, b = np.ones((1, 6_000_000), np.float32), np.ones((6_000_000, 5), np.float32)
    return LongItem("MatMul", [a, b], lambda a, b: np.full((1, 5), a.shape[1], "f4"))


def sum_of_rows_of_integers() -> LongItem:
    return product_of_integers(rows=1)


def product_of_bytes() -> LongItem:
    a, b = np.ones((4, 2_000_000), np.uint8), np.ones((2_000_000, 4), np.uint8)
    return LongItem("MatMulInteger", [a, b], lambda a, b: np.full((4, 4), a.shape[1], "i4"), {}, [])


def product_of_four_bits() -> LongItem:
    k = 1 << 21
    x, w, scales = np.ones((3, k), "f4"), np.full((1, k // 8, 16, 4), 0x99, "u1"), np.ones((1, k // 32, 16), "f4")
    attrs = {"N": 16, "K": k, "block_size": 32, "digits": 3}
    return LongItem("Int4MatMul", [x, w, scales], lambda x, w, s: np.full((3, 16), k, "f4"), attrs, [1, 2])


def matmul_nbits() -> LongItem:
    k = 1 << 21
    x, w, scales = np.ones((3, k), "f4"), np.full((16, k // 32, 16), 0x99, "u1"), np.ones((16, k // 32), "f4")
    attrs = {"N": 16, "K": k, "bits": 4, "block_size": 32}
    expected = np.full((3, 16), k, "f4")
    return LongItem(
        "MatMulNBits", [x, w, scales], lambda x, w, s: expected, attrs, [1, 2], opset=1, domain="com.microsoft"
    )


def convolution() -> LongItem:
    x, w = np.ones((1, 16, 400, 463), np.float32), np.ones((1, 16, 400, 400), np.float32)
    return LongItem("Conv", [x, w], lambda x, w: np.full((1, 1, 1, 64), w.size, "f4"), {}, [1])


def winograd_convolution() -> LongItem:
    def expected(x: Array, w: Array) -> Array:
        taps = np.outer([2, 3, 3, 2], [2, 3, 3, 2]) * np.float32(x.shape[1])
        return np.broadcast_to(taps, (1, w.shape[0], 4, 4))

    x, w = np.ones((1, 65536, 4, 4), np.float32), np.ones((16, 65536, 3, 3), np.float32)
    return LongItem("Conv", [x, w], expected, {"pads": (1, 1, 1, 1)}, [1], rewrite=as_winograd)


def winograd_convolution_of_bytes() -> LongItem:
    def expected(x: Array, w: Array) -> Array:
        inside = np.array([2, *[3] * 26, 2])
        return np.broadcast_to(np.outer(inside, inside).astype("i4") * x.shape[1], (1, w.shape[0], 28, 28))

    x, w = np.ones((1, 4096, 28, 28), np.uint8), np.ones((16, 4096, 3, 3), np.int8)
    return LongItem("ConvInteger", [x, w], expected, {"pads": (1, 1, 1, 1)}, [1], rewrite=qwinograd.as_winograd)


def wide_convolution() -> LongItem:
    x, w = np.ones((1, 1, 300_095), np.float64), np.ones((1, 1, 300_000), np.float64)
    return LongItem("Conv", [x, w], lambda x, w: np.full((1, 1, 96), 3e5), {}, [1])


def convolution_of_packed_windows() -> LongItem:
    x, w = np.ones((1, 1, 200_095), np.float32), np.ones((32, 1, 200_000), np.float32)
    return LongItem("Conv", [x, w], lambda x, w: np.full((1, 32, 96), 2e5, "f4"), {})


def transposed_convolution() -> LongItem:
    x, w = np.ones((1, 16, 1, 3000), np.float32), np.ones((16, 16, 1, 1001), np.float32)

    def expected(x: Array, w: Array) -> Array:
        y: Array = (16 * np.convolve(np.ones(3000), np.ones(1001)) * np.ones((1, 16, 1, 1))).astype("f4")
        return y

    return LongItem("ConvTranspose", [x, w], expected, {}, [1])


def depthwise_convolution() -> LongItem:
    x, w = np.ones((1, 16, 8, 200_000), np.float32), np.ones((16, 1, 3, 7), np.float32)
    attrs = {"group": 16}
    return LongItem("Conv", [x, w], lambda x, w: np.full((1, 16, 6, 199_994), 21, "f4"), attrs, [1])


def pooling() -> LongItem:
    attrs = {"kernel_shape": (1, 31)}
    return LongItem("MaxPool", [np.arange(10_000_000, dtype="f4")[None, None, None]], lambda x: x[..., 30:], attrs)


def wide_window() -> LongItem:
    x = np.arange(12_000_000, dtype="f4")[None, None, None]
    return LongItem("MaxPool", [x], lambda x: x[..., -1:], {"kernel_shape": (1, x.size)})


def pooling_of_volumes() -> LongItem:
    x = ramp(1, 1, 1, 1, 20_000_000)
    attrs = {"kernel_shape": (1, 1, 2)}
    return LongItem("MaxPool", [x], lambda x: np.maximum(x[..., 1:], x[..., :-1]), attrs)


def powers() -> LongItem:
    x = np.ones((1, 1, 20_000_000), "f4")
    attrs = {"kernel_shape": (3,), "p": 1}
    return LongItem("LpPool", [x], lambda x: np.full((1, 1, x.size - 2), 3, "f4"), attrs)


def unpooling() -> LongItem:
    x = np.ones((1, 1, 4_000_000), np.float32)
    attrs = {"kernel_shape": (1,), "strides": (1,)}
    return LongItem("MaxUnpool", [x, np.arange(x.size).reshape(x.shape)], lambda x, _: x, attrs)


def blocks_to_image() -> LongItem:
    x = np.ones((1, 9, 2_000_000), np.float32)

    def expected(x: Array, *_: Array) -> Array:
        y = np.zeros((1, 1, 1, 2_000_008), "f4")
        for tap in range(9):
            y[..., tap : tap + 2_000_000] += 1
        return y

    return LongItem("Col2Im", [x, counts(1, 2_000_008), counts(1, 9)], expected, {}, [1, 2])


def moved_columns() -> LongItem:
    x, offsets = ramp(1, 1, 1, 4_000_000), np.zeros((1, 2, 1, 4_000_000), np.float32)
    return LongItem("DeformColumns", [x, offsets], lambda x, _: x[None], {"kernel_shape": (1, 1)})


def deformable_convolution() -> LongItem:
    """The operator that DeformColumns is part of."""
    x, offsets = moved_columns().arrays
    return LongItem("DeformConv", [x, np.ones((1, 1, 1, 1), "f4"), offsets], lambda x, *_: x, {}, [1], 1, 19)


def depthwise_convolution_of_bytes() -> LongItem:
    one, zero = np.array(1, np.float32), np.array(0, np.uint8)
    x, w = np.ones((1, 16, 8, 150_000), np.uint8), np.ones((16, 1, 1, 9), np.uint8)
    inputs: list[Array] = [x, one, zero, w, one, zero, one, zero]
    attrs = {"group": 16, "pads": (0, 4, 0, 4)}

    def expected(x: Array, *_: Array) -> Array:
        y = np.full_like(x, 9)
        for edge in range(4):
            y[..., edge] = y[..., -1 - edge] = 5 + edge
        return y

    return LongItem("QLinearConv", inputs, expected, attrs, [1, 2, 3, 4, 5, 6, 7])


def gathered_rows() -> LongItem:
    return LongItem("Gather", [ramp(2, 15_000_000), counts(1, 0)], lambda x, i: x[i])


def reversed_steps() -> LongItem:
    return LongItem("ReverseSequence", [ramp(2, 1, 15_000_000), counts(2)], lambda x, _: x[::-1])


def updated_cache() -> LongItem:
    cache, update = np.zeros((1, 1, 1, 50_000_000), np.float32), ramp(1, 1, 1, 50_000_000)
    return LongItem("TensorScatter", [cache, update, counts(0)], lambda cache, update, at: update, {}, (), 1, 24)


def draws() -> LongItem:
    x, n = np.zeros((1, 1), np.float32), 2_000_000
    return LongItem("Multinomial", [x], lambda x: np.zeros((1, n), np.int32), {"sample_size": n})


def walks() -> LongItem:
    """Down a tree of one leaf."""
    nodes, x = np.zeros((1, 2), np.int64), np.zeros((3_000_000, 1), np.float32)
    nodes.view(np.float32)[0, 0] = 2
    return LongItem("Trees", [x, nodes, np.zeros(1, np.int32)], lambda x, *_: x + 2, {"depth": 1}, [1, 2])


def wide_leaf() -> LongItem:
    """Of so many entries; their sum is a whole number that float holds."""
    n = 12_000_000
    nodes = np.zeros((1, 2), np.int64)
    leaf = [np.array([0, n], np.int32), np.zeros(n, np.int32), np.ones(n, np.float32)]
    arrays: list[Array] = [np.zeros((1, 1), np.float32), nodes, np.zeros(1, np.int32), *leaf]
    attrs = {"depth": 1, "max_entries": n}
    return LongItem("Trees", arrays, lambda *_: np.full((1, 1), n, "f4"), attrs, [1, 2, 3, 4, 5])


def tree_ensemble() -> LongItem:
    """The operator that Trees is part of."""
    tree = {f"nodes_{name}": (0,) for name in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")}
    target = {f"target_{name}": (0,) for name in ("treeids", "nodeids", "ids")}
    attrs = {
        **tree,
        **target,
        "nodes_modes": ("LEAF",),
        "nodes_values": (0.0,),
        "target_weights": (2.0,),
        "n_targets": 1,
    }
    x = np.zeros((3_000_000, 1), np.float32)
    return LongItem("TreeEnsembleRegressor", [x], lambda x: x + 2, attrs, (), 1, 3, "ai.onnx.ml")


def coupling() -> LongItem:
    """Of classes that are equally likely, and so many that float computes without rounding."""
    n = 4096
    pairs = np.full((2, n * (n - 1) // 2), 0.5, np.float32)
    return LongItem("PairwiseCoupling", [pairs], lambda _: np.full((2, n), 1 / n, "f4"), {"classes": n})


def interpolated_row() -> LongItem:
    x, scales = np.ones((1, 1, 3_000_000)), np.array([1, 1, 2], "f4")
    none = np.zeros(0, np.float32)
    return LongItem("Resize", [x, none, scales], lambda x, *_: x.repeat(2, 2), {"mode": "linear"}, [1, 2])


def turned_pairs() -> LongItem:
    x = ramp(1, 1, 1, 24_000_000)
    angle = np.zeros((1, 1, x.size // 2), np.float32)
    return LongItem("RotaryEmbedding", [x, angle + 1, angle], lambda x, *_: x, {}, (), 1, 23)


def gathered_elements() -> LongItem:
    x = ramp(8_000_000)
    return LongItem("GatherElements", [x, np.arange(x.size)[::-1].copy()], lambda x, i: x[i])


def scattered_rows() -> LongItem:
    x = np.zeros(6_000_000, np.float32)
    inputs: list[Array] = [x, np.arange(x.size)[::-1].copy()[:, None], ramp(x.size)]
    return LongItem("ScatterND", inputs, lambda x, i, u: u[::-1])


def padding() -> LongItem:
    inputs = [ramp(1, 1000), counts(0, 0, 0, 5_000_000)]
    return LongItem("Pad", inputs, lambda x, _: np.tile(x, (1, 5001)), {"mode": "wrap"}, [1])


def triangle() -> LongItem:
    return LongItem("Trilu", [np.ones((1, 40_000_000), "f4")], lambda x: x, {"upper": 1})


def recurrence() -> LongItem:
    n, steps = 128, 16_000
    arrays = [np.zeros((steps, 1, n), np.float32), np.zeros((1, 1, n, n), np.float32)]
    attrs = {"kind": "rnn", "activations": ("Affine",), "activation_alpha": (1.0,), "activation_beta": (1.0,)}
    outputs = [np.ones((steps, 1, 1, n), "f4"), np.ones((1, 1, n), "f4")]
    return LongItem("Recurrence", arrays, lambda *_: outputs, attrs, (), 2)


def lstm() -> LongItem:
    """The operator that Recurrence is part of: with weights of 0 its state stays 0."""
    x, w = np.ones((3000, 1, 8), np.float32), np.zeros((1, 512, 8), np.float32)
    y = np.zeros((3000, 1, 1, 128), np.float32)
    return LongItem("LSTM", [x, w, np.zeros((1, 512, 128), "f4")], lambda *_: y, {"hidden_size": 128}, [1, 2])


def attention() -> LongItem:
    q, k = np.ones((1, 1, 1, 64), np.float32), np.ones((1, 1, 400_000, 64), np.float32)
    return LongItem("Attention", [q, k, k], lambda q, k, v: q, {}, (), 1, 23)


def attention_of_wide_heads() -> LongItem:
    q, k = np.ones((1, 1, 1, 1024), np.float32), np.ones((1, 1, 60_000, 1024), np.float32)
    return LongItem("Attention", [q, k, k], lambda q, k, v: q, {}, (), 1, 23)


def byte_range() -> LongItem:
    x = np.ones(60_000_000, np.float32)
    x[-1] = 255

    def expected(x: Array) -> list[Array]:
        return [x.astype("u1"), np.array(1, "f4"), np.array(0, "u1")]

    return LongItem("DynamicQuantizeLinear", [x], expected, {}, (), 3)


def transform() -> LongItem:
    def expected(x: Array) -> Array:
        y = np.fft.fft(x[..., 0].astype("f8"), axis=1)
        return np.stack([y.real, y.imag], -1).astype("f4")

    return LongItem("DFT", [ramp(1, 150_001, 1)], expected)


def resized_rows() -> LongItem:
    x = ramp(1, 1, 1, 4_000_000)
    scales = np.array([1, 1, 1, 2], "f4")
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return LongItem("Resize", [x, np.zeros(0, "f4"), scales], lambda x, *_: x.repeat(2, 3), attrs, [1, 2])


def regions() -> LongItem:
    rois = np.array([[0, 0, 0, 5999, 5999]], "f4")
    x = np.ones((1, 1, 6000, 6000), "f4")
    x[..., -1, -1] = 2
    attrs = {"pooled_shape": (1, 1)}
    return LongItem("MaxRoiPool", [x, rois], lambda x, r: np.full((1, 1, 1, 1), 2, "f4"), attrs)


def grid() -> LongItem:
    x, points = np.ones((1, 1, 64, 64), "f4"), np.zeros((1, 1, 1_500_000, 2), "f4")
    return LongItem("GridSample", [x, points], lambda x, p: np.ones((1, 1, 1, 1_500_000), "f4"))


LONG_ITEMS: dict[str, tuple[str, Callable[[], LongItem]]] = {
    make.__name__: (family, make)
    for family, makers in {
        "softmax": (softmax, softmax_columns), "unary": (tangent,), "binary": (remainder,), "pow": (power,),
        "reduce": (reduction, reduction_of_columns, reduction_by_definition, reduction_of_nothing),
        "argreduce": (arg_reduction,), "cumulate": (cumulation,), "topk": (top,), "nonzero": (nonzero,),
        "unique": (unique,), "compress": (compression,), "nms": (suppression,), "onehot": (one_hot,),
        "batchnorm": (batch_normalization,), "normalize": (normalization,), "lrn": (response_normalization,),
        "matmul": (
            product, product_of_a_row, product_of_integers, sum_of_rows, sum_of_rows_of_integers,
        ), "qgemm": (product_of_bytes,),
        "int4_matmul": (product_of_four_bits,),
        "conv2d": (convolution,), "winograd2d": (winograd_convolution,),
        "qwinograd2d": (winograd_convolution_of_bytes,),
        "convnd": (wide_convolution, convolution_of_packed_windows), "conv_transpose2d": (transposed_convolution,),
        "depthwise2d": (depthwise_convolution,), "pool2d": (pooling, wide_window),
        "poolnd": (powers, pooling_of_volumes),
        "unpool": (unpooling,), "col2im": (blocks_to_image,), "elements": (gathered_elements,),
        "scatter_nd": (scattered_rows,), "pad": (padding,), "trilu": (triangle,), "recurrent": (recurrence,),
        "attention": (attention, attention_of_wide_heads), "quant_range": (byte_range,), "fourier": (transform,),
        "resize2d": (resized_rows,), "roi": (regions,), "grid_sample": (grid,),
        "gather": (gathered_rows,), "reverse_sequence": (reversed_steps,), "tensor_scatter": (updated_cache,),
        "multinomial": (draws,), "trees": (walks, wide_leaf), "pairwise_coupling": (coupling,),
        "interp": (interpolated_row,), "deform_columns": (moved_columns,), "rotary": (turned_pairs,),
        "qdepthwise": (depthwise_convolution_of_bytes,),
    }.items()
    for make in makers
}  # fmt: skip
"""A family with what makes a node of it, by name."""

IN_MODELS: dict[str, Callable[[], LongItem] | None] = {
    "recurrence": lstm,
    "product_of_four_bits": matmul_nbits,
    "walks": tree_ensemble,
    "moved_columns": deformable_convolution,
    "wide_leaf": None,
    "coupling": None,
}
"""What models have in place of nodes of operators that others are made of; None: nothing of one node."""

"""Every row of the kernel table on edge-case values and lengths.

The values of each case are all negative, all zeros of both signs, mixed, with NaN or with infinities; the lengths are
0, 1 and those around the width of a vector. Vector rows must agree with the scalar row of their family, which
must agree with ONNX's reference. A family that gets a vector row needs an entry in CASES.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.kernels.table import kernel_table
from atcpy.ops.reduce.reduce import REDUCTIONS
from tests.effort import is_thorough
from tests.harness import make_node, reference_op, run_op
from tests.isa import BYTE_ISAS, ISAS

LENGTHS = (0, 1, 7, 8, 9, 15, 16, 17, 39)
VALUES = ("negative", "zeros", "mixed", "nan", "infinite")

INTEGERS = tuple(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8))
INTEGER_BINARY = ("Add", "Mul", "Max", "Less", "GreaterOrEqual", "Equal", "BitwiseAnd", "BitwiseXor")

Fill = Callable[..., Array]  # fill(*shape): random float32 values of one kind of `VALUES`


def fill_with(values: str) -> Fill:
    """Return a generator of float32 arrays whose elements are of one kind of `VALUES`."""
    rng = np.random.default_rng(VALUES.index(values))

    def fill(*shape: int) -> Array:
        x = rng.uniform(0.25, 4, shape).astype(np.float32)
        if values == "negative":
            return -x
        if values == "zeros":
            return np.where(rng.random(shape) < 0.5, np.float32(0), np.float32(-0.0))
        x *= rng.choice([-1, 1], shape).astype(np.float32)
        x[rng.random(shape) < 0.1] = 0
        x[rng.random(shape) < 0.1] = -0.0
        if values != "mixed" and x.size:
            special = [np.nan] if values == "nan" else [np.inf, -np.inf]
            x.flat[rng.integers(0, x.size, 1 + x.size // 12)] = rng.choice(special)
            x.flat[x.size - 1] = special[0]  # in the tail of a vector
        return x

    return fill


def whole(x: Array, dtype: str) -> Array:
    """Convert floats to integers over the whole range of the dtype."""
    info = np.iinfo(dtype)
    steps = np.nan_to_num(x * 30, nan=0, posinf=info.max, neginf=info.min)
    with np.errstate(invalid="ignore"):  # the largest of 64 bits is no float64
        return np.clip(np.rint(steps), info.min, info.max).astype(dtype)


@dataclass(frozen=True)
class Case:
    """A node with its inputs."""

    op_type: str
    arrays: Sequence[Array | None]
    attrs: Mapping[str, object] = field(default_factory=dict)
    constants: Sequence[int] = ()
    blocked: bool = False
    outputs: int = 1
    domain: str = ""
    by_reference: bool = True  # ONNX's reference supports the case with the same semantics
    rtol: float = 2e-5
    bf16: Sequence[str] = ()  # values that are stored in that type

    def run(self, isa: str, rows: list[str]) -> list[Array]:
        """The outputs on an ISA; the names of the kernel rows that ran are added to `rows`."""
        node = self._node(self.arrays)
        return run_op(node, self.arrays, isa=isa, blocked=self.blocked, threads=2, rows=rows, bf16=self.bf16)

    def reference(self) -> list[Array]:
        """The outputs of ONNX's reference, in float64 where the op's types allow it."""
        arrays = self.arrays
        if self.op_type in WIDE_OPS:
            arrays = [a.astype("f8") if a is not None and a.dtype == "f4" else a for a in arrays]
        with np.errstate(all="ignore"):
            return reference_op(self._node(arrays), arrays)

    def _node(self, arrays: Sequence[Array | None]) -> Node:
        return make_node(
            self.op_type, arrays, self.attrs, constants=self.constants, outputs=self.outputs, domain=self.domain
        )


UNARY = {
    "Relu": {}, "LeakyRelu": {"alpha": 0.25}, "Clip": {}, "ThresholdedRelu": {"alpha": 0.5}, "Abs": {}, "Neg": {},
    "Sign": {}, "Floor": {}, "Ceil": {}, "Round": {}, "Sqrt": {}, "Reciprocal": {}, "Exp": {}, "Log": {}, "Erf": {},
    "Sigmoid": {}, "HardSigmoid": {}, "HardSwish": {}, "Mish": {}, "Gelu": {}, "Elu": {"alpha": 0.5}, "Selu": {},
    "Celu": {"alpha": 0.5}, "Softplus": {}, "Softsign": {}, "Tanh": {},
}  # fmt: skip
BINARY = (
    "Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
)  # fmt: skip
WIDE_OPS = {*UNARY, *REDUCTIONS, "Conv", "ConvTranspose", "MatMul", "Softmax", "LayerNormalization", "LRN"}


def conv(fill: Fill, n: int) -> Iterator[Case]:
    for blocked in (False, True):
        yield Case("Conv", [fill(1, 3, 3, n), fill(5, 3, 2, 1), fill(5)], {}, [1, 2], blocked)
    arrays = [fill(1, 6, 3, n), fill(5, 6, 2, 1).astype(ml_dtypes.bfloat16)]
    yield Case("Conv", arrays, {"multiplies_bf16": 1}, [1], blocked=True, by_reference=False, bf16=["i0"])


def conv_transpose(fill: Fill, n: int) -> Iterator[Case]:
    x, w = fill(1, 2, 2, n), fill(2, 3, 2, 2)
    # The reference multiplies the zeros between its strides by the weights, so that NaN and infinity spread.
    yield Case("ConvTranspose", [x, w], {"strides": (1, 2)}, [1], by_reference=bool(np.isfinite(w).all()))


def convnd(fill: Fill, n: int) -> Iterator[Case]:
    for dtype in ("f4", "f8"):
        for stride in (1, 2):
            for channels in (3, 13):
                arrays = [fill(1, 2, 2, 2, n).astype(dtype), fill(channels, 2, 1, 2, 1).astype(dtype)]
                yield Case("Conv", arrays, {"strides": (1, 1, stride)})
    if n > 0:  # 16 taps are added in registers
        x, w = fill(1, 2, 8, 2, n), fill(3, 2, 8, 1, 2)
        # The reference multiplies the zeros of the padding by the weights.
        yield Case("Conv", [x, w], {"pads": (0, 0, 1) * 2}, by_reference=bool(np.isfinite(w).all()))


def matmul(fill: Fill, n: int) -> Iterator[Case]:
    yield Case("MatMul", [fill(3, 5), fill(5, n)])
    yield Case("MatMul", [fill(17, n), fill(n, 3)])
    for rows, columns in ((21, 1), (1, 35), (5, 32), (17, 16)):  # read where they lie
        yield Case("MatMul", [fill(rows, n), fill(n, columns)])
    yield Case("MatMul", [fill(1, 9), fill(9, n)])
    for a, b in ((fill(17, 5), fill(5, n)), (fill(17, n), fill(n, 3))):
        arrays = [a, b.astype(ml_dtypes.bfloat16)]
        yield Case("MatMul", arrays, {"multiplies_bf16": 1}, [1], by_reference=False)
    for dtype in ("i4", "i8", "f8"):
        for a, b in ((fill(3, 5), fill(5, n)), (fill(17, n), fill(n, 3)), (fill(1, n), fill(n, 35))):
            arrays = [x.astype(dtype) if dtype == "f8" else whole(x, dtype) for x in (a, b)]
            yield Case("MatMul", arrays, by_reference=dtype == "f8")


def reduction(fill: Fill, n: int) -> Iterator[Case]:
    for op_type in sorted(REDUCTIONS):
        for shape, axis in (((3, n), 1), ((3, n), 0)):
            # Logarithms and products after cancellation, and numpy's treatment of NaN, are no oracle.
            certain = op_type in {"ReduceL1", "ReduceL2", "ReduceSum", "ReduceSumSquare", "ReduceMax", "ReduceMin"}
            yield Case(op_type, [fill(*shape), np.array([axis])], {"keepdims": 0}, [1], by_reference=certain and n > 0)
    yield from _typed_reductions(fill, n)


def _typed_reductions(fill: Fill, n: int) -> Iterator[Case]:
    """Short rows of floats, and other types."""
    for op_type in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
        yield Case(op_type, [fill(21, n), np.array([1])], {"keepdims": 0}, [1], by_reference=False)
    for shape, axis in (((21, n), 1), ((n, 70), 0), ((2, n, 5), 1)):
        for dtype in ("i1", "u1", "i4", "i8"):
            sums = ["ReduceSum", *(["ReduceMean"] if n else [])] if dtype in ("i4", "i8") else []
            for op_type in ("ReduceMax", "ReduceMin", *sums):
                by_reference = n > 0 and op_type in ("ReduceMax", "ReduceMin")  # numpy's sums are wider
                x = whole(fill(*shape), dtype)
                yield Case(op_type, [x, np.array([axis])], {"keepdims": 0}, [1], by_reference=by_reference)
        for op_type in ("ReduceSum", "ReduceMean"):
            x = fill(*shape).astype("f8")
            yield Case(op_type, [x, np.array([axis])], {"keepdims": 0}, [1], by_reference=False, rtol=1e-12)


def arg_reduction(fill: Fill, n: int) -> Iterator[Case]:
    for op_type in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            for shape, axis in (((3, n), 0), ((n, 3), 1), ((3, n), 1))[: 2 + (n > 0)]:
                x = fill(*shape)
                attrs = {"axis": axis, "select_last_index": last, "keepdims": 0}
                yield Case(op_type, [x], attrs, by_reference=not (last and np.isnan(x).any()))


def softmax(fill: Fill, n: int) -> Iterator[Case]:
    for shape, axis in (((3, n), 1), ((3, n), 0), ((2, n, 3), 1)):
        yield Case("Softmax", [fill(*shape)], {"axis": axis})


def attention(fill: Fill, n: int) -> Iterator[Case]:
    yield Case("Attention", [fill(1, 2, 3, n), fill(1, 2, 5, n), fill(1, 2, 5, n)])
    yield Case("Attention", [fill(1, 1, 2, 8), fill(1, 1, n, 8), fill(1, 1, n, 8)])


def batchnorm(fill: Fill, n: int) -> Iterator[Case]:
    for blocked in (False, True):
        arrays = [fill(2, 3, 1, n), fill(3), fill(3), fill(3), np.abs(fill(3))]
        yield Case("BatchNormalization", arrays, {}, range(1, 5), blocked)


def normalization(fill: Fill, n: int) -> Iterator[Case]:
    yield Case("LayerNormalization", [fill(3, n), fill(n), fill(n)], {"axis": 1, "epsilon": 0.1}, [1, 2])
    yield Case("InstanceNormalization", [fill(2, 3, n), fill(3), fill(3)], {"epsilon": 0.1}, [1, 2])


def lrn(fill: Fill, n: int) -> Iterator[Case]:
    for beta in (0.5, 0.75, 1.0):
        yield Case("LRN", [fill(1, 5, 2, n)], {"size": 3, "beta": beta}, by_reference=False)


def pool2d(fill: Fill, n: int) -> Iterator[Case]:
    attrs = {"kernel_shape": (2, 2), "pads": (0, 1, 0, 1)}
    for op_type in ("MaxPool", "AveragePool"):
        yield Case(op_type, [fill(1, 17, 3, n)], attrs, blocked=True, by_reference=False)
    for dtype in ("u1", "i1"):
        yield Case("MaxPool", [whole(fill(1, 17, 3, n), dtype)], attrs, blocked=True, by_reference=False)


def poolnd(fill: Fill, n: int) -> Iterator[Case]:
    for dtype in ("f4", "f8"):
        for op_type in ("MaxPool", "AveragePool", "LpPool"):
            for stride in (1, 2):
                attrs = {"kernel_shape": (1, 2, 2), "pads": (0, 0, 1, 0, 0, 1), "strides": (1, 1, stride)}
                yield Case(op_type, [fill(1, 2, 2, 3, n).astype(dtype)], attrs, by_reference=False)
    yield from poolnd_positions(fill, n)


def poolnd_positions(fill: Fill, n: int) -> Iterator[Case]:
    for dtype in ("f4", "f8"):
        for stride in (1, 2, 3):
            for order in (0, 1):
                attrs = {"kernel_shape": (2, 3), "pads": (0, 1, 1, 1), "strides": (1, stride), "storage_order": order}
                yield Case("MaxPool", [fill(2, 2, 3, n).astype(dtype)], attrs, outputs=2, by_reference=False)


def depthwise(fill: Fill, n: int) -> Iterator[Case]:
    x, w, attrs = fill(1, 17, 3, n), fill(17, 1, 2, 3), {"group": 17, "pads": (0, 1, 0, 1)}
    # The reference multiplies its padding by the weights, so that NaN and infinity spread.
    yield Case("Conv", [x, w], attrs, [1], blocked=True, by_reference=bool(np.isfinite(w).all()))
    arrays = [fill(1, 17, 3, n), fill(17, 1, 2, 1)]
    yield Case("Conv", arrays, {"group": 17}, [1], blocked=True, by_reference=False, bf16=["i0"])


def unary(fill: Fill, n: int) -> Iterator[Case]:
    for op_type, attrs in UNARY.items():
        bounds = [np.float32(-0.5), np.float32(2)] if op_type == "Clip" else []
        yield Case(op_type, [fill(n), *map(np.asarray, bounds)], attrs, range(1, 1 + len(bounds)), by_reference=False)
    for op_type in ("Sin", "Cos", "Tan", "Asin", "Acos", "Atan"):
        yield Case(op_type, [fill(n)], by_reference=False)
    for exponent in (0.5, -1.75, 5.0, np.inf):
        yield Case("Pow", [fill(n), np.array(exponent, np.float32)], {}, [1], by_reference=False)
    for dtype in INTEGERS:
        x, low, high = whole(fill(n), dtype), np.array(2, dtype), np.array(90, dtype)
        for op_type in ("Abs", "Sign", "BitwiseNot", *(("Neg",) if dtype.startswith("i") else ())):
            yield Case(op_type, [x])
        yield Case("Clip", [x, low, high], {}, [1, 2])
        yield Case("Relu", [x], by_reference=False)
    yield Case("Not", [fill(n) > 0])


def strided_copy(fill: Fill, n: int) -> Iterator[Case]:
    yield Case("Transpose", [fill(9, n)], {"perm": (1, 0)}, rtol=0)
    yield Case("Transpose", [fill(2, 17, n)], {"perm": (0, 2, 1)}, rtol=0)
    for dtype in ("i1", "i2", "f8"):
        yield Case("Transpose", [whole(fill(35, n), dtype) if dtype != "f8" else fill(35, n).astype(dtype)],
                   {"perm": (1, 0)}, rtol=0)  # fmt: skip


def col2im(fill: Fill, n: int) -> Iterator[Case]:
    for dtype in ("f4", "f8"):
        for stride, pad in ((1, 0), (1, 2), (2, 1)):
            blocks = (stride * (n - 1) + 3 - 2 * pad, stride + 3 - 2 * pad)
            arrays = [fill(1, 9 * 2, 2 * n).astype(dtype), np.array(blocks[::-1]), np.array([3, 3])]
            attrs = {"strides": (stride, stride), "pads": (pad,) * 4}
            if min(blocks) > 0:
                yield Case("Col2Im", arrays, attrs, [1, 2])


def power(fill: Fill, n: int) -> Iterator[Case]:
    for other in (fill(3, n), fill(1), fill(3, 1)):
        yield Case("Pow", [fill(3, n), other], by_reference=False)
        yield Case("Pow", [other, fill(3, n)], by_reference=False)


def binary(fill: Fill, n: int) -> Iterator[Case]:
    for op_type in BINARY:
        for other in (fill(3, n), fill(1)):
            certain = op_type != "PRelu" or np.isfinite(other).all()  # the reference adds 0 · slope
            yield Case(op_type, [fill(3, n), other], rtol=1e-6, by_reference=bool(certain))
    for dtype in INTEGERS:
        for other in (fill(3, n), fill(1)):
            operands = whole(fill(3, n), dtype), whole(other, dtype)
            for op_type in (*INTEGER_BINARY, *(("Sub", "Min") if dtype.startswith("i") else ())):
                yield Case(op_type, operands)
            divisors = np.where(operands[1] == 0, operands[1].dtype.type(3), operands[1])
            for op_type in ("Div", "Mod"):  # numpy rounds quotients down
                yield Case(op_type, [operands[0], divisors], by_reference=op_type == "Mod")
    for op_type in ("And", "Or", "Xor", "Equal"):
        yield Case(op_type, [fill(3, n) > 0, fill(3, n) > 0])


def classify(fill: Fill, n: int) -> Iterator[Case]:
    yield Case("IsNaN", [fill(n)])
    yield Case("IsInf", [fill(n)])


def resize(mode: str) -> Callable[[Fill, int], Iterator[Case]]:
    def cases(fill: Fill, n: int) -> Iterator[Case]:
        scales = np.array([1, 1, 2, 1.5], np.float32)
        for blocked in (False, True) if mode == "linear" else (False,):
            yield Case("Resize", [fill(1, 2, 3, n), None, scales], {"mode": mode}, [2], blocked, by_reference=False)

    return cases


def resize2d(fill: Fill, n: int) -> Iterator[Case]:
    yield from resize("linear")(fill, n)
    for width in (2, 1.5):  # each pixel twice, or by the taps
        for dtype in ("f4", "i1", "f8"):
            x, scales = (
                fill(1, 2, 3, n).astype(dtype) if dtype != "i1" else whole(fill(1, 2, 3, n), dtype),
                [1, 1, 2, width],
            )
            yield Case("Resize", [x, None, np.array(scales, np.float32)], {}, [2], by_reference=False, rtol=0)


def grid_sample(fill: Fill, n: int) -> Iterator[Case]:
    for dims, mode, padding, side in itertools.product(
        (2, 3), ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (1, 5)
    ):
        if (dims, mode) != (3, "cubic"):  # has a scalar row only
            attrs = {"mode": mode, "padding_mode": padding, "align_corners": n % 2}
            arrays = [fill(2, 3, *(5,) * (dims - 1), side), fill(2, *(2,) * (dims - 1), 4 * n, dims) / 2]
            yield Case("GridSample", arrays, attrs, by_reference=False)


def where(fill: Fill, n: int) -> Iterator[Case]:
    yield Case("Where", [fill(3, n) > 0, fill(3, n), fill(3, n)], rtol=0)
    yield Case("Where", [fill(3, n) > 0, fill(1), fill(n)], rtol=0)


def cast(fill: Fill, n: int) -> Iterator[Case]:
    for to in (10, 16, 11, 9):  # float16, bfloat16, float64, bool
        yield Case("Cast", [fill(n)], {"to": to}, rtol=0, by_reference=to != 16)
    yield Case("Cast", [fill(n).astype("f2")], {"to": 1}, rtol=0)


def rotary(fill: Fill, n: int) -> Iterator[Case]:
    yield Case("RotaryEmbedding", [fill(1, 2, 3, 2 * n), fill(1, 3, n), fill(1, 3, n)])


def qgemm(fill: Fill, n: int) -> Iterator[Case]:
    for types in (("u1", "i1"), ("i1", "i1")):
        yield Case("MatMulInteger", [whole(fill(3, n), types[0]), whole(fill(n, 17), types[1])], {}, [1])
        yield Case("MatMulInteger", [whole(fill(3, 5), types[0]), whole(fill(5, n), types[1])], {}, [1])


def int4_matmul(fill: Fill, n: int) -> Iterator[Case]:
    w, steps = np.full((2, n * 2, 16, 4), 0x5B, np.uint8), np.full((2, n, 16), 0.5, np.float32)
    attrs = {"N": 17, "K": 16 * n, "block_size": 16, "digits": 3}
    x = fill(3, 16 * n)
    yield Case("Int4MatMul", [x, w, steps], attrs, [1, 2], by_reference=False, rtol=1e-5)
    # Of many rows, whose sums have NaN where infinities of both signs meet, as integers do not.
    x = np.nan_to_num(fill(17, 16 * n), nan=0, posinf=1e30, neginf=-1e30)
    yield Case("Int4MatMul", [x, w, steps], attrs, [1, 2], by_reference=False, rtol=1e-5)


def quantize(fill: Fill, n: int) -> Iterator[Case]:
    for dtype in ("u1", "i1"):
        x = fill(n)
        arrays = [x, np.asarray(np.float32(0.25)), np.array(3, dtype)]
        # Out-of-range conversions of numpy differ between CPUs.
        yield Case("QuantizeLinear", arrays, by_reference=bool(np.isfinite(x).all()))


def dequantize(fill: Fill, n: int) -> Iterator[Case]:
    for dtype in ("u1", "i1"):
        yield Case("DequantizeLinear", [whole(fill(n), dtype), np.asarray(np.float32(0.25)), np.array(3, dtype)])


def quant_range(fill: Fill, n: int) -> Iterator[Case]:
    x = np.nan_to_num(fill(n), nan=0, posinf=1e3, neginf=-1e3)  # NaN and infinite ranges have no scale
    yield Case("DynamicQuantizeLinear", [x], outputs=3, by_reference=bool(x.any()))


def qbinary(fill: Fill, n: int) -> Iterator[Case]:
    step = np.asarray(np.float32(0.5))
    for op_type in ("QLinearAdd", "QLinearMul"):
        for shape in ((n,), (1,)):
            arrays = [
                whole(fill(n), "i1"),
                step,
                np.array(-7, "i1"),
                whole(fill(*shape), "i1"),
                step,
                np.array(5, "i1"),
            ]
            arrays += [step, np.array(9, "i1")]
            yield Case(op_type, arrays, domain="com.microsoft", by_reference=False)


def byte_table(fill: Fill, n: int) -> Iterator[Case]:
    table = np.arange(256, dtype=np.uint8)[::-1].copy()
    yield Case("ByteTable", [whole(fill(n), "i1"), table], {}, [1], by_reference=False)


def qdepthwise(fill: Fill, n: int) -> Iterator[Case]:
    x, w = whole(fill(1, 17, 3, n), "u1"), whole(fill(17, 1, 2, 1), "i1")
    yield Case("ConvInteger", [x, w], {"group": 17}, [1], blocked=True)


def recurrent(fill: Fill, n: int) -> Iterator[Case]:
    attrs = {"activation_alpha": (0.0,) * 3, "activation_beta": (0.0,) * 3}
    for kind, gates, names in (("rnn", 1, ("Tanh",)), ("lstm", 4, ("Sigmoid", "Tanh", "Tanh"))):
        short = {name: value[: len(names)] for name, value in attrs.items()}
        arrays = [fill(2, 3, gates * n), fill(1, gates, n, n)]
        yield Case(
            "Recurrence", arrays, {"kind": kind, "activations": names, **short}, outputs=3 if kind == "lstm" else 2,
            by_reference=False, rtol=1e-4,
        )  # fmt: skip


def topk(fill: Fill, n: int) -> Iterator[Case]:
    for dtype in ("f4", "i1"):
        for length, k in ((n, min(n, 3)), (256 + n, 3), (256 + n, 200)):  # by a heap, by the runs' largest, by sorting
            x = fill(2, length) if dtype == "f4" else whole(fill(2, length), dtype)
            yield Case("TopK", [x, np.array([k])], {"largest": n % 2}, [1], outputs=2)


def nms(fill: Fill, n: int) -> Iterator[Case]:
    boxes, scores = fill(1, 2 * n, 4), fill(1, 2, 2 * n)
    arrays = [boxes, scores, np.array([n]), np.asarray([0.3], np.float32)]
    yield Case("NonMaxSuppression", arrays, {"center_point_box": n % 2}, [2], by_reference=False)


CASES: dict[str, Callable[[Fill, int], Iterator[Case]]] = {
    "conv2d": conv, "conv_transpose2d": conv_transpose, "convnd": convnd, "matmul": matmul, "reduce": reduction,
    "argreduce": arg_reduction, "softmax": softmax, "attention": attention, "batchnorm": batchnorm,
    "normalize": normalization, "lrn": lrn, "pool2d": pool2d, "poolnd": poolnd, "depthwise2d": depthwise,
    "unary": unary, "strided_copy": strided_copy, "binary": binary, "classify": classify, "resize2d": resize2d,
    "interp": resize("cubic"), "where": where, "cast": cast, "rotary": rotary, "qgemm": qgemm, "quantize": quantize,
    "int4_matmul": int4_matmul, "byte_table": byte_table,
    "dequantize": dequantize, "quant_range": quant_range, "qbinary": qbinary, "qdepthwise": qdepthwise,
    "recurrent": recurrent, "grid_sample": grid_sample, "pow": power, "col2im": col2im, "nms": nms, "topk": topk,
}  # fmt: skip
# Families whose cases have no empty dims.
NEVER_EMPTY = {
    "conv2d", "conv_transpose2d", "convnd", "depthwise2d", "attention", "batchnorm", "normalize", "lrn", "pool2d",
    "poolnd", "resize2d", "interp", "rotary", "qgemm", "int4_matmul", "qdepthwise", "softmax",
    "grid_sample", "col2im",
}  # fmt: skip
ELSEWHERE = {
    "aipp": "test_aipp.py",
    "transdata": "test_transdata.py",
    "graph_kernel": "test_graph_kernel.py",
    "winograd2d": "test_winograd2d.py",
    "qwinograd2d": "test_qwinograd2d.py",
    "range": "test_range.py",
    "random": "../ops/test_random.py",
}  # NaN and infinity spread to whole tiles, in each row by its own sums
ROWS = [(row.family, row.isa) for row in kernel_table()]
VECTOR_FAMILIES = {family for family, isa in ROWS if isa != "scalar"}


def cases_of(family: str) -> Iterator[tuple[str, Case]]:
    """The cases of all values and lengths, each with a description for failures. Quick ones have mixed values at all
    lengths, and all values at two: of a vector and its tail, and of several.
    """
    for values in VALUES:
        for n in LENGTHS[family in NEVER_EMPTY :] if values == "mixed" or is_thorough() else (9, 39):
            for case in CASES[family](fill_with(values), n):
                shapes = [None if a is None else a.shape for a in case.arrays]
                yield f"{case.op_type} of {values} values, n = {n}: {shapes} {dict(case.attrs)}", case


@cache
def scalar_results(family: str) -> list[tuple[str, Case, list[Array]]]:
    """The cases of a family with the outputs of its scalar row, to which many tests compare theirs."""
    return [(what, case, case.run("scalar", [])) for what, case in cases_of(family)]


def assert_same(ours: Sequence[Array], expected: Sequence[Array], what: str, rtol: float) -> None:
    """Assert equal NaN and infinities, and numbers within rtol of the largest, or bit for bit if rtol is 0."""
    for a, b in zip(ours, expected, strict=True):
        if a.dtype.kind != "f" or rtol == 0:
            np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"), what)
            continue
        finite = b[np.isfinite(b)]
        largest = float(np.abs(finite).max()) if finite.size else 0.0
        np.testing.assert_allclose(a, b.astype(a.dtype), rtol=rtol, atol=rtol * largest, err_msg=what)


def test_each_family_with_vector_rows_has_cases() -> None:
    """A build without AVX-512 lacks the rows of families that have no others."""
    listed = {*CASES, *ELSEWHERE}
    assert listed >= VECTOR_FAMILIES
    assert listed == VECTOR_FAMILIES or not any(isa == "avx512f" for _, isa in ROWS)


@pytest.mark.parametrize("family", CASES)
def test_scalar_rows_agree_with_the_reference(family: str) -> None:
    for what, case, outputs in scalar_results(family):
        if case.by_reference:
            assert_same(outputs, case.reference(), what, case.rtol)


@pytest.mark.parametrize(
    ("family", "isa"), sorted({(f, isa) for f, isa in ROWS if f in CASES and isa in {*ISAS, *BYTE_ISAS} - {"scalar"}})
)
def test_vector_rows_agree_with_the_scalar_row(family: str, isa: str) -> None:
    rows: list[str] = []
    for what, case, outputs in scalar_results(family):
        assert_same(case.run(isa, rows), outputs, what, case.rtol)
    required = {row.name for row in kernel_table() if row.family == family and row.isa == isa}
    assert required <= set(rows)

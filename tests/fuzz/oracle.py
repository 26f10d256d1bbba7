"""The expected results of a graph: its nodes evaluated in float64, several times with a little noise.

Floats of every dtype are float64 here; integers and bools are exact. The first sample has no noise: it is
the expected result. In the others each rounded result is off by a few ulp of its dtype and rounded to it:
upwards in the second sample, downwards in the third, at random in the others.
The distance of the samples shows how far rounding can move each element:

- where samples have both signs, 0 is possible too: two samples get it, one with each sign;
- floats may differ from the first sample by a multiple of that distance;
- an element on which samples differ as bools, integers, NaN or infinities depends on rounding
  (a comparison of nearly equal numbers, a floor, an overflow) and is not compared;
- results that the standard leaves undefined (integers from out-of-range floats) are not compared, nor are
  tensors computed from them.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

from atcpy.ir import DType
from atcpy.ir.tensor import Array
from atcpy.ops.core.half import HALF_DTYPES
from tests.fuzz.builder import Case
from tests.fuzz.definitions import OWN, by_reference

SAMPLES = 5
_ULPS = 4  # maximum error of a kernel, in ulp of the result's dtype
_DEVIATIONS = 8  # allowed error, in distances of the samples

# Ops with exact results get no noise.
_EXACT = frozenset({
    "Relu", "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Max", "Min", "Where", "Clip", "Identity", "Transpose",
    "Reshape", "Unsqueeze", "Flatten", "Concat", "Slice", "Gather", "Expand", "Pad", "MaxPool", "ReduceMax",
    "ReduceMin", "ThresholdedRelu", "CastLike", "Shape", "Squeeze", "ConstantOfShape", "Split", "TopK",
})  # fmt: skip
# Of 0 and -0 none is the larger: either may be the result.
_EXTREMES = frozenset({"Max", "Min", "ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool"})
# Sums of many terms: the error is relative to the terms, not to the result.
_SUMS = frozenset({
    "ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp",
    "ReduceProd", "MatMul", "Conv", "Softmax", "Sum", "Mean",
})  # fmt: skip
# Formulas that subtract nearly equal numbers: the error is relative to the operand.
_BESIDE_INPUT = frozenset({
    "Gelu", "Mish", "Swish", "Softplus", "Elu", "Celu", "Selu", "Sigmoid", "Erf", "HardSigmoid", "HardSwish",
    "Shrink", "Mod",
})  # fmt: skip

Samples = list[Array]


def wide(array: Array) -> Array:
    """Floats as float64."""
    return array.astype(np.float64) if DType.from_numpy(array.dtype).is_float else array


def epsilon(dtype: DType) -> float:
    """One ulp, relative to the number."""
    return float(ml_dtypes.finfo(dtype.numpy).eps)


class Oracle:
    """Evaluates all values of a case, in several samples."""

    def __init__(self, case: Case, samples: int = SAMPLES) -> None:
        self.rng = np.random.default_rng(0)
        self.count = samples
        graph = case.model.graph
        self.dtypes = {value.name: DType.from_onnx(value.type.tensor_type.elem_type) for value in graph.input}
        self.values: dict[str, Samples] = {}
        self.undefined: dict[str, Array] = {}  # elements that the standard leaves undefined
        for tensor in graph.initializer:
            self.dtypes[tensor.name] = DType.from_onnx(tensor.data_type)
            self._exactly(tensor.name, numpy_helper.to_array(tensor))
        for name, array in case.feeds.items():
            self._exactly(name, array)
        types = _types_of(case.model)
        for node in graph.node:
            for index, name in enumerate(node.output):
                self.dtypes[name] = types[name]
                with np.errstate(all="ignore"):
                    self.values[name] = self._evaluate(node, index)
                if any(source in self.undefined for source in node.input) and node.op_type != "Shape":
                    self.undefined[name] = np.ones(self.values[name][0].shape, np.bool_)

    def compare(self, name: str, ours: Array) -> tuple[Array, Array]:
        """Which elements of a value are compared, and which of those are wrong."""
        compared, wrong = compare(ours, self.values[name], self.dtypes[name])
        defined = ~self.undefined.get(name, np.zeros(ours.shape, np.bool_))
        return compared & defined, wrong & defined

    def _exactly(self, name: str, array: Array) -> None:
        self.values[name] = [wide(array)] * self.count

    def _evaluate(self, node: onnx.NodeProto, output: int) -> Samples:
        dtype = self.dtypes[node.output[output]]
        operands = [self.values[name] for name in node.input if name]
        if node.op_type in {"Cast", "CastLike"}:
            results = [self._cast(x, dtype, node.output[0]) for x in operands[0]]
            return _hesitant(results, operands[0]) if dtype is DType.BOOL else _with_zeros(results)
        run = OWN[node.op_type](node) if node.op_type in OWN else by_reference(node, output)
        results = []
        for index in range(self.count):
            feeds = {name: self.values[name][index] for name in node.input if name}
            beside = [array for name, array in feeds.items() if self.dtypes[name].is_float]
            if node.op_type in _SUMS:
                feeds = {name: self._off(x, self.dtypes[name], index) for name, x in feeds.items()}
            y = np.asarray(run(feeds))
            if not dtype.is_float:
                results.append(y.astype(dtype.numpy, copy=False))
                continue
            y = y.astype(np.float64)
            if node.op_type not in _EXACT:
                y = self._off(y, dtype, index, beside=beside if node.op_type in _BESIDE_INPUT else [])
            results.append(y if _may_be_wide(dtype, index) else _overflown(y, dtype))
        if node.op_type == "Equal" and operands[0][0].dtype.kind == "f":
            return _hesitant(results, [a - b for a, b in zip(*operands, strict=True)])
        if node.op_type == "ReduceL2":  # intermediate squares may overflow
            with_squares = [np.where(np.abs(y) ** 2 > _largest(dtype.numpy), np.inf, y) for y in results]
            results = [results[0], *with_squares[1:-1], results[-1]]
        if dtype.is_float and node.op_type in _EXTREMES:
            return _of_either_sign(results, np.max(np.abs(results), axis=0) == 0)
        return _with_zeros(results) if dtype.is_float and node.op_type not in _EXACT else results

    def _off(self, x: Array, dtype: DType, index: int, beside: Sequence[Array] = ()) -> Array:
        """Add a sample's noise to x; its magnitude also depends on the operands in `beside`."""
        if index == 0 or not dtype.is_float:
            return x
        signs = [1.0, -1.0][index - 1] if index < 3 else self.rng.uniform(-1, 1, x.shape)
        size = np.abs(x)
        for operand in beside:
            size = np.maximum(size, np.abs(np.broadcast_to(operand, x.shape) if operand.size > 1 else operand))
        info = ml_dtypes.finfo(dtype.numpy)
        fading = float(info.tiny if dtype.bits >= 32 else info.smallest_subnormal) * (x != 0)
        noise = np.where(np.isfinite(x) & np.isfinite(size), size * _ULPS * epsilon(dtype) + fading, 0)
        moved = x + noise * signs
        rounded = moved.astype(dtype.numpy).astype(np.float64)  # so that integers stay integers
        return np.where(np.isinf(rounded), moved, rounded) if _may_be_wide(dtype, index) else rounded

    def _cast(self, x: Array, to: DType, name: str) -> Array:
        if to is DType.BOOL:
            return np.asarray(x != 0)
        if to.is_float:
            x = x.astype(np.float64)
            if to.bits >= 32:
                return _overflown(x.astype(to.numpy).astype(np.float64), to)
            if to.bits <= 8:
                if to.bits < 8:
                    self._leave_undefined(name, np.isnan(x))
                x = np.clip(x, _lowest(to.numpy), _largest(to.numpy))
            return np.asarray(x.astype(to.numpy).astype(np.float64))
        signed = to.name.startswith("INT")
        low, high = (-(2 ** (to.bits - 1)), 2 ** (to.bits - 1)) if signed else (0, 2**to.bits)
        holder = np.dtype(np.int8) if to.bits < 8 else to.numpy
        if x.dtype.kind == "f":
            whole = np.trunc(x)
            inside = (whole >= low) & (whole < high)
            self._leave_undefined(name, ~inside)
            return np.where(inside, whole, 0).astype(holder).astype(to.numpy)
        if to.bits >= 8:
            return x.astype(to.numpy)
        fields = x.astype(np.uint64).astype(np.int64) & (high - low - 1)
        return np.where(fields >= high, fields - (high - low), fields).astype(holder).astype(to.numpy)

    def _leave_undefined(self, name: str, where: Array) -> None:
        if where.any():
            self.undefined[name] = self.undefined.get(name, np.zeros(where.shape, np.bool_)) | where


def _may_be_wide(dtype: DType, index: int) -> bool:
    """Whether 16-bit floats may exceed their range: kernels compute in float32 and may not round between two fused
    ops (adr/0006), so that in some samples nothing overflows.
    """
    return dtype in HALF_DTYPES and index >= 3


def _straddling(samples: Samples) -> Array:
    """Elements whose samples have both signs, or of which some but not all are 0."""
    lowest, largest = np.min(samples, axis=0), np.max(samples, axis=0)
    return np.asarray((lowest <= 0) & (largest >= 0) & (lowest != largest))


def _with_zeros(samples: Samples) -> Samples:
    """Where 0 lies between the samples, set two of them to 0 and −0."""
    return samples if samples[0].dtype.kind != "f" else _of_either_sign(samples, _straddling(samples))


def _of_either_sign(samples: Samples, zero: Array) -> Samples:
    return [*samples[:3], np.where(zero, 0.0, samples[3]), np.where(zero, -0.0, samples[4]), *samples[5:]]


def _hesitant(truths: Samples, differences: Samples) -> Samples:
    """Flip a sample of a comparison where rounding can change its result."""
    if differences[0].dtype.kind != "f":
        return truths
    return [*truths[:-1], truths[-1] ^ (_straddling(differences) & (truths[-1] == truths[0]))]


def _lowest(dtype: np.dtype[np.generic]) -> float:
    return float(ml_dtypes.finfo(dtype).min)


def _largest(dtype: np.dtype[np.generic]) -> float:
    return float(ml_dtypes.finfo(dtype).max)


def _overflown(x: Array, dtype: DType) -> Array:
    """Replace numbers beyond the range of the dtype by infinity."""
    return np.where(np.abs(x) > _largest(dtype.numpy), np.copysign(np.inf, x), x)


def _types_of(model: onnx.ModelProto) -> dict[str, DType]:
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    return {
        value.name: DType.from_onnx(value.type.tensor_type.elem_type)
        for value in (*inferred.value_info, *inferred.output)
    }


def compare(ours: Array, samples: Samples, dtype: DType) -> tuple[Array, Array]:
    """Which elements are compared, and which of those are wrong."""
    expected, others = samples[0], samples[1:]
    if not dtype.is_float:
        same = np.all([np.asarray(expected == other) for other in others], axis=0)
        return same, same & (ours != expected)
    kinds = [np.where(np.isfinite(sample), 0, np.where(np.isnan(sample), 2, np.sign(sample))) for sample in samples]
    kinds = [np.where(np.isinf(sample), np.sign(sample) * 3, kind) for kind, sample in zip(kinds, samples, strict=True)]
    compared = np.all([kind == kinds[0] for kind in kinds[1:]], axis=0)
    found = wide(ours)
    finite = np.isfinite(expected)
    with np.errstate(all="ignore"):
        deviation = np.max([np.abs(other - expected) for other in others], axis=0)
        tiny = float(ml_dtypes.finfo(dtype.numpy).tiny)
        allowed = _DEVIATIONS * deviation + _ULPS * epsilon(dtype) * np.abs(expected) + tiny
        near_overflow = np.abs(expected) + allowed > _largest(dtype.numpy)
        right = np.where(
            finite, np.abs(found - expected) <= allowed, (found == expected) | (np.isnan(found) & np.isnan(expected))
        )
    right |= finite & near_overflow & np.isinf(found)
    # After division by what may be 0, any number is possible.
    compared &= np.isfinite(found) | ~finite | (deviation < np.abs(expected) / 2)
    return compared, compared & ~right

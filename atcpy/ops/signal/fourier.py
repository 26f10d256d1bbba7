"""DFT and STFT: discrete Fourier transforms, of whole dims or of frames."""

from __future__ import annotations

import math
from collections.abc import Iterable

from atcpy.ir import DType, Engine, Node, Reject, Value
from atcpy.ops.core.axes import normal_axis
from atcpy.ops.core.opdef import KernelCall, OpDef, ParamValue, register_operator
from atcpy.ops.core.reference import known_constant
from atcpy.ops.core.shape_values import integers
from atcpy.ops.signal.spectral import infer_stft

DTYPES = frozenset({DType.FLOAT32, DType.FLOAT64})
MAX_LENGTH = 1 << 22
SHORT_LENGTH = 16


def _number(value: Value | None, default: int) -> int | None:
    """A constant number; `default` if it is left out, None if it is computed."""
    if value is None:
        return default
    found = integers(known_constant(value))
    return found[0] if found else None


def _rejects(node: Node, length: int | None) -> Iterable[Reject]:
    """Why the kernel does not take a transform of this length."""
    x, y = node.operand(0).desc, node.output.desc
    if x.dtype not in DTYPES:
        yield Reject("dtype", node.name, x.dtype.long)
    if length is None or not x.is_static or not y.is_static:
        yield Reject("shape-unknown", node.name)
    elif not 1 <= length <= MAX_LENGTH or 0 in x.static_shape or 0 in y.static_shape:
        yield Reject("size", node.name, f"a transform of {length}")
    elif x.static_shape[-1] not in {1, 2}:
        yield Reject("rank", node.name, "numbers have neither one nor two parts")


def _axis(node: Node) -> int | None:
    axis = _number(node.input(2), -2)
    return None if axis is None else normal_axis(node, axis, len(node.operand(0).desc.static_shape))


def dft_length(node: Node) -> int | None:
    """Elements of the transform, if they are known."""
    axis = _axis(node) if node.operand(0).desc.is_static else None
    if axis is None:
        return None
    size, real = node.operand(0).desc.static_shape[axis], node.int_attr("inverse", 0) and node.int_attr("onesided", 0)
    return _number(node.input(1), 2 * (size - 1) if real else size)


def supports_dft(node: Node) -> Iterable[Reject]:
    """Constant length and axis. The standard's cases of the inverse in float32, of ten numbers, hold the rounding of
    numpy's own algorithm, to less than that rounding: a result nearer to the truth would count as wrong.
    """
    length = dft_length(node)
    yield from _rejects(node, length)
    is_short = length is not None and length <= SHORT_LENGTH
    if node.int_attr("inverse", 0) and node.operand(0).desc.dtype is DType.FLOAT32 and is_short:
        yield Reject("rounding", node.name, "a short inverse in float32 is numpy's")


def lower_dft(node: Node) -> Iterable[KernelCall]:
    """One launch of `fourier`: every series is one frame."""
    shape, axis, n = node.operand(0).desc.static_shape, _axis(node), dft_length(node)
    assert axis is not None and n is not None
    inverse = node.int_attr("inverse", 0) != 0
    params: dict[str, ParamValue] = {
        "outer": math.prod(shape[:axis]), "length": shape[axis], "inner": math.prod(shape[axis + 1 : -1]),
        "parts": shape[-1], "n": n, "frames": 1, "bins": node.output.desc.static_shape[axis], "inverse": int(inverse),
        "hermitian": int(inverse and node.int_attr("onesided", 0) != 0),
    }  # fmt: skip
    yield KernelCall("fourier", (node.operand(0), None), (node.output,), params)


def frame_length(node: Node) -> int | None:
    """Elements of a frame, if they are known."""
    x, window = node.operand(0).desc, node.input(2)
    if not x.is_static or len(x.static_shape) < 2:
        return None
    default = x.static_shape[1]
    if window is not None:
        if not window.desc.is_static:
            return None
        default = window.desc.elements
    return _number(node.input(3), default)


def supports_stft(node: Node) -> Iterable[Reject]:
    """Constant length and step of frames; a window as long as a frame."""
    length, window = frame_length(node), node.input(2)
    yield from _rejects(node, length)
    if not _number(node.input(1), 0):
        yield Reject("size", node.name, "the step is not a constant above 0")
    if window is not None and length is not None and window.desc.elements != length:
        yield Reject("size", node.name, f"a window of {window.desc.elements} for frames of {length}")


def lower_stft(node: Node) -> Iterable[KernelCall]:
    """One launch of `fourier`."""
    n, length, parts = (*node.operand(0).desc.static_shape, 1)[:3]
    _, frames, bins, _ = node.output.desc.static_shape
    size, step = frame_length(node), _number(node.input(1), 0)
    assert size is not None and step is not None
    params: dict[str, ParamValue] = {
        "outer": n, "length": length, "inner": 1, "parts": parts, "n": size, "frames": frames, "step": step,
        "bins": bins,
    }  # fmt: skip
    yield KernelCall("fourier", (node.operand(0), node.input(2)), (node.output,), params)


register_operator(OpDef(name="DFT", engines={Engine.AICPU: supports_dft}, lower=lower_dft))
register_operator(OpDef(name="STFT", infer=infer_stft, engines={Engine.AICPU: supports_stft}, lower=lower_stft))

"""Ops that the standard has had since, under the same or another name."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib


def as_scalar(e: Expansion, value: Value | None) -> Value | None:
    """A value of one element without dims."""
    if value is None or value.desc.shape == ():
        return value
    if value.desc.is_static and value.desc.elements != 1:
        raise e.invalid(f'"{value.name}" has {value.desc.elements} elements, one is wanted')
    if value.tensor is not None:
        return e.const(value.array.reshape(()), value.desc.dtype)
    return e.scalar(value)


@contrib("Pad", "data pads value?", "mode:s")
def pad(e: Expansion) -> Value:
    """Pad, whose pads may be a matrix of one row and whose value a list of one."""
    return e.op(
        "Pad",
        e.operand("data"),
        e.reshape(e.operand("pads"), (-1,)),
        as_scalar(e, e.input("value")),
        **e.node.attrs,
    )


@contrib("Unique", "x", outputs=(3, 3))
def unique(e: Expansion) -> Sequence[Value]:
    """Unique in the order of first occurrence, without the indices of the first occurrences."""
    y, _, inverse, counts = e.ops("Unique", e.operand("x"), outputs=4, sorted=0)
    return [y, inverse, counts]


@contrib("ExpandDims", "X axis")
def expand_dims(e: Expansion) -> Value:
    """Unsqueeze of one axis."""
    axis = e.cast(e.reshape(e.operand("axis"), (1,)), DType.INT64)
    return e.op("Unsqueeze", e.operand("X"), axis)


@contrib("Trilu", "X k?", "upper:i")
def trilu(e: Expansion) -> Value:
    """As in the standard."""
    return e.op("Trilu", e.operand("X"), e.input("k"), **e.node.attrs)


@contrib("GatherND", "data indices")
def gather_nd(e: Expansion) -> Value:
    """As in the standard, which wants indices of 64 bits."""
    indices = e.cast(e.operand("indices"), DType.INT64)
    return e.op("GatherND", e.operand("data"), indices)


@contrib("Range", "start limit delta?")
def number_range(e: Expansion) -> Value:
    """Range, whose numbers may be lists of one."""
    start = e.operand("start")
    delta = as_scalar(e, e.input("delta")) or e.like(1, start)
    return e.op("Range", as_scalar(e, start), as_scalar(e, e.operand("limit")), delta)


@contrib("GridSample", "X Grid", "align_corners:i mode:s padding_mode:s")
def grid_sample(e: Expansion) -> Value:
    """As in the standard since opset 20, under its older names of the modes."""
    modes = {"bilinear": "linear", "bicubic": "cubic"}
    mode = e.node.str_attr("mode", "bilinear")
    attrs = {**e.node.attrs, "mode": modes.get(mode, mode)}
    return e.op("GridSample", e.operand("X"), e.operand("Grid"), **attrs)


@contrib("TorchEmbedding", "weight indices padding_idx? scale_grad_by_freq?")
def torch_embedding(e: Expansion) -> Value:
    """Gather of rows; the other inputs serve training."""
    return e.op("Gather", e.operand("weight"), e.operand("indices"), axis=0)


@contrib("UnfoldTensor", "input", "dim:i size:i! step:i")
def unfold_tensor(e: Expansion) -> Value:
    """All windows of `size` along an axis, `step` apart; the positions in a window are the last axis."""
    x = e.operand("input")
    rank, size, step = e.rank_of(x), e.count("size"), e.count("step", 1)
    axis = e.axis("dim", -1, rank)
    limit = e.scalar(e.op("Sub", e.dim(x, axis), e.const(size - 1)))
    starts = e.op("Range", e.const(0), limit, e.const(step))
    positions = e.op("Add", e.unsqueeze(starts, 1), e.iota(e.const([size])))
    windows = e.op("Gather", x, positions, axis=axis)
    return e.transpose(windows, (*(a for a in range(rank + 1) if a != axis + 1), axis + 1))


@contrib("SampleOp", "X")
def sample_op(e: Expansion) -> Value:
    """X itself: the op that ONNX Runtime shows how to write one with."""
    return e.operand("X")


@contrib("Rfft", "X", "normalized:i onesided:i signal_ndim:i")
def rfft(e: Expansion) -> Value:
    """The half of DFT that a real signal has, along the last axis; complex numbers are pairs."""
    if e.node.int_attr("signal_ndim", 1) != 1 or not e.node.int_attr("onesided", 1):
        raise e.unsupported("signal_ndim is not 1, or onesided is 0", "ONNX Runtime does not know it, either")
    e.refuse_attrs("normalized", "ONNX Runtime does not know it, either")
    signal = e.unsqueeze(e.operand("X"), -1)
    return e.op("DFT", signal, None, e.const(-2), onesided=1)


@contrib("ComplexMul", "A B")
def complex_mul(e: Expansion) -> Value:
    """(a + i·b) · (c + i·d) of pairs along the last axis."""
    return _complex_product(e, conjugated=False)


@contrib("ComplexMulConj", "A B")
def complex_mul_conj(e: Expansion) -> Value:
    """(a + i·b) · (c − i·d)"""
    return _complex_product(e, conjugated=True)


def _complex_product(e: Expansion, *, conjugated: bool) -> Value:
    a, b = e.ops("Split", e.operand("A"), outputs=2, axis=-1, num_outputs=2)
    c, d = e.ops("Split", e.operand("B"), outputs=2, axis=-1, num_outputs=2)
    real = e.op("Add" if conjugated else "Sub", e.op("Mul", a, c), e.op("Mul", b, d))
    imaginary = e.op("Sub" if conjugated else "Add", e.op("Mul", b, c), e.op("Mul", a, d))
    return e.op("Concat", real, imaginary, axis=-1)

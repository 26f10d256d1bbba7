"""How the constant weights of a Conv, ConvTranspose, Gemm or MatMul take in factors and terms of each channel.

W · (k · x + c) + b = (W · k) · x + (W · c + b)        k · (W · x + b) + c = (k · W) · x + (k · b + c)

All is computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from atcpy.ir import Match, Node, Reject, Rewriter, Value
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, op_types
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.passes.affine import Affine, affine_of, affine_requirements
from atcpy.passes.broadcast import reaches_last_only, spread_over_last
from atcpy.passes.folding import SMALL_BYTES

CONVS, MATRICES = op_types(Trait.CONVOLUTION), op_types(Trait.MATRIX_PRODUCT)


def lender(m: Match) -> Value:
    """The constant whose name a new bias takes over: the old bias, or one of the node `affine`."""
    own = [value for key, value in m.values.items() if key.startswith("affine.") and value is not None]
    return m.get("b") or m.get("affine.beta") or own[0]


def input_affine(m: Match) -> Affine | None:
    """Return the map that the node `affine` applies to the channels that the product reads."""
    return _affine_of(m, channels_of(m.node("cube"))[0])


def output_affine(m: Match) -> Affine | None:
    """Return the map that the node `affine` applies to the channels that the product makes."""
    return _affine_of(m, channels_of(m.node("cube"))[1])


def _affine_of(m: Match, channels: int) -> Affine | None:
    if m.node("cube").op_type in CONVS:
        rank = len(m["w"].desc.static_shape)
        return affine_of(m, channels, rank - 2, rank)
    shape = m["x"].desc.shape
    return None if shape is None else affine_of(m, channels, 0, len(shape))


def product_requirements(m: Match, find_affine: Callable[[Match], Affine | None]) -> Iterator[Reject]:
    """Yield the reasons against taking the node `affine` into the weights and the bias of the product."""
    node = m.node("cube")
    rejects = list(matrix_requirements(m)) if node.op_type in MATRICES else []
    yield from rejects
    if rejects:
        return
    affine = m.once(find_affine)
    rejects = list(affine_requirements(m.node("affine"), affine))
    yield from rejects
    if affine is not None and not rejects:
        yield from factor_requirements(m, bool((affine.k != 1).any()))
    rank = len(m["x"].desc.shape or ())
    needs_gemm = (affine is not None and not affine.is_scale) or m.node("affine").op_type == "BatchNormalization"
    if node.op_type in MATRICES and rank != 2 and needs_gemm:
        yield Reject("rank", m.root.name, str(rank))


def matrix_requirements(m: Match) -> Iterator[Reject]:
    """Yield the reasons why the weights are no matrix, or the bias not one number a column."""
    node = m.node("cube")
    if len(m["w"].desc.static_shape) != 2:
        yield Reject("weights-not-a-matrix", node.name)
        return
    b, columns = m.get("b"), channels_of(node)[1]
    if b is not None and not reaches_last_only(b, (columns,)):
        yield Reject("not-per-channel", b.name)


def factor_requirements(m: Match, is_scaled: bool) -> Iterator[Reject]:
    """Reasons against other weights and another bias for a product."""
    node, w = m.node("cube"), m["w"]
    if not w.desc.dtype.is_float:
        yield Reject("dtype", node.name, w.desc.dtype.long)
    elif is_scaled and w.desc.dtype in HALF_DTYPES:
        yield Reject("weights-rounded", m.root.name, w.desc.dtype.long)
    elif is_scaled and w.use_count > 1 and w.desc.nbytes > SMALL_BYTES:
        yield Reject("shared-weights", w.name, f"{w.desc.nbytes} bytes")


def weights_of(node: Node) -> Array:
    """The weights of a product as group × output channel × input channel × tap, in float64; a new array."""
    w = node.operand(1).array
    if node.op_type in MATRICES:
        outputs_first = w if node.int_attr("transB", 0) else w.swapaxes(0, 1)
        return outputs_first[None, ..., None].astype(np.float64)
    group = node.int_attr("group", 1)
    grouped = w.reshape(group, w.shape[0] // group, w.shape[1], -1)
    return (grouped if node.op_type == "Conv" else grouped.swapaxes(1, 2)).astype(np.float64)


def as_weights(node: Node, w: Array) -> Array:
    """Group × output channel × input channel × tap as the node's weights lie."""
    if node.op_type in MATRICES:
        return w[0, ..., 0] if node.int_attr("transB", 0) else w[0, ..., 0].swapaxes(0, 1)
    ordered = w if node.op_type == "Conv" else w.swapaxes(1, 2)
    return ordered.reshape(node.operand(1).desc.static_shape)


def channels_of(node: Node) -> tuple[int, int]:
    """How many channels a product with constant weights reads and makes."""
    shape = node.operand(1).desc.static_shape
    if node.op_type in MATRICES:
        return (shape[1], shape[0]) if node.int_attr("transB", 0) else (shape[0], shape[1])
    group = node.int_attr("group", 1)
    return (shape[1] * group, shape[0]) if node.op_type == "Conv" else (shape[0], shape[1] * group)


def alpha_of(node: Node) -> float:
    """Return the factor of a product: Gemm's alpha."""
    return node.float_attr("alpha", 1.0) if node.op_type == "Gemm" else 1.0


def bias_of(m: Match) -> Array:
    """Return what the product adds to each channel, Gemm's beta included, in float64; zeros without a bias."""
    b, node = m.get("b"), m.node("cube")
    channels = channels_of(node)[1:]
    if b is None:
        return np.zeros(channels)
    beta = node.float_attr("beta", 1.0) if node.op_type == "Gemm" else 1.0
    return spread_over_last(b, channels).astype(np.float64) * beta


def insert_product(m: Match, rw: Rewriter, w: Array | None, bias: Array | Value | None) -> Value:
    """Create the product with other weights, alpha included, and another bias, or none. None keeps the weights."""
    node = m.node("cube")
    weights = m["w"] if w is None else rw.const(as_weights(node, w), like=m["w"])
    if isinstance(bias, np.ndarray):
        own = m["x"] if node.op_type in MATRICES else m["w"]  # weights of Gemm may have 16 bits while its bias has not
        bias = rw.const(bias, like=lender(m), dtype=own.desc.dtype)
    if node.op_type in CONVS:
        return rw.op(node.op_type, m["x"], weights, bias, **node.attrs)
    attrs = {name: value for name in ("transA", "transB") if (value := node.int_attr(name, 0))}
    return rw.op(node.op_type if bias is None else "Gemm", m["x"], weights, bias, **attrs)


def scale_outputs(w: Array, k: Array) -> Array:
    """k · W"""
    return w * k.reshape(w.shape[0], w.shape[1], 1, 1)


def scale_inputs(w: Array, k: Array) -> Array:
    """W · k"""
    return w * k.reshape(w.shape[0], 1, w.shape[2], 1)


def response(w: Array, c: Array) -> Array:
    """W · c: what each output channel makes of an input that is c everywhere."""
    return np.ravel(scale_inputs(w, c).sum(axis=(2, 3)))

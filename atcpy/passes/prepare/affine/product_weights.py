"""How the constant weights of a Conv, ConvTranspose, Gemm or MatMul take in factors and terms of each channel.

W · (k · x + c) + b = (W · k) · x + (W · c + b)        k · (W · x + b) + c = (k · W) · x + (k · b + c)

All is computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Node, Reject, Value
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, op_types
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.passes.affine import Affine, affine_requirements
from atcpy.passes.folding import SMALL_BYTES

CONVS, MATRICES = op_types(Trait.CONVOLUTION), op_types(Trait.MATRIX_PRODUCT)


def lender(m: Match) -> Value:
    """The constant whose name a new bias takes over: the old bias, or one of the node `affine`."""
    own = [value for key, value in m.values.items() if key.startswith("affine.") and value is not None]
    return m.get("b") or m.get("affine.beta") or own[0]


def weight_requirements(m: Match, affine: Affine | None) -> Iterator[Reject]:
    """Reasons against taking the node `affine` into the weights and the bias of the product."""
    rejects = list(affine_requirements(m.node("affine"), affine))
    yield from rejects
    if affine is not None and not rejects:
        yield from factor_requirements(m, bool((affine.k != 1).any()))


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


def scale_outputs(w: Array, k: Array) -> Array:
    """k · W"""
    return w * k.reshape(w.shape[0], w.shape[1], 1, 1)


def scale_inputs(w: Array, k: Array) -> Array:
    """W · k"""
    return w * k.reshape(w.shape[0], 1, w.shape[2], 1)


def response(w: Array, c: Array) -> Array:
    """W · c: what each output channel makes of an input that is c everywhere."""
    return np.ravel(scale_inputs(w, c).sum(axis=(2, 3)))

"""Int4MatMul(x, w, scales, zeros?) {N, K, block_size, digits}: x by a matrix of 4 bits with a scale a block of k.

The operands lie as the kernel `int4_matmul` reads them: w [⌈N/16⌉, blocks · block_size/8, 16, 4] bytes, scales and
zeros [⌈N/16⌉, blocks, 16]. `digits` says into how many signed bytes a number of x is split: three are as exact as
float32, one is what models that ask for 8 bits get.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from atcpy.ir import DType, Engine, Node, Reject, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, register_operator

PANEL = 16
STEP_BYTES = 4  # of eight k
MAX_BLOCK = 1024


def pack_weights(w: Array) -> Array:
    """Order [N, blocks, bytes] by panels of columns; two neighbours along k share a byte, the first in its low half."""
    steps = _in_panels(w.reshape(w.shape[0], -1, STEP_BYTES))
    return np.ascontiguousarray(steps.transpose(0, 2, 1, 3))


def pack_steps(steps: Array) -> Array:
    """Order scales or zero points, [N, blocks], by panels of columns."""
    return np.ascontiguousarray(_in_panels(steps).transpose(0, 2, 1))


def _in_panels(array: Array) -> Array:
    """[N, …] as [⌈N/16⌉, 16, …], with zeros behind N."""
    padding = [(0, -array.shape[0] % PANEL), *[(0, 0)] * (array.ndim - 1)]
    return np.pad(array, padding).reshape(-1, PANEL, *array.shape[1:])


def infer_int4_matmul(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The left operand's shape, N in the place of K."""
    shape = node.operand(0).desc.shape
    return [TensorDesc.plain(DType.FLOAT32, None if shape is None else (*shape[:-1], node.int_attr("N", 0)))]


def evaluate_int4_matmul(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The product with the weights as floats, whatever `digits` says."""
    x, w, scales, zeros = (*arrays, None)[:4]
    assert x is not None and w is not None and scales is not None
    panels = w.shape[0]
    numbers = np.stack([w & 15, w >> 4], axis=-1).astype(np.float32)  # [panels, steps, 16, 4, 2]
    blocks = numbers.transpose(0, 2, 1, 3, 4).reshape(panels, PANEL, scales.shape[1], -1)
    shifts = np.float32(8) if zeros is None else zeros.transpose(0, 2, 1)[..., None].astype(np.float32)
    wide = ((blocks - shifts) * scales.transpose(0, 2, 1)[..., None]).reshape(panels * PANEL, -1)
    return [np.asarray(x @ wide[: node.int_attr("N", 0), : x.shape[-1]].T)]


def supports_int4_matmul(node: Node) -> Iterable[Reject]:
    """Every size is known."""
    if not node.operand(0).desc.is_static:
        yield Reject("shape-unknown", node.name)


def lower_int4_matmul(node: Node) -> Iterable[KernelCall]:
    """One launch of `int4_matmul`; all dims but the last are rows."""
    m = prod(node.operand(0).desc.static_shape[:-1])
    attrs = {"k": "K", "n": "N", "block": "block_size", "digits": "digits"}
    params = {name: node.int_attr(attr, 0) for name, attr in attrs.items()}
    yield KernelCall("int4_matmul", (*node.inputs, None)[:4], (node.output,), {"m": m, **params})


def count_multiplications(node: Node) -> int:
    """Each element of the result is a sum over K."""
    return node.output.desc.elements * node.int_attr("K", 0)


register_operator(
    OpDef(
        name="Int4MatMul",
        infer=infer_int4_matmul,
        evaluate=evaluate_int4_matmul,
        engines={Engine.AICORE: supports_int4_matmul},
        lower=lower_int4_matmul,
        multiplications=count_multiplications,
    )
)

"""Random numbers that seeds decide, as TensorFlow draws them: Philox4x32-10, in numpy on the host.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). Each block of a counter of 128 bits
is four words. Uniform numbers and integers have TensorFlow's bits; normal ones differ by the last bits of sines and
logarithms. Equal seeds give equal numbers, so that constants are folded as those of other ops are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Sym, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import Known, OpDef, always, register_operator

DOMAIN = "atcpy.random"
_Words = npt.NDArray[np.uint32]
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_SCRAMBLING_KEY = 0x02461E293EC8F720  # by which TensorFlow makes a key and a counter of two seeds
_SMALLEST = 1e-7  # of the uniform number whose logarithm is taken
_MASK = 2**32 - 1
_MAX_ELEMENTS = 2**31


def philox(counters: _Words, key: int) -> _Words:
    """Return the blocks [N, 4] of counters [N, 4], lowest word first, under a key of 64 bits."""
    c0, c1, c2, c3 = counters.astype(np.uint64).T
    k0, k1 = key & _MASK, key >> 32
    low = np.uint64(_MASK)
    for _ in range(_ROUNDS):
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (product1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            product1 & low,
            (product0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            product0 & low,
        )
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK, (k1 + _KEY_STEPS[1]) & _MASK
    return np.stack([c0, c1, c2, c3], 1).astype(np.uint32)


def _draw(key: int, counter: int, blocks: int) -> _Words:
    """The words [blocks, 4] from a counter of 128 bits on."""
    counters = np.empty((blocks, 4), np.uint32)
    lows = np.uint64(counter & 2**64 - 1) + np.arange(blocks, dtype=np.uint64)
    high = counter >> 64
    highs = np.where(lows < np.uint64(counter & 2**64 - 1), np.uint64((high + 1) & 2**64 - 1), np.uint64(high))
    counters[:, 0], counters[:, 1] = lows & np.uint64(_MASK), lows >> np.uint64(32)
    counters[:, 2], counters[:, 3] = highs & np.uint64(_MASK), highs >> np.uint64(32)
    return philox(counters, key)


def _uniform(words: _Words, dtype: DType) -> Array:
    """Numbers in [0, 1) whose mantissas are the words, or pairs of them: [N, 4] or [N, 2]."""
    if dtype is DType.FLOAT32:
        return (words & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)
    low, high = words[:, 0::2].astype(np.uint64), words[:, 1::2].astype(np.uint64)
    bits = (high & np.uint64(0xFFFFF)) << np.uint64(32) | low | np.uint64(0x3FF0000000000000)
    return bits.view(np.float64) - 1.0


def _normal(words: _Words, dtype: DType) -> Array:
    """By Box and Muller, of pairs of uniform numbers: the sine first, then the cosine."""
    u = _uniform(words, dtype)
    radius = np.sqrt(-2 * np.log(np.maximum(u[:, 0::2], u.dtype.type(_SMALLEST))))
    angle = (2 * np.pi * u[:, 1::2].astype(np.float64)).astype(u.dtype)
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], -1).astype(u.dtype)


def _integers(words: _Words, low: int, high: int, dtype: DType) -> Array:
    """Numbers in [low, high): remainders of the words, or of pairs of them."""
    drawn = words if dtype.bits == 32 else np.ascontiguousarray(words).view(np.uint64)
    integers: Array = (drawn % drawn.dtype.type(high - low)).astype(dtype.numpy) + dtype.numpy.type(low)
    return integers


def infer_key(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The key [1] and the counter [2] of two seeds."""
    seed = node.operand(0).desc
    if seed.shape is not None and seed.is_static and seed.static_shape != (2,):
        raise ModelInvalid("E13014", f"a seed of shape {list(seed.static_shape)}: two integers are one", where=node)
    return [TensorDesc.plain(DType.UINT64, (1,)), TensorDesc.plain(DType.UINT64, (2,))]


def evaluate_key(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Scramble the seeds, so that no part of them is the strong one."""
    seeds = np.asarray(arrays[0]).astype(np.int64).view(np.uint64)
    mixed = philox(np.ascontiguousarray(seeds).view(np.uint32).reshape(1, 4), _SCRAMBLING_KEY).view(np.uint64)[0]
    return [mixed[:1], np.array([0, mixed[1]], np.uint64)]


def infer_draw(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The shape that input 0 says."""
    dims: tuple[Dim, ...] | None = known(node.operand(0))
    listed = node.operand(0).desc
    if dims is None and listed.is_static and len(listed.static_shape) == 1:
        dims = tuple(Sym(f"{node.output.name}.{axis}") for axis in range(listed.static_shape[0]))
    dtype = DType.from_onnx(node.int_attr("dtype", DType.FLOAT32.onnx))
    return [TensorDesc.plain(dtype, dims)]


def evaluate_draw(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """As many numbers as the shape says, from the counter on; of integers, the inputs 3 and 4 are the range."""
    shape = tuple(np.asarray(arrays[0]).tolist())
    count = int(np.prod(shape, dtype=np.float64))
    if min(shape, default=0) < 0 or count > _MAX_ELEMENTS:
        raise ModelInvalid("D0001", f"random numbers of shape {list(shape)}", where=node)
    key, (low, high) = int(np.asarray(arrays[1])[0]), np.asarray(arrays[2]).tolist()
    dtype, kind = node.output.desc.dtype, node.str_attr("kind", "uniform")
    per_block = 4 if dtype.bits == 32 else 2
    words = _draw(key, low | high << 64, -(-count // per_block))
    if kind == "integers":
        first, last = (int(np.asarray(array)) for array in arrays[3:5])
        if first >= last:
            raise ModelInvalid("D0001", f"random integers from {first} below {last}: there are none", where=node)
        drawn = _integers(words, first, last, dtype)
    else:
        drawn = _normal(words, dtype) if kind == "normal" else _uniform(words, dtype)
    return [drawn.reshape(-1)[:count].reshape(shape)]


_HOST = {Engine.HOST_CPU: always}
register_operator(OpDef(name="SeedKey", domain=DOMAIN, infer=infer_key, evaluate=evaluate_key, engines=_HOST))
register_operator(OpDef(name="PhiloxDraw", domain=DOMAIN, infer=infer_draw, evaluate=evaluate_draw, engines=_HOST))

"""Skip a Cast whose type holds every number that comes, since the next Cast then sees the same numbers.

Cast(Cast(x: f16 → f32) → i32)     →  Cast(x → i32)
Cast(Cast(x: f32 → f64) → f32)     →  x
Cast(Cast(x: i64 → i32) → i8)      →  Cast(x → i8)        the low bits are the low bits
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import DType, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import op, var
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase

# (bits that a number may have, the exponents of the smallest and of the largest)
_FLOATS = {
    DType.FLOAT16: (11, -24, 15),
    DType.BFLOAT16: (8, -133, 127),
    DType.FLOAT32: (24, -149, 127),
    DType.FLOAT64: (53, -1074, 1023),
}


class CastChain(Fusion, switch="CastChainFusionPass", phase=Phase.CLEAN_UP, after=("IdentityPass",), repeats=True):
    """Skip a Cast to a type that holds all numbers of the one before."""

    pattern = op("Cast", op("Cast", var("x"), name="first"), name="second")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        kinds = m["x"].desc.dtype, m.node("first").output.desc.dtype, m.node("second").output.desc.dtype
        if not holds(kinds[0], kinds[1]) and not _keeps_low_bits(*kinds):
            yield Reject("precision", m.node("first").name, " to ".join(kind.long for kind in kinds))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        second = m.node("second")
        if second.output.desc.dtype is m["x"].desc.dtype:
            return m["x"]
        return rw.op("Cast", m["x"], **second.attrs)


def holds(kind: DType, wide: DType) -> bool:
    """Does a type hold every number of another?"""
    if kind is wide or (kind is DType.BOOL and (wide.is_int or wide in _FLOATS)):
        return True
    if kind in _FLOATS and wide in _FLOATS:
        (bits, low, high), (room, wide_low, wide_high) = _FLOATS[kind], _FLOATS[wide]
        return bits <= room and low >= wide_low and high <= wide_high
    if not kind.is_int or kind.bits < 8:
        return False
    signed = kind.name.startswith("INT")
    if wide in _FLOATS:
        return kind.bits - signed <= min(_FLOATS[wide][0], _FLOATS[wide][2])
    if not wide.is_int or wide.bits <= kind.bits:
        return False
    return wide.name.startswith("INT") or not signed


def _keeps_low_bits(kind: DType, middle: DType, last: DType) -> bool:
    return all(item.is_int and item.bits >= 8 for item in (kind, middle, last)) and last.bits <= middle.bits

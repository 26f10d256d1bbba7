"""Compares two results: how far they differ, and whether that is too far.

    |actual - expected| <= atol + rtol · |expected|,   NaN equals NaN, an infinity equals itself

By default atol is a share of the output's scale, its largest finite magnitude: a ratio for each element would only show
how near to zero some element happens to be.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atcpy.errors import VerifyFailed, Where
from atcpy.ir import DType

Array = NDArray[Any]
Bounds = tuple[float, float]  # the absolute and the relative error that are allowed

# The share of the output's scale by element type; other types must be equal.
SCALE_SHARE = {
    DType.FLOAT64: 1e-9,
    DType.FLOAT32: 1e-4,
    DType.COMPLEX64: 1e-4,
    DType.COMPLEX128: 1e-9,
    DType.FLOAT16: 2e-3,
    DType.BFLOAT16: 1.6e-2,
}
# 8-bit results are rounded: two right computations may fall on either side of a half.
STEPS = 2  # of a quantised value: its own rounding, and one that it inherits
STEP = {DType.INT8: 1.0, DType.UINT8: 1.0}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerances that the user names, of all values or `by_type`; else it is the default by element type, plus
    `step`, that of a quantised output. A `precision` is the type of values that an output was computed from, if it is
    another than its own.
    """

    atol: float | None = None
    rtol: float | None = None
    cosine: float | None = None
    step: float = 0.0
    precision: DType | None = None
    by_type: Mapping[DType, Bounds] = field(default_factory=dict)

    def is_of_user(self, dtype: DType) -> bool:
        """Whether the user names a tolerance for values of a type."""
        return (self.atol, self.rtol, self.cosine) != (None, None, None) or dtype in self.by_type


@dataclass(frozen=True, slots=True)
class OutputReport:
    """One output compared; the fields are those of `verify --json`."""

    name: str
    dtype: str
    max_abs: float
    max_rel: float
    cosine: float
    ulp: int | None
    nan: int
    inf: int
    argmax_changed: bool
    atol: float
    rtol: float
    passed: bool
    why: str = ""
    code: str = "V0001"
    random: bool = False
    arbitrated: bool = False  # beyond the oracle's tolerance, but as near to float64 as the oracle is

    @property
    def is_float32(self) -> bool:
        """Whether a result in float64 is more exact than the oracle's."""
        return self.dtype == DType.FLOAT32.long

    def problem(self, hint: str) -> VerifyFailed | None:
        """The error for an output that failed."""
        if self.passed:
            return None
        return VerifyFailed(self.code, f'output "{self.name}" {self.why}', where=Where(value=self.name), hint=hint)


def compare(name: str, actual: Array, expected: Array, tolerance: Tolerance = Tolerance()) -> OutputReport:
    """Compare one output with the oracle's."""
    dtype = DType.from_numpy(expected.dtype)
    if actual.shape != expected.shape or DType.from_numpy(actual.dtype) is not dtype:
        actual_type, expected_type = (f"{DType.from_numpy(a.dtype).long}{list(a.shape)}" for a in (actual, expected))
        return _differs(name, dtype, f"is {actual_type}, the reference has {expected_type}")
    if dtype is DType.STRING:
        same = bool(np.array_equal(actual.astype(str), expected.astype(str)))
        return _equal(name, dtype) if same else _differs(name, dtype, "has other texts than the reference")
    return _compare_numbers(name, dtype, actual, expected, tolerance)


def compare_kind(name: str, actual: Array, expected: Array) -> OutputReport:
    """Compare the type and shape of an output that depends on a random op."""
    report = compare(name, np.zeros_like(actual), np.zeros_like(expected))
    return replace(report, random=True)


def compare_all(
    pairs: Iterable[tuple[str, Array, Array]],
    tolerance: Tolerance,
    *,
    random: Collection[str] = (),
    steps: Mapping[str, float] = MappingProxyType({}),
    precision: Mapping[str, DType] = MappingProxyType({}),
) -> tuple[OutputReport, ...]:
    """Compare outputs: of those that are `random` only the kind; quantised ones have `steps`, lowered ones a
    `precision`.
    """
    return tuple(
        compare_kind(name, actual, expected)
        if name.partition("[")[0] in random
        else compare(
            name, actual, expected, replace(tolerance, step=steps.get(name, 0.0), precision=precision.get(name))
        )
        for name, actual, expected in pairs
    )


def paired(names: Sequence[str], actual: Sequence[Any], expected: Sequence[Any]) -> Iterator[tuple[str, Array, Array]]:
    """The arrays to compare: each element of a sequence, keys and values of a map."""
    for name, a, e in zip(names, actual, expected, strict=True):
        if isinstance(e, list) and isinstance(a, list) and len(a) == len(e):
            yield from paired([f"{name}[{index}]" for index in range(len(e))], a, e)
        elif isinstance(e, dict) and isinstance(a, dict):
            for part, actual_items, expected_items in (
                ("keys", a.keys(), e.keys()),
                ("values", a.values(), e.values()),
            ):
                yield f"{name}[{part}]", np.array(list(actual_items)), np.array(list(expected_items))
        elif e is None and a is None:
            continue
        else:
            yield name, np.asarray(a), np.asarray(e)


def _equal(name: str, dtype: DType) -> OutputReport:
    return OutputReport(name, dtype.long, 0.0, 0.0, 1.0, 0, 0, 0, False, 0.0, 0.0, True)


def _differs(name: str, dtype: DType, why: str) -> OutputReport:
    return OutputReport(name, dtype.long, np.inf, np.inf, 0.0, None, 0, 0, False, 0.0, 0.0, False, why)


def _compare_numbers(name: str, dtype: DType, actual: Array, expected: Array, tolerance: Tolerance) -> OutputReport:
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    a, e = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(a) & np.isfinite(e)
    same = (np.isnan(a) & np.isnan(e)) | (a == e)
    error = np.where(finite, np.abs(np.where(finite, a, 0) - np.where(finite, e, 0)), 0.0)
    if not np.iscomplexobj(e) and dtype.is_int and dtype.bits == 64:
        same = actual == expected  # float64 does not tell neighbours of 2**53 apart
    magnitude = np.where(finite, np.abs(np.where(finite, e, 0)), 0.0)
    scale = float(magnitude.max(initial=0.0))
    atol, rtol = bounds(tolerance.precision or dtype, scale, tolerance)
    outside = ~same & (~finite | (error > atol + rtol * magnitude) | ((atol == 0) & (rtol == 0)))
    lost = outside & ~finite
    cosine = _cosine(a[finite], e[finite])
    argmax_changed = _argmax_changed(dtype, a, e)
    code, why = _verdict(outside, lost, a, error, atol, argmax_changed=argmax_changed)
    if not why and tolerance.cosine is not None and cosine < tolerance.cosine:
        why = f"has cosine {cosine:.6f} (at least {tolerance.cosine:g} is asked for)"
    large = (magnitude > 1e-3 * scale) & (magnitude > 0)  # the ratio to a value near zero has no meaning
    relative = np.divide(error, magnitude, out=np.zeros_like(error), where=large)
    return OutputReport(
        name=name,
        dtype=dtype.long,
        max_abs=float(error.max(initial=0.0)),
        max_rel=float(relative.max(initial=0.0)),
        cosine=cosine,
        ulp=_ulp(dtype, actual, expected, finite),
        nan=int(np.isnan(a).sum()),
        inf=int(np.isinf(a).sum()),
        argmax_changed=argmax_changed,
        atol=atol,
        rtol=rtol,
        passed=not why,
        why=why,
        code=code,
    )


def bounds(dtype: DType, scale: float, tolerance: Tolerance) -> Bounds:
    """The absolute and the relative error that are allowed in values of a type, the largest of which is `scale`."""
    if tolerance.atol is not None or tolerance.rtol is not None:
        return tolerance.atol or 0.0, tolerance.rtol or 0.0
    if dtype in tolerance.by_type:
        return tolerance.by_type[dtype]
    return STEP.get(dtype, SCALE_SHARE.get(dtype, 0.0) * scale) + STEPS * tolerance.step, 0.0


def _verdict(
    outside: Array, lost: Array, actual: Array, error: Array, atol: float, *, argmax_changed: bool
) -> tuple[str, str]:
    """Code and reason; no reason when all is within the bounds."""
    if lost.any():
        count = int(lost.sum())
        what = "NaN or infinity" if not np.isfinite(actual[lost]).any() else "finite values"
        where = "the reference has none" if what.startswith("NaN") else "the reference has NaN or infinity"
        return "V0002", f"has {what} in {count} of {lost.size} places where {where}"
    if outside.any():
        worst = float(error[outside].max())
        also = "; its most likely class changed" if argmax_changed else ""
        share = f"{int(outside.sum())} of {outside.size} elements"
        return "V0001", f"differs by {worst:.2g} (allowed {atol:.2g}) in {share}{also}"
    return "V0001", ""


def _cosine(a: Array, e: Array) -> float:
    if not a.size:
        return 1.0
    largest = max(float(np.abs(a).max()), float(np.abs(e).max()))
    if largest == 0:
        return 1.0
    a, e = a / largest, e / largest  # squares of float64's extremes would overflow
    norms = float(np.linalg.norm(a) * np.linalg.norm(e))
    return min(1.0, float(np.abs(np.vdot(a, e))) / norms) if norms else 0.0


def _argmax_changed(dtype: DType, a: Array, e: Array) -> bool:
    """Whether the index of the largest element along the last axis differs anywhere."""
    if not dtype.is_float or a.ndim == 0 or a.shape[-1] < 2 or not a.size or np.isnan(e).any():
        return False
    return bool((np.argmax(a, axis=-1) != np.argmax(e, axis=-1)).any())


def _ulp(dtype: DType, actual: Array, expected: Array, finite: Array) -> int | None:
    """The largest distance in representable numbers, for IEEE types of up to 32 bits."""
    if dtype not in (DType.FLOAT16, DType.FLOAT32):
        return None
    width = np.dtype(f"i{dtype.bits // 8}")
    lowest = -(1 << (dtype.bits - 1))
    bits = [np.ascontiguousarray(array[finite]).view(width).astype(np.int64) for array in (actual, expected)]
    # Signed magnitude to two's complement: neighbours across zero are neighbours.
    a, e = (np.where(bit < 0, lowest - bit, bit) for bit in bits)
    return int(np.abs(a - e).max(initial=0))

"""Are results those that a case asks for? As onnx.backend.test.runner compares, and stricter where that is lax."""

from __future__ import annotations

from typing import Any

import numpy as np

from atcpy.ir.tensor import Array

BFLOAT16_RTOL = 2.0**-6  # two units in the last place, as the runner of onnx has it


def difference(expected: Any, actual: Any, rtol: float, atol: float) -> str:
    """How two lists of results differ, in one line; empty if they agree in kind, type, shape and values."""
    if len(actual) != len(expected):
        return f"{len(actual)} results, {len(expected)} expected"
    for index, (want, have) in enumerate(zip(expected, actual, strict=True)):
        if text := _differs(want, have, rtol, atol):
            return f"result {index}: {text}"
    return ""


def _differs(want: Any, have: Any, rtol: float, atol: float) -> str:
    if want is None or have is None:
        return "" if want is None and have is None else f"{_kind(have)}, not {_kind(want)}"
    if isinstance(want, list):
        if not isinstance(have, list | tuple):
            return f"{_kind(have)}, not a sequence"
        return difference(want, have, rtol, atol)
    if isinstance(have, list | tuple):
        return "a sequence, not a tensor"
    want, have = np.asarray(want), np.asarray(have)
    if have.shape != want.shape:
        return f"shape {list(have.shape)}, not {list(want.shape)}"
    if want.dtype.kind in "OUST" or have.dtype.kind in "OUST":
        return _strings_differ(want, have)
    if have.dtype != want.dtype:
        return f"type {have.dtype}, not {want.dtype}"
    return _values_differ(want, have, rtol, atol)


def _values_differ(want: Array, have: Array, rtol: float, atol: float) -> str:
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, BFLOAT16_RTOL)
    if want.dtype.kind == "V" or want.dtype.name.startswith(("bfloat", "float8", "float4", "float6", "int", "uint")):
        # Types of ml_dtypes mix with no others; whole numbers of 64 bits stay whole.
        wide = want.dtype if want.dtype.itemsize == 8 else np.dtype(np.float64)
        want, have = want.astype(wide), have.astype(wide)
    if want.dtype.kind in "fc" or rtol:
        close = np.isclose(have, want, rtol=rtol, atol=atol, equal_nan=want.dtype.kind in "fc")
    else:
        close = have == want
    wrong = int(np.count_nonzero(~close))
    if not wrong:
        return ""
    index = np.unravel_index(int(np.argmax(~close)), want.shape)
    at = ",".join(str(int(i)) for i in index)
    return f"{wrong} of {want.size} elements, the first [{at}] is {have[index]}, not {want[index]}"


def _strings_differ(want: Array, have: Array) -> str:
    if have.dtype.kind not in "OUST" or want.dtype.kind not in "OUST":
        return f"type {have.dtype}, not {want.dtype}"
    texts = [[_text(item) for item in array.reshape(-1)] for array in (want, have)]
    return "" if texts[0] == texts[1] else f"{texts[1][:3]}, not {texts[0][:3]}"


def _text(item: Any) -> str:
    return item.decode("utf-8") if isinstance(item, bytes) else str(item)


def _kind(item: Any) -> str:
    if item is None:
        return "nothing"
    return "a sequence" if isinstance(item, list | tuple) else "a tensor"

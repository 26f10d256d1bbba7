"""Outputs of a run in figures, for people and for `--json`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.errors import AtcError, VerifyFailed, group
from atcpy.ir import DType
from atcpy.report.units import shape as shape_text

if TYPE_CHECKING:
    from atcpy.verify.inputs import Array

_FIRST_VALUES = 5


def describe(name: str, array: "Array", path: str | None) -> dict[str, Any]:
    """An output in figures."""
    dtype = DType.from_numpy(array.dtype)
    record: dict[str, Any] = {"name": name, "dtype": dtype.long, "shape": list(array.shape)}
    record |= {"min": None, "max": None, "mean": None, "nan": 0, "inf": 0, "path": path}
    if dtype is DType.STRING or dtype in (DType.COMPLEX64, DType.COMPLEX128):
        return record
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size:
        record |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
    return record | {"nan": int(np.isnan(wide).sum()), "inf": int(np.isinf(wide).sum())}


def best_classes(array: "Array", classes: Sequence[str], count: int) -> list[dict[str, Any]]:
    """The classes with the highest scores, of the first row."""
    scores = array.reshape(-1, len(classes))[0]
    order = np.argsort(-scores.astype(np.float64), kind="stable")[:count]
    return [{"label": classes[i], "index": int(i), "score": float(scores[i])} for i in order]


def lines(records: Sequence[dict[str, Any]], arrays: "dict[str, Array]") -> Iterator[str]:
    """A line an output, and what belongs to it."""
    for record, array in zip(records, arrays.values(), strict=True):
        figures = "  ".join(f"{key} {record[key]:.6g}" for key in ("min", "max", "mean") if record[key] is not None)
        odd = "".join(f"  {key} {record[key]}" for key in ("nan", "inf") if record[key])
        head = f"{record['name']}  {record['dtype']} {shape_text(record['shape'])}"
        yield f"{head}  {figures}{odd}   {_first(array)}".rstrip()
        for rank, best in enumerate(record.get("top", ()), 1):
            yield f"  {rank}  {best['label']}  {best['score']:.6g}"
        if record["path"]:
            yield f"  written to {record['path']}"


def _first(array: "Array") -> str:
    values = array.reshape(-1)[: _FIRST_VALUES + 1].tolist()
    shown = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values[:_FIRST_VALUES])
    return f"[{shown}{', …' if len(values) > _FIRST_VALUES else ''}]"


def not_finite(records: Sequence[dict[str, Any]]) -> AtcError | None:
    """V0002 for each output that holds NaN or infinity."""
    problems = [
        VerifyFailed("V0002", f'output "{r["name"]}" has {r["nan"]} NaN and {r["inf"]} infinities')
        for r in records
        if r["nan"] or r["inf"]
    ]
    return group(problems) if problems else None

"""Inputs for a model, and the distance between two sets of outputs."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Feeds = dict[str, Array]

DEFAULT_BELOW: Final = 2  # 0 and 1 are valid as ids, masks and booleans alike


def feeds_for(path: Path, seed: int = 0) -> Feeds:
    """Returns fixed inputs, others for each `seed`: noise of unit variance, integers in [0, below); unknown dimensions
    count as 1.

    `models/make_models.py` records `below:NAME` in the model's metadata.
    """
    # Imported here, since measured processes import this module and should not load what they do not use.
    import onnx

    model = onnx.load(path, load_external_data=False)
    metadata = {prop.key: prop.value for prop in model.metadata_props}
    weights = {weight.name for weight in model.graph.initializer}
    feeds: Feeds = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        shape = [max(dim.dim_value, 1) for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        rng = np.random.default_rng(zlib.crc32(value.name.encode()) + seed)
        if np.issubdtype(dtype, np.floating):
            feeds[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            feeds[value.name] = rng.integers(
                int(metadata.get(f"below:{value.name}", DEFAULT_BELOW)), size=shape
            ).astype(dtype)
    return feeds


def load_feeds(model: Path, folder: Path | None) -> Feeds:
    """Feeds from `<folder>/<model>.npz`, or the `in/` arrays of a `<model>.*.npz`; random without such a file."""
    found = sorted(folder.glob(f"{model.stem}.*npz")) if folder is not None else []
    if not found:
        return feeds_for(model)
    with np.load(found[-1]) as archive:
        inputs = [name for name in archive.files if name.startswith("in/")]
        return {name.removeprefix("in/"): archive[name] for name in inputs or archive.files}


def save_arrays(path: Path, arrays: Sequence[Array]) -> None:
    """Writes arrays by index, since an output's name may not be a valid file name."""
    np.savez(path, *arrays)


def load_arrays(path: Path) -> list[Array]:
    """Returns the arrays of `save_arrays` in their order."""
    with np.load(path) as archive:
        return [archive[f"arr_{index}"] for index in range(len(archive.files))]


def relative_error(outputs: Sequence[Array], expected: Sequence[Array]) -> float:
    """Returns the largest error over the largest magnitude of its output, or infinity if shapes or NaNs differ.

    Per-element relative errors would only show how near to zero some element happens to be.
    """
    if [array.shape for array in outputs] != [array.shape for array in expected]:
        return float("inf")
    return max(map(_relative_error, outputs, expected), default=0.0)


def _relative_error(output: Array, expected: Array) -> float:
    is_finite = np.isfinite(expected)
    if not np.array_equal(np.isfinite(output), is_finite):
        return float("inf")
    exact = expected[is_finite].astype(np.float64)
    if not exact.size:
        return 0.0
    largest = float(np.abs(output[is_finite].astype(np.float64) - exact).max())
    return largest / max(float(np.abs(exact).max()), 1e-30)

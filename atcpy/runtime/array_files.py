"""Arrays as files of numpy."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from atcpy.om.atomic import atomic_write

if TYPE_CHECKING:
    from atcpy.ir.tensor import Array


def save_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """All arrays in one file, under their own names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            # numpy.savez cannot: an output may be called `file`.
            with archive.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=True) as member:
                write_array(member, array)
    atomic_write(path, [buffer.getbuffer()])


def write_array(file: IO[bytes], array: Array) -> None:
    """The content of a `.npy`; strings as numpy's own type, which needs no pickle."""
    plain = array.astype(str) if array.dtype == object else np.ascontiguousarray(array).reshape(array.shape)
    np.lib.format.write_array(file, plain, allow_pickle=False)

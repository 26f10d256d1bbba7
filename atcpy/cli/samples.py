"""Calibration samples of `atcpy quantize`: a folder or a file of arrays or pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from atcpy.cli.arrays import load_npy, load_npz, read_image
from atcpy.errors import UsageError, Where, did_you_mean, raise_os_error
from atcpy.quantization.samples import Sample
from atcpy.verify.inputs import Array, Feeds, Port

PICTURES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp"})


@dataclass(frozen=True, slots=True)
class PictureSettings:
    """How pictures become arrays, as the options of `atcpy run` say."""

    mean: str | None = None
    std: str | None = None
    layout: str = "NCHW"


def read_samples(path: str, pictures: PictureSettings, ports: Sequence[Port]) -> list[Sample]:
    """The samples in a folder, in the order of their names, or those in one file. Raises UsageError for a path that has
    none, and for a file that is none; hidden files are left out.
    """
    files = _files(Path(path))
    if not files:
        where = Where(option="calibrate", file=path)
        hint = "put .npz files, .npy files or pictures there"
        raise UsageError("E10054", f"{path} has no samples to calibrate with", where=where, hint=hint)
    return [sample for file in files for sample in _samples_of(file, pictures, ports)]


def _files(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            path.stat()
            return [path]
        return sorted(file for file in path.iterdir() if not file.name.startswith("."))
    except FileNotFoundError as error:
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        hint = did_you_mean(path.name, [entry.name for entry in beside])
        where = Where(option="calibrate", file=str(path))
        raise UsageError("E10410", f"{path} does not exist", where=where, hint=hint) from error
    except OSError as error:
        raise_os_error(error, str(path))


def _samples_of(file: Path, pictures: PictureSettings, ports: Sequence[Port]) -> Iterator[Sample]:
    kind, name = file.suffix.lower(), str(file)
    if kind == ".npz":
        yield from _rows(name, load_npz(name), ports)
    elif kind == ".npy":
        yield from _rows(name, {_only_input(ports, name).name: load_npy(name)}, ports)
    elif kind in PICTURES:
        yield Sample(name, partial(_read_picture, _only_input(ports, name), name, pictures))
    else:
        what = f"{name} is no sample"
        hint = "samples are .npz, .npy, .png, .jpg, .bmp or .webp files: move others out of the folder"
        raise UsageError("E13005", what, where=Where(file=name), hint=hint)


def _read_picture(port: Port, path: str, pictures: PictureSettings) -> Feeds:
    return {port.name: read_image(port, path, mean=pictures.mean, std=pictures.std, layout=pictures.layout)}


def _only_input(ports: Sequence[Port], file: str) -> Port:
    if len(ports) != 1:
        what = f"{file} is one array, and the model has {len(ports)} inputs"
        hint = "save them together: numpy.savez(file, " + ", ".join(f"{port.name}=…" for port in ports) + ")"
        raise UsageError("E10401", what, where=Where(file=file), hint=hint)
    return ports[0]


def _rows(file: str, arrays: Feeds, ports: Sequence[Port]) -> Iterator[Sample]:
    """One sample, or one for each index of an axis that all arrays have in front of the model's."""
    ranks = {port.name: len(port.shape) for port in ports}
    lengths = {array.shape[0] for name, array in arrays.items() if array.ndim == ranks.get(name, -2) + 1}
    has_rows = arrays and all(array.ndim == ranks.get(name, -2) + 1 for name, array in arrays.items())
    if not has_rows:
        yield Sample(file, lambda: arrays)
        return
    if len(lengths) > 1:
        counts = ", ".join(f"{name} {array.shape[0]}" for name, array in arrays.items())
        what = f"{file}: its arrays have different numbers of samples"
        raise UsageError("E10405", what, where=Where(file=file), why=counts, hint="save as many of each")
    for row in range(lengths.pop()):
        yield Sample(f"{file}[{row}]", partial(_row, arrays, row))


def _row(arrays: Feeds, row: int) -> dict[str, Array]:
    return {name: array[row] for name, array in arrays.items()}

"""Calibration samples: what is read from files, what is refused, and which are held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from atcpy.cli.samples import PictureSettings, read_samples
from atcpy.errors import AtcError
from atcpy.ir import DType
from atcpy.quantization.samples import Sample, check_samples, divide
from atcpy.verify.inputs import Port

X = Port("x", DType.FLOAT32, (2, 3))
IDS = Port("ids", DType.INT64, ("N",))
PICTURE = Port("x", DType.FLOAT32, (1, 3, 4, 4))


def arrays(rows: int = 1) -> Any:
    return np.arange(rows * 6, dtype=np.float32).reshape(rows, 2, 3)


def read(path: Path, *ports: Port, settings: PictureSettings = PictureSettings()) -> list[dict[str, Any]]:  # noqa: B008
    return [sample.load() for sample in read_samples(str(path), settings, ports)]


def test_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", arrays()[0] + 1)
    np.savez(tmp_path / "a.npz", x=arrays()[0])
    (tmp_path / ".hidden").touch()
    first, second = read(tmp_path, X)
    np.testing.assert_array_equal(first["x"] + 1, second["x"])


def test_an_axis_in_front_counts_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=arrays(4), ids=np.arange(20).reshape(4, 5))
    samples = read(tmp_path / "a.npz", X, IDS)
    assert [sample["ids"].tolist() for sample in samples] == np.arange(20).reshape(4, 5).tolist()
    np.testing.assert_array_equal(samples[3]["x"], arrays(4)[3])
    assert read_samples(str(tmp_path / "a.npz"), PictureSettings(), (X, IDS))[2].name.endswith("a.npz[2]")


def test_pictures_are_read_as_run_reads_them(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4), (10, 20, 30)).save(tmp_path / "p.png")
    [sample] = read(tmp_path, PICTURE, settings=PictureSettings("10", "2"))
    np.testing.assert_array_equal(sample["x"][0, :, 0, 0], [0, 5, 10])


def write(folder: Path, **values: Any) -> None:
    np.savez(folder / "a.npz", **values)


@pytest.mark.parametrize(
    ("values", "code", "what"),
    [
        ({"x": arrays()[0], "ids": np.arange(2), "y": np.zeros(1)}, "E10404", 'no input "y"'),
        ({"x": arrays()[0]}, "E10401", 'no value for input "ids"'),
        ({"x": arrays()[0].astype(np.float64), "ids": np.arange(2)}, "E10403", '"x" is float64'),
        ({"x": np.zeros((2, 3, 1, 1), np.float32), "ids": np.arange(2)}, "E10402", "4 dimensions"),
        ({"x": np.zeros((2, 4), np.float32), "ids": np.arange(2)}, "E10405", r"the shape \[2,4\]"),
        ({"x": np.full((2, 3), np.nan, np.float32), "ids": np.arange(2)}, "E13025", "NaN or infinity"),
        ({"x": arrays(2), "ids": np.zeros((3, 1), np.int64)}, "E10405", "different numbers of samples"),
    ],
)
def test_arrays_that_the_model_does_not_take(values: Any, code: str, what: str, tmp_path: Path) -> None:
    write(tmp_path, **values)
    with pytest.raises(AtcError, match=what) as caught:
        check_samples(read_samples(str(tmp_path), PictureSettings(), (X, IDS)), (X, IDS))
    assert caught.value.code == code
    assert caught.value.where.file.startswith(str(tmp_path / "a.npz"))
    assert caught.value.hint


def test_all_bad_samples_are_named() -> None:
    bad = [Sample(f"s{number}", lambda: {"x": np.zeros((2, 4), np.float32)}) for number in range(3)]
    with pytest.raises(AtcError) as caught:
        check_samples(bad, [X])
    assert [problem.where.file for problem in caught.value.problems] == ["s0", "s1", "s2"]


def test_one_size_for_a_name_of_a_dim() -> None:
    ports = [IDS, Port("mask", DType.INT64, ("N",))]
    check_samples([Sample("s", lambda: {"ids": np.arange(4), "mask": np.arange(4)})], ports)
    with pytest.raises(AtcError, match='"mask" has the shape'):
        check_samples([Sample("s", lambda: {"ids": np.arange(4), "mask": np.arange(5)})], ports)


@pytest.mark.parametrize(
    ("name", "ports", "code"),
    [("notes.txt", (X,), "E13005"), ("a.npy", (X, IDS), "E10401"), ("p.png", (X, IDS), "E10401"), ("", (X,), "E10054")],
)
def test_folders_that_are_refused(name: str, ports: tuple[Port, ...], code: str, tmp_path: Path) -> None:
    if name.endswith(".npy"):
        np.save(tmp_path / name, arrays()[0])
    elif name:
        (tmp_path / name).touch()
    with pytest.raises(AtcError) as caught:
        read(tmp_path, *ports)
    assert caught.value.code == code
    assert caught.value.hint


def test_the_nearest_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    with pytest.raises(AtcError) as caught:
        read(tmp_path / "sample", X)
    assert (caught.value.code, caught.value.hint) == ("E10410", 'did you mean "samples"?')


def test_no_samples_in_memory() -> None:
    with pytest.raises(AtcError, match="no samples"):
        check_samples([], [X])


@pytest.mark.parametrize(
    ("count", "limit", "calibration", "held_out"),
    [
        (1, None, [0], [0]),
        (2, None, [0], [1]),
        (4, None, [0, 1, 2], [3]),
        (11, None, [0, 1, 2, 3, 5, 6, 7, 8, 10], [4, 9]),
        (10, 3, [0, 3], [6]),
        (3, 5, [0, 1], [2]),
    ],
)
def test_samples_that_are_held_out(count: int, limit: int | None, calibration: list[int], held_out: list[int]) -> None:
    chosen = divide([Sample(str(number), dict) for number in range(count)], limit)
    assert [int(sample.name) for sample in chosen.calibration] == calibration
    assert [int(sample.name) for sample in chosen.held_out] == held_out

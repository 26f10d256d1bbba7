"""Reading of checkpoints, and errors for corrupted ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy.errors import AtcError, ModelInvalid, Unsupported
from atcpy.parsers.tensorflow.bundle import Checkpoint, Slice
from tests.parsers.tensorflow.checkpoints import Array, part_key, write_checkpoint

RNG = np.random.default_rng(3)
TENSORS: dict[str, Any] = {
    "w": RNG.standard_normal((4, 5)).astype(np.float32),
    "step": np.array(7, np.int64),
    "flags": np.array([True, False, True]),
    "half": RNG.standard_normal(3).astype(np.float16),
    "none": np.zeros((0, 3), np.int32),
    "texts": [b"one", b"", "zwölf".encode()],
}


@pytest.mark.parametrize(("shards", "pad", "per_block"), [(1, 0, 40), (3, 0, 2), (2, 1, 3)])
def test_all_tensors_are_read_as_written(tmp_path: Path, shards: int, pad: int, per_block: int) -> None:
    many = {**TENSORS, **{f"layers/{index}/bias": np.float32([index]) for index in range(100)}}
    write_checkpoint(tmp_path / "c", many, shards=shards, pad=pad, per_block=per_block)
    checkpoint = Checkpoint(tmp_path / "c")
    assert sorted(checkpoint.keys) == sorted(many)
    for name, expected in many.items():
        tensor = checkpoint.tensor(name)
        if isinstance(expected, list):
            assert list(tensor.array) == [text.decode() for text in expected]
        else:
            assert tensor.shape == expected.shape
            assert tensor.array.dtype == expected.dtype
            assert np.array_equal(tensor.array, expected)
            assert tensor.array.flags.aligned


def test_elements_stay_in_the_file(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "c", {"w": TENSORS["w"]})
    array = Checkpoint(tmp_path / "c").tensor("w").array
    assert not array.flags.owndata
    assert not array.flags.writeable


PARTS = {
    "rows": [[(0, 3), (0, 100)], [(3, 3), (0, 100)], [(6, 1), (0, 100)]],
    "columns": [[(0, 7), (0, 64)], [(0, 7), (64, 36)]],
    "both": [[(0, 2), (0, 99)], [(0, 2), (99, 1)], [(2, 5), (0, 99)], [(2, 5), (99, 1)]],
}


@pytest.mark.parametrize("case", PARTS)
def test_partitioned_variables_are_assembled(tmp_path: Path, case: str) -> None:
    whole = RNG.standard_normal((7, 100)).astype(np.float32)
    write_checkpoint(tmp_path / "c", {"w": whole, "x": whole}, parts={"w": PARTS[case]}, shards=2)
    checkpoint = Checkpoint(tmp_path / "c")
    assert checkpoint.keys == ("w", "x")
    assert np.array_equal(checkpoint.tensor("w").array, whole)
    for name in ("w", "x"):
        assert np.array_equal(checkpoint.tensor(name, Slice((1, 60), (4, 40))).array, whole[1:5, 60:100])
    first = PARTS[case][0]
    part = checkpoint.tensor("w", Slice(tuple(a for a, _ in first), tuple(n for _, n in first)))
    assert np.array_equal(part.array, whole[: first[0][1], : first[1][1]])
    assert not part.array.flags.owndata


@pytest.mark.parametrize(
    ("number", "code"),
    [(0, b"\x80"), (63, b"\xbf"), (64, b"\xc0\x40"), (8191, b"\xdf\xff"), (8192, b"\xe0\x20\x00"), (-1, b"\x7f"),
     (-65, b"\x3f\xbf"), (2**48, b"\xff\x01" + bytes(6)), (2**56, b"\xff\x81" + bytes(7))],
)  # fmt: skip
def test_the_encoding_of_numbers_in_keys(number: int, code: bytes) -> None:
    from atcpy.parsers.tensorflow.bundle import _ordered

    assert _ordered(number) == code


def test_the_encoding_of_names_in_keys() -> None:
    from atcpy.parsers.tensorflow.bundle import _part_key

    assert _part_key("a\0b", [(0, 171), (5, 12)]) == part_key("a\0b", [(0, 171), (5, 12)]).replace(b"a\0b", b"a\0\xffb")


def refused(prefix: Path, key: str = "w") -> AtcError:
    with pytest.raises(AtcError) as caught:
        Checkpoint(prefix).tensor(key)
    assert caught.value.where.file
    return caught.value


def change(path: Path, at: int, *, to: bytes | None = None) -> None:
    data = bytearray(path.read_bytes())
    at %= len(data)
    data[at : at + len(to or b"x")] = to if to is not None else bytes([data[at] ^ 0x40])
    path.write_bytes(data)


def test_corruption_is_reported_with_the_names_of_file_and_tensor(tmp_path: Path) -> None:
    prefix = tmp_path / "c"
    index, data = tmp_path / "c.index", tmp_path / "c.data-00000-of-00001"
    write_checkpoint(prefix, {"w": TENSORS["w"]})
    good = index.read_bytes()
    change(data, 9)
    assert 'the checksum of "w" is wrong' in str(refused(prefix))
    data.write_bytes(data.read_bytes()[:50])
    assert '"w" is bytes 0 to 80 of c.data-00000-of-00001, which has 50' in str(refused(prefix))
    data.unlink()
    assert 'c.data-00000-of-00001 is missing, which "w" is in' in str(refused(prefix))
    change(index, 3)
    assert "the checksum of the block at byte 0 is wrong" in str(refused(prefix))
    index.write_bytes(good[:-20])
    assert "does not end as a checkpoint's index does" in str(refused(prefix))
    index.write_bytes(b"")
    assert refused(prefix).code == "E13015"
    write_checkpoint(prefix, {"w": TENSORS["w"]}, kind=1)
    assert isinstance(refused(prefix), Unsupported)
    assert "Snappy" in str(refused(prefix))
    write_checkpoint(prefix, {"weights": TENSORS["w"]})
    assert refused(prefix, "weight").hint == 'did you mean "weights"?'


def test_inconsistent_parts_are_refused(tmp_path: Path) -> None:
    whole: Array = np.zeros((4, 2), np.float32)
    write_checkpoint(tmp_path / "c", {"w": whole}, parts={"w": [[(0, 1), (0, 2)], [(1, 2), (0, 2)]]})
    assert 'the parts of "w" do not make [4, 2]' in str(refused(tmp_path / "c"))


def test_corrupted_index_files_give_an_error_or_are_read(tmp_path: Path) -> None:
    chance = random.Random(5)
    write_checkpoint(tmp_path / "c", TENSORS, per_block=3, parts={"w": [[(0, 2), (0, 5)], [(2, 2), (0, 5)]]})
    index = tmp_path / "c.index"
    good = index.read_bytes()
    for _ in range(300):
        index.write_bytes(good)
        match chance.randrange(3):
            case 0:
                index.write_bytes(good[: chance.randrange(len(good))])
            case 1:
                change(index, chance.randrange(len(good)), to=chance.randbytes(chance.randrange(1, 5)))
            case _:
                change(index, -1 - chance.randrange(48), to=bytes([chance.randrange(256)]))
        try:
            checkpoint = Checkpoint(tmp_path / "c")
            for key in TENSORS:
                checkpoint.tensor(key)
        except (ModelInvalid, Unsupported) as error:
            assert error.where.file


class _Equal:
    """Compares equal to any checksum."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def test_corruption_with_valid_checksums_stays_in_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from atcpy.parsers.tensorflow import bundle, table

    for module in (bundle, table):
        monkeypatch.setattr(module, "masked_crc32c", lambda *parts: _Equal())
    chance = random.Random(6)
    write_checkpoint(tmp_path / "c", TENSORS, per_block=3, parts={"w": [[(0, 2), (0, 5)], [(2, 2), (0, 5)]]})
    index = tmp_path / "c.index"
    good = index.read_bytes()
    refusals = set()
    for _ in range(600):
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 1, 4, 20])):
            data[chance.randrange(len(data) - 48)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        index.write_bytes(data)
        try:
            checkpoint = Checkpoint(tmp_path / "c")
            for key in checkpoint.keys[:20]:
                assert checkpoint.tensor(key).array.nbytes < 10_000
        except AtcError as error:
            refusals.add(error.what[:30])
    assert len(refusals) > 10


def test_only_the_needed_parts_are_read(tmp_path: Path) -> None:
    whole = np.arange(64, dtype=np.float32)
    boxes = [[(start, 1)] for start in range(64)]
    write_checkpoint(tmp_path / "c", {"w": whole}, parts={"w": boxes}, shards=64)
    for number in range(64):
        if number not in (3, 4, 9):
            (tmp_path / f"c.data-{number:05}-of-00064").unlink()
    checkpoint = Checkpoint(tmp_path / "c")
    assert checkpoint.tensor("w", Slice((9,), (1,))).array == [9]
    assert checkpoint.tensor("w", Slice((3,), (2,))).array.tolist() == [3, 4]
    with pytest.raises(AtcError, match="is missing"):
        checkpoint.tensor("w", Slice((4,), (2,)))

"""The container: GE's bytes, checksums over all of them, and no byte string that does anything but load or P000x."""

import hashlib
import os
import random
import struct
from pathlib import Path

import pytest
import xxhash

from atcpy.errors import PackageCorrupt, UsageError
from atcpy.om import container as container_module
from atcpy.om.container import (
    HEADER_BYTES,
    ORDER,
    TABLE_BYTES,
    Container,
    Partition,
    Verify,
    frame,
    open_container,
    parse,
    reseal,
    seal_file,
)

INOUT = b"inout" * 3  # 360 + 15 + 9 is a multiple of 64
MODEL = b"model def"
WEIGHTS = bytes(range(200))
TASKS = b"task info"


def build(name: str = "net", model: bytes = MODEL) -> bytes:
    parts = {
        Partition.MODEL_INOUT_INFO: INOUT,
        Partition.MODEL_DEF: model,
        Partition.WEIGHTS_DATA: WEIGHTS,
        Partition.TASK_INFO: TASKS,
    }
    head, order = frame({p: len(parts[p]) for p in parts}, name=name, platform_version="1.0")
    return reseal(head + b"".join(parts[p] for p in order))


WHOLE = build()


def code_of(package: bytes, verify: Verify = Verify.FULL) -> str | None:
    try:
        parse(package, verify=verify)
    except PackageCorrupt as error:
        assert error.exit_code == 7 and error.what and error.where.offset is not None and error.hint
        return error.code
    return None


def test_header_and_table_are_those_of_ge() -> None:
    assert WHOLE[:4] == b"IMOD"
    assert struct.unpack_from("<II", WHOLE, 4) == (256, 0x20000000)
    assert WHOLE[84:116] == b"net".ljust(32, b"\0")
    assert struct.unpack_from("<II", WHOLE, 152) == (2, 1)
    assert WHOLE[160:180] == b"1.0".ljust(20, b"\0")
    assert struct.unpack_from("<Q", WHOLE, 184) == (len(WHOLE) - 256,)
    assert struct.unpack_from("<II", WHOLE, 256) == (4, 0)
    table = [struct.unpack_from("<IIQQ", WHOLE, 264 + 24 * i) for i in range(4)]
    assert table == [(8, 0, 0, 15), (0, 0, 15, 9), (1, 0, 24, 200), (2, 0, 224, 9)]
    assert len(WHOLE) == 256 + 104 + 233


def test_checksum_field_is_what_the_design_says() -> None:
    field = WHOLE[12:76]
    blank = WHOLE[:12] + bytes(64) + WHOLE[76:]
    assert field[16:48] == hashlib.sha256(blank).digest()
    assert field[48:56] == xxhash.xxh3_64_digest(blank[:384] + blank[584:])
    assert field[56:] == bytes(8)
    assert field[:16] == xxhash.xxh3_128_digest(WHOLE[:12] + bytes(16) + WHOLE[28:])


def test_partitions_come_back_as_views() -> None:
    container = parse(WHOLE)
    assert container.name == "net" and container.platform_version == "1.0" and not container.dynamic
    assert [bytes(container.partition(p)) for p in sorted(ORDER)] == [MODEL, WEIGHTS, TASKS, INOUT]
    assert container.extent(Partition.WEIGHTS_DATA).offset == 384
    assert container.partition(Partition.WEIGHTS_DATA).readonly
    container.check_sha256()


def test_file_is_sealed_in_pieces_as_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_module, "_READ_BYTES", 7)
    path = tmp_path / "m.om"
    path.write_bytes(WHOLE[:12] + bytes(64) + WHOLE[76:])
    with path.open("r+b") as file:
        seal_file(file.fileno())
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize("name", ["a" * 40, "é" * 20, "tab\tand\x1bescape"])
def test_any_model_name_fits_the_header(name: str) -> None:
    kept = parse(build(name)).name
    assert kept.isprintable() and 0 < len(kept.encode()) <= 31


def test_unaligned_weights_are_not_sealed() -> None:
    with pytest.raises(ValueError, match="unaligned"):
        build(model=b"model")


def test_unaligned_weights_are_refused_behind_the_checksum() -> None:
    """The partition before them is a byte longer, and the table says so."""
    mutant = bytearray(WHOLE[:375] + b"+" + WHOLE[375:])
    struct.pack_into("<Q", mutant, 184, len(mutant) - HEADER_BYTES)
    struct.pack_into("<Q", mutant, 264 + 16, len(INOUT) + 1)
    for entry in range(1, 4):
        at = 264 + 24 * entry + 8
        struct.pack_into("<Q", mutant, at, struct.unpack_from("<Q", mutant, at)[0] + 1)
    with pytest.raises(PackageCorrupt, match="begins at no multiple of 64"):
        parse(reseal(bytes(mutant)))


def test_every_truncation_is_refused() -> None:
    assert code_of(b"") == "P0001"
    assert {code_of(WHOLE[:n]) for n in range(1, len(WHOLE))} == {"P0004"}
    assert code_of(WHOLE + b"\0") == "P0005"


def test_every_flipped_bit_is_refused() -> None:
    for bit in range(8 * len(WHOLE)):
        mutant = bytearray(WHOLE)
        mutant[bit // 8] ^= 1 << bit % 8
        assert code_of(bytes(mutant)) is not None, bit


def test_damage_is_named_by_side() -> None:
    weights, tasks = bytearray(WHOLE), bytearray(WHOLE)
    weights[400] ^= 1
    tasks[-1] ^= 1
    with pytest.raises(PackageCorrupt, match="the weights") as caught:
        parse(weights, source="m.om")
    assert str(caught.value.where) == "m.om: partition WEIGHTS_DATA, byte 384"
    with pytest.raises(PackageCorrupt, match="header, graph or tasks"):
        parse(tasks)


def test_header_verification_skips_the_weights_alone() -> None:
    for at in range(len(WHOLE)):
        mutant = bytearray(WHOLE)
        mutant[at] ^= 0x10
        unseen = 384 <= at < 584 or 12 <= at < 60  # the weights, and the two digests that this mode does not read
        assert (code_of(bytes(mutant), Verify.HEADER) is None) == unseen, at


def test_resealed_package_is_the_package() -> None:
    assert reseal(WHOLE[:12] + bytes(64) + WHOLE[76:]) == WHOLE
    changed = bytearray(WHOLE)
    changed[400] ^= 1
    assert code_of(reseal(bytes(changed))) is None


def test_what_is_too_short_for_a_header_or_a_table_can_be_resealed() -> None:
    for size in range(HEADER_BYTES):
        assert reseal(WHOLE[:size]) == WHOLE[:size]
    for size in range(HEADER_BYTES, HEADER_BYTES + TABLE_BYTES):
        assert reseal(WHOLE[:size])[HEADER_BYTES:] == WHOLE[HEADER_BYTES:size]


SIZES = [0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("field", [184, *range(272, 360, 8)])
def test_every_size_field_with_hostile_values_is_refused_behind_the_checksum(field: int) -> None:
    (value,) = struct.unpack_from("<Q", WHOLE, field)
    for hostile in {*SIZES, value + 1, max(value - 1, 0), len(WHOLE) - 1, len(WHOLE), len(WHOLE) + 1} - {value}:
        mutant = bytearray(WHOLE)
        struct.pack_into("<Q", mutant, field, hostile)
        assert code_of(reseal(bytes(mutant))) in {"P0004", "P0005"}, hostile


def test_resealed_header_and_table_are_canonical() -> None:
    """Behind a right checksum only the free texts, the flag of a dynamic model and the digests may differ."""
    free = {*range(12, 76), *range(84, 116), *range(160, 180)}
    for bit in range(8 * (HEADER_BYTES + TABLE_BYTES)):
        mutant = bytearray(WHOLE)
        mutant[bit // 8] ^= 1 << bit % 8
        assert code_of(reseal(bytes(mutant))) is not None or bit // 8 in free or bit == 8 * 193, bit


def test_resealed_noise_ends_in_success_or_a_package_error() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        mutant = bytearray(WHOLE[: rng.choice([len(WHOLE), rng.randrange(len(WHOLE))])])
        for _ in range(rng.randrange(1, 9)):
            if mutant:
                mutant[rng.randrange(len(mutant))] = rng.randrange(256)
        code_of(reseal(bytes(mutant)))


def test_package_of_another_maker_or_a_newer_version() -> None:
    assert code_of(b"PK\3\4" + WHOLE) == "P0001"
    assert code_of(WHOLE[:12] + bytes(64) + WHOLE[76:]) == "P0001"
    assert code_of(reseal(WHOLE[:8] + struct.pack("<I", 0x30000000) + WHOLE[12:])) == "P0002"
    for version, code in ((1, "P0005"), (3, "P0002")):  # of the graph's representation
        assert code_of(reseal(WHOLE[:152] + struct.pack("<I", version) + WHOLE[156:])) == code


@pytest.mark.parametrize("mmap", [True, False])
def test_file_is_read_or_mapped(mmap: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.om"
    path.write_bytes(WHOLE)
    container: Container = open_container(path, mmap=mmap)
    assert container.source == str(path)
    path.unlink()
    assert bytes(container.partition(Partition.WEIGHTS_DATA)) == WEIGHTS


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(WHOLE[:50])
    for name, expected in (("fifo", "P0001"), (".", "P0001"), ("empty", "P0001"), ("short", "P0004")):
        with pytest.raises(PackageCorrupt) as corrupt:
            open_container(tmp_path / name)
        assert corrupt.value.code == expected, name
    for name, expected in (("absent", "E10410"), ("x" * 300, "E10021"), ("nul\0", "E13001")):
        with pytest.raises(UsageError) as usage:
            open_container(tmp_path / name)
        assert usage.value.code == expected, name

"""MODEL_INOUT_INFO: GE's bytes, back and forth, and no byte trusted."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.errors import PackageCorrupt
from atcpy.om.inout import GearInfo, ModelInfo, TensorInfo, decode, encode
from atcpy.options import GearKind, Gears

IMAGE = TensorInfo("x", 602112, 0, 0, (1, 3, 224, 224), (1, 3, 224, 224))
CLASSES = TensorInfo("Klassen-Größe", 8, 2, 9, (-1,), (-1,), ((1, 64),))


def read(payload: bytes) -> ModelInfo:
    return decode(memoryview(payload), source="m.om", offset=352)


def test_bytes_are_those_of_ge() -> None:
    scalar = TensorInfo("y", 4, 2, 0, (), ())
    assert encode([], [scalar]) == struct.pack("<IIIQ6I", 1, 4 + 32 + 1, 1, 4, 2, 0, 1, 0, 0, 0) + b"y"


dims = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(tuple)
infos = st.lists(
    st.builds(
        TensorInfo,
        st.text(st.characters(exclude_categories=["Cs"])),
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
        dims,
        dims,
        st.lists(st.tuples(st.integers(-1, 2**40), st.integers(-1, 2**40)), max_size=3).map(tuple),
    ),
    max_size=4,
)


@given(infos, infos)
def test_decode_inverts_encode(inputs: list[TensorInfo], outputs: list[TensorInfo]) -> None:
    assert read(encode(inputs, outputs)) == ModelInfo(tuple(inputs), tuple(outputs))


BATCHES = GearInfo(Gears(GearKind.BATCH, ((1,), (8,))), ("0,0,1", "1,0,8"), ("x",))
IMAGES = GearInfo(Gears(GearKind.IMAGE, ((416, 832), (32, 32))), (), ("x", "Größe"))
DIMS = GearInfo(Gears(GearKind.DIMS, ((1, 2, 3), (4, 5, 6), (7, 8, 9))), ("",), ())


@pytest.mark.parametrize("gears", [BATCHES, IMAGES, DIMS])
def test_gears_are_read_back(gears: GearInfo) -> None:
    assert read(encode([IMAGE], [CLASSES], gears)) == ModelInfo((IMAGE,), (CLASSES,), gears)


def test_gears_may_come_without_shapes_and_names() -> None:
    payload = encode([IMAGE], [CLASSES]) + struct.pack("<IIIQQ", 2, 20, 2, 1, 8)
    assert read(payload).gears == GearInfo(Gears(GearKind.BATCH, ((1,), (8,))), (), ())


def test_gears_are_in_the_blocks_of_ge() -> None:
    plain = encode([IMAGE], [CLASSES])
    batches, dims = encode([IMAGE], [CLASSES], BATCHES), encode([IMAGE], [CLASSES], DIMS)
    assert batches[len(plain) :].startswith(struct.pack("<IIIQQ", 2, 4 + 2 * 8, 2, 1, 8))
    assert dims[len(plain) :].startswith(struct.pack("<II4I9q", 4, 4 + 3 * 4 + 9 * 8, 3, 3, 3, 3, *range(1, 10)))


@pytest.mark.parametrize(
    "blocks",
    [  # type, length and content
        struct.pack("<IIIQQ", 2, 20, 2, 1, 1),  # twice the same
        struct.pack("<IIIQQ", 2, 20, 2, 1, 0),  # a size of 0
        struct.pack("<IIIQQ", 2, 20, 2, 1, 2**40 + 1),
        struct.pack("<III", 2, 4, 0),  # no gears
        struct.pack("<IIIQQI", 2, 24, 2, 1, 2, 0),  # bytes that are left over
        struct.pack("<IIIIIqqq", 4, 36, 2, 1, 2, 1, 2, 3),  # rows of different lengths
        struct.pack("<IIIII", 4, 12, 2, 0, 0),  # rows of no sizes
        struct.pack("<IIIQQ", 2, 20, 2, 1, 2) + struct.pack("<IIIIIqq", 4, 28, 2, 1, 1, 1, 2),  # of two kinds
        struct.pack("<IIIQQ", 2, 20, 2**32 - 1, 1, 2),
        struct.pack("<IIIQQ", 2, 20, 2, 1, 2) + struct.pack("<IIIIB", 5, 9, 1, 1, 255),  # not UTF-8
    ],
    ids=range(10),
)
def test_gears_that_are_malformed_are_refused(blocks: bytes) -> None:
    with pytest.raises(PackageCorrupt) as caught:
        read(encode([IMAGE], [CLASSES]) + blocks)
    assert caught.value.code == "P0005"


def test_every_truncation_is_refused_or_ends_between_blocks() -> None:
    whole = encode([IMAGE], [CLASSES])
    between = {0, len(encode([IMAGE], [])) - 12}
    for size in set(range(len(whole))) - between:
        with pytest.raises(PackageCorrupt) as caught:
            read(whole[:size])
        assert caught.value.code == "P0005"


def test_every_changed_byte_is_read_or_refused_as_corrupt() -> None:
    whole = encode([IMAGE], [CLASSES])
    refused = 0
    for at in range(len(whole)):
        for value in (0, 1, 0x7F, 0xFF):
            try:
                read(whole[:at] + bytes([value]) + whole[at + 1 :])
            except PackageCorrupt as error:
                assert error.where.partition == "MODEL_INOUT_INFO" and error.where.offset is not None
                refused += 1
    assert refused > 50

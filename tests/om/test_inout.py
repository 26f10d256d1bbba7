"""MODEL_INOUT_INFO: GE's bytes, back and forth, and no byte trusted."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.errors import PackageCorrupt
from atcpy.om.inout import TensorInfo, decode, encode

IMAGE = TensorInfo("x", 602112, 0, 0, (1, 3, 224, 224), (1, 3, 224, 224))
CLASSES = TensorInfo("Klassen-Größe", 8, 2, 9, (-1,), (-1,), ((1, 64),))


def read(payload: bytes) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
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
    assert read(encode(inputs, outputs)) == (tuple(inputs), tuple(outputs))


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

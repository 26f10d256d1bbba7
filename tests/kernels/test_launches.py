"""The seeds of the fuzzers, and what fuzz_kernels has found: launches in lines of text (tests/csrc/seed_records.py)."""

from __future__ import annotations

import pytest

from atcpy.kernels import _kernels, table
from atcpy.kernels.record import HEADER, SLOT
from atcpy.kernels.table import TASK_BYTES
from tests.csrc.seed_records import LAUNCHES, line_of, read_line
from tests.isa import ISAS

LINES = LAUNCHES.read_text().splitlines()
BYTES_AT = SLOT.size - 8  # in a slot

# What ran beyond a number or an operand, until the checker named here refused it.
REFUSED = {
    "quant_range src f32:0 dst f32:4 u8:1 planes=0 c1=1 pixels=70368744177664 c0=4096 c_last=1": "out of range",
    "strided_copy src u16:64 dst u16:64 rank=2 dims=1,16 src_strides=9223372036854775801,1 dst_strides=16,1 item=2":
        "beyond the source",
    "scatter_nd src u8:33 i32:924 dst u8:0 count=33 depth=7 dims=33,2147483647,2147483647,2147483647 inner=1 item=1 "
    "index_item=4 dtype=2": "out of range",
    "depthwise2d src f32:262144 f32:64 dst f32:262144 n=1 c=1 h=1 w=4096 m=1 oh=1 ow=4096 kh=1 kw=1 sh=1 sw=1 "
    "dh=140737488355327 dw=1": "reach too far",
}  # fmt: skip
RUN = {
    "a window that lies in the padding, far away":
        "pool2d src u8:96 dst u8:128 planes=2 h=3 w=1 oh=2 ow=2 kh=2 kw=2 sh=1 sw=1 dh=1 dw=1 pt=1 pl=70368744177664 "
        "pb=2 pr=1 c0=16",
    "an empty source with strides that nothing follows":
        "pad src f32:0 dst f32:48 rank=2 dims=3,4 before=1,1 x_strides=140737488355327,140737488355327 item=4",
}  # fmt: skip


def load(launch: bytes, isa: str | None = None) -> _kernels.Plan:
    return _kernels.Plan(launch[:TASK_BYTES], launch[TASK_BYTES:], 1 << 24, [], [], 1, isa)


def test_every_family_has_a_seed() -> None:
    assert {line.split()[0] for line in LINES} == set(table.families())


def test_lines_say_all_of_a_launch() -> None:
    for line in LINES:
        assert line_of(read_line(line)) == line


def test_seeds_are_as_small_as_they_can_be() -> None:
    """Each is accepted, and with one byte less in any operand it is not."""
    for line in LINES:
        launch = bytearray(read_line(line))
        load(bytes(launch))
        _, n_src, n_dst, *_ = HEADER.unpack_from(launch)
        for number in range(n_src + n_dst):
            at = HEADER.size + SLOT.size * number + BYTES_AT
            size = int.from_bytes(launch[at : at + 8], "little")
            if size == 0:
                continue
            launch[at : at + 8] = (size - 1).to_bytes(8, "little")
            with pytest.raises(_kernels.Refused):
                load(bytes(launch))
            launch[at : at + 8] = size.to_bytes(8, "little")


@pytest.mark.parametrize("line", REFUSED)
def test_what_was_found_is_refused(line: str) -> None:
    with pytest.raises(_kernels.Refused, match=REFUSED[line]):
        load(read_line(line))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("what", RUN)
def test_what_was_found_runs(what: str, isa: str) -> None:
    load(read_line(RUN[what]), isa).start([], []).execute(0, 1)

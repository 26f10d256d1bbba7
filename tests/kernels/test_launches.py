"""The seeds of the fuzzers, and what fuzz_kernels has found: launches in lines of text (tests/csrc/seed_records.py)."""

from __future__ import annotations

import pytest

from atcpy.kernels import _kernels, table
from atcpy.kernels.record import HEADER, SLOT
from atcpy.kernels.table import TASK_BYTES
from tests.csrc.seed_records import LAUNCHES, line_of, read_line
from tests.isa import ISAS

LINES = LAUNCHES.read_text().splitlines()
OFFSET_AT, BYTES_AT = SLOT.size - 16, SLOT.size - 8  # in a slot

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
# What a checker refuses of the first launch of a family in which a part of the line is replaced.
HUGE = 2**46
_SUM = (
    "- f32:4 f32:4 f32:4 u8:1 u8:144 dst u8:144=9 n=1 c=1 h=3 w=3 m=1 oh=3 ow=3 kh=1 kw=1 sh=1 sw=1 dh=1 dw=1 group=1 "
    "cg=1 mg=1 src_c0=1 k_c0=1 dst_c0=16 w_packed=1 w_zeros=1 w_scales=1 result=u8"
)
_SUM_OF_INT32 = (
    _SUM.replace("f32:4 f32:4 f32:4 u8:1 u8:144 dst u8:144=9", "- - - - u8:144 dst i32:576").removesuffix("u8") + "i32"
)
_FLOATS = "n=1 c=16 h=4 w=8 m=9 oh=2 ow=8 pl=1 falls_back=1 w_zeros=1 w_scales=1 w_signed=1"
CHANGES = [
    ("attention", "softcap=30.0", "softcap=inf", "softcap"),
    ("attention", "token_item=4", "token_item=4 linear=2", "a flag is neither"),
    ("attention", "token_item=4", "token_item=4 linear=-1", "a flag is neither"),
    ("attention", "f32:12 - - - - i32:4", "f32:12 - bool:1 - - i32:4", "beside a mask"),
    ("deform_columns", "f32:1512 f32:3840 - dst", "f32:1512 dst", "number of operands"),
    ("fourier", "f32:8 - dst", "dst", "number of operands"),
    ("fourier", "frames=1", f"frames=2 step={HUGE}", "frames reach too far"),
    ("int4_matmul", "f32:160 u8:512 f32:128 -", "f32:160 u8:512 f32:128", "number of operands"),
    ("int4_matmul", "m=1", "m=0", "out of range"),
    ("int4_matmul", "block=32", "block=36", "no whole steps"),
    ("int4_matmul", "block=32", "block=2048", "too many elements"),
    ("int4_matmul", "digits=1", "digits=2", "neither one digit nor three"),
    ("nms", "batches=1 classes=1", f"batches=0 classes=1 n={HUGE}", "more scratch"),
    ("normalize", "i64:24 - - - - dst f32:48 rows=3 n=4 run=1 period=1 lines=3 numbers=3",
     "i64:24 i64:8 - - - dst f32:48 rows=3 n=4 run=1 period=1 lines=3 numbers=3,1", "a term or its indices"),
    ("pad", "f32:48 dst", "f32:48 f32:0 dst", "too small"),
    ("pad", "f32:48 dst", "f32:48 f32:4 f32:4 dst", "number of operands"),
    ("pool2d", "sh=1", f"sh={HUGE}", "reach too far"),
    ("pool2d", "sw=1", f"sw={HUGE}", "reach too far"),
    ("pool2d", "kh=2 kw=2", f"kh={2**23} kw={2**24}", "reach too far"),
    ("poolnd", "kind=lp p=2", "kind=lp", "p is below 1"),
    ("poolnd", "kernel=1,2,2", f"kernel={2**23},{2**23},2", "too large"),
    ("qgemm", "c=5 h=1 w=3 m=1 oh=1 ow=3 kh=1 kw=1 sh=1 sw=1 dh=1 dw=1 group=1 cg=5",
     "c=5 h=1 w=3 m=5 oh=1 ow=3 kh=1 kw=1 sh=1 sw=1 dh=1 dw=1 group=5 cg=1", "nor are rows multiplied"),
    ("qgemm", "cg=16 mg=1 src_c0=1 k_c0=1 dst_c0=1", "cg=16 mg=1 src_c0=1 k_c0=1 dst_c0=2", "nor are rows made"),
    ("qgemm", "c=32 h=7 w=7 m=32 oh=4 ow=5 kh=3 kw=2 sh=2 sw=2 dh=1 dw=1 pl=2 group=2 cg=16",
     "c=16 h=7 w=7 m=32 oh=4 ow=5 kh=3 kw=2 sh=2 sw=2 dh=1 dw=1 pl=2 group=2 cg=8", "whole blocks"),
    ("qgemm", "m=32 oh=4 ow=5 kh=3 kw=2 sh=2 sw=2 dh=1 dw=1 pl=2 group=2 cg=16 mg=16",
     "m=16 oh=4 ow=5 kh=3 kw=2 sh=2 sw=2 dh=1 dw=1 pl=2 group=2 cg=16 mg=8", "whole blocks"),
    ("qgemm", "c=3 h=5 w=9 m=1 oh=3 ow=3 kh=2 kw=3 sh=2 sw=3 dh=1 dw=1 group=1 cg=3",
     "c=5 h=3 w=9 m=1 oh=3 ow=3 kh=2 kw=3 sh=2 sw=3 dh=1 dw=1 group=1 cg=5", "4 for few channels"),
    ("qgemm", "c=3 h=5 w=9 m=1 oh=3 ow=3 kh=2 kw=3 sh=2 sw=3 dh=1 dw=1 group=1 cg=3 mg=1",
     "c=2 h=5 w=9 m=32 oh=3 ow=3 kh=2 kw=3 sh=2 sw=3 dh=1 dw=1 group=2 cg=1 mg=16", "4 for few channels"),
    ("qgemm", "src_c0=1 k_c0=4", "src_c0=1 k_c0=2", "4 for few channels"),
    ("qgemm", "src_c0=16 k_c0=16", "src_c0=16 k_c0=4", "4 for few channels"),
    ("qgemm", "c=3 h=5 w=9 m=1 oh=3 ow=3 kh=2 kw=3 sh=2 sw=3 dh=1 dw=1",
     "c=3 h=5 w=9 m=1 oh=3 ow=3 kh=2 kw=3 sh=2 sw=3 dh=2097152 dw=1", "too much of a picture"),
    ("qgemm", "kw=2 sh=2", f"kw=2 sh={HUGE}", "reach too far"),
    ("qgemm", "sw=2 dh=1", f"sw={HUGE} dh=1", "reach too far"),
    ("qgemm", "kh=3 kw=2", f"kh={2**31 - 1} kw=2", "too many products"),
    ("qgemm", "oh=4 ow=5", f"oh={2**24} ow={2**23}", "too many products or results"),
    ("qgemm", "- - - - - - dst i32:204 n=1 c=1 h=1", "- - - - - dst i32:204 n=1 c=1 h=1", "number of operands"),
    ("qgemm", _SUM, _SUM_OF_INT32, "no bytes"),
    ("qgemm", "product_scale=2.0", "product_scale=inf", "of the sum is out of range"),
    ("qgemm", "product_scale=2.0", "product_scale=1048577.0", "of the sum is out of range"),
    ("qgemm", "addend_scale=3.0", "addend_scale=nan", "of the sum is out of range"),
    ("qgemm", "addend_scale=3.0", "addend_scale=0.0", "of the sum is out of range"),
    ("qgemm", "sum_offset=-21.0", "sum_offset=nan", "of the sum is out of range"),
    ("qgemm", "sum_offset=-21.0", "sum_offset=-268435457.0", "of the sum is out of range"),
    ("qgemm", "sum_zero=3", "sum_zero=256", "of the sum is out of range"),
    ("qgemm", "sum_zero=-3", "sum_zero=-129", "of the sum is out of range"),
    ("qgemm", "i8:1 i8:180 dst", "i8:1 i8:179 dst", "the addend is too small"),
    ("qgemm", "i8:1 i8:180 dst", "i8:1 u8:180 dst", "the addend is too small"),
    ("qgemm", "i32:128 f32:4 f32:128", "i32:124 f32:4 f32:128", "bias or a scale"),
    ("qgemm", "i32:128 f32:4 f32:128", "i32:128 f32:0 f32:128", "bias or a scale"),
    ("quantize", "f32:0 f32:0 u8:0 dst", "f32:0 dst", "number of operands"),
    ("quantize", "axis=1 block=1", f"axis={HUGE} inner=2 block=1 type=u4", "too small"),
    ("qwinograd2d", "c=16 h=4 w=5", "c=15 h=4 w=5", "not whole blocks, or too many"),
    ("qwinograd2d", "u8:320 - i8:4736 - - - - - - dst i32:2560 n=1 c=16",
     f"u8:{20 * 4112} - i8:{2 * (144 * 4112 + 64)} - - - - - - dst i32:2560 n=1 c=4112", "or too many"),
    ("qwinograd2d", "falls_back=1", "falls_back=2", "neither 0 nor 1"),
    ("qwinograd2d", "falls_back=1", "falls_back=-1", "neither 0 nor 1"),
    ("qwinograd2d", "oh=4 ow=5 pt=1", "oh=5 ow=5 pt=1", "too small"),
    ("qwinograd2d", "w=5 m=17", "w=5 m=33", "too small"),
    ("qwinograd2d", f"- - - - dst i32:1024 {_FLOATS}", f"f32:4 f32:4 - - dst f32:1024 {_FLOATS} result=f32", "float32"),
    ("qwinograd2d", "w_zeros=16", "w_zeros=2", "neither one nor one a column"),
    ("qwinograd2d", "addend_scale=2.0", "addend_scale=nan", "of the sum is out of range"),
    ("reduce", "kind=mean kept=1,1,1,9 kept_stride=0,0,0,3 reduced=1,1,1,3",
     "kind=mean kept=1,1,1,9 kept_stride=0,0,0,3 reduced=0,1,1,3", "no integer is the mean"),
    ("scatter_nd", "item=4 index_item=8 dtype=1", "item=4 index_item=8 dtype=7", "cannot be combined"),
    ("scatter_nd", "item=4 index_item=8 dtype=1", "item=8 index_item=8 dtype=1", "cannot be combined"),
    ("trees", "i32:8@304", "i32:8", "trees are not constant"),
    ("trees", "i32:32@320", "i32:32", "leaves are not constant"),
    ("trees", "i32:28@352", "i32:28", "leaves are not constant"),
]  # fmt: skip
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


@pytest.mark.parametrize(("family", "part", "other", "reason"), CHANGES)
def test_a_launch_of_which_a_part_is_replaced_is_refused(family: str, part: str, other: str, reason: str) -> None:
    line = next(line for line in LINES if line.startswith(f"{family} ") and f" {part} " in f"{line} ")
    load(read_line(line))
    with pytest.raises(_kernels.Refused, match=reason):
        load(read_line(line.replace(part, other, 1)))


def test_results_that_overlap_are_refused() -> None:
    launch = bytearray(read_line(next(line for line in LINES if line.startswith("topk "))))
    first, second = (HEADER.size + SLOT.size * number + OFFSET_AT for number in (1, 2))
    load(bytes(launch))
    launch[second : second + 8] = launch[first : first + 8]
    with pytest.raises(_kernels.Refused, match="overlap"):
        load(bytes(launch))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("what", RUN)
def test_what_was_found_runs(what: str, isa: str) -> None:
    load(read_line(RUN[what]), isa).start([], []).execute(0, 1)

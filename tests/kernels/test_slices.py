"""Long tasks run in slices of some milliseconds. What a call prepares for its items is not done again for each one."""

from __future__ import annotations

import time

import pytest

from atcpy.kernels import _kernels
from atcpy.kernels.table import TASK_BYTES
from tests.csrc.seed_records import read_line

ARENA = 1 << 26
GENEROUS_NS = 20 * 10**9  # a hundred times what they take

LINES = {
    "a row of 2^24 phases is packed for 1000 pairs of blocks":
        "conv2d src f32:4 f32:2048000 dst f32:2048000 n=1 c=1 h=1 w=1 m=32000 oh=1 ow=1 kh=1 kw=1 sh=1 sw=16777216 "
        "dh=1 dw=1 pl=1 group=1 cg=1 mg=32000 src_c0=1",
    "a table of 2^23 indices, of which a row uses one":
        "interp src u8:8 i32:33554448 dst u8:8388608 outer=1 in=8,1,1,1,1 out=8388608,1,1,1,1 taps=1,1,1,1,1 inner=1 "
        "item=1",
}  # fmt: skip


@pytest.mark.parametrize("what", LINES)
def test_a_task_ends_whose_calls_prepare_more_than_they_do(what: str) -> None:
    launch = read_line(LINES[what])
    plan = _kernels.Plan(launch[:TASK_BYTES], launch[TASK_BYTES:], ARENA, [], [], 1)
    run = plan.start([], [])
    _kernels.set_deadline(time.monotonic_ns() + GENEROUS_NS)
    try:
        run.execute(0, 1)
    finally:
        _kernels.set_deadline(0)

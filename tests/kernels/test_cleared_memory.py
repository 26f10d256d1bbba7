"""What no task wrote is clear: a package must not hand out what the process left in its memory."""

import ctypes

import numpy as np
import pytest

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.kernels import _kernels, table
from atcpy.runtime.memory import BufferPool


def leave_in_memory(nbytes: int) -> None:
    """Free blocks of about this size that are full of ones."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    sizes = [nbytes + extra for extra in range(-128, 257, 16) if nbytes + extra > 0]
    blocks = [libc.malloc(ctypes.c_size_t(size)) for size in sizes]
    for block, size in zip(blocks, sizes, strict=True):
        ctypes.memset(block, 0xFF, size)
    for block in blocks:
        libc.free(ctypes.c_void_p(block))


@pytest.mark.parametrize("nbytes", [64, 1000, 20_000, 100_000])
def test_an_arena_that_is_read_before_it_is_written_has_zeros(nbytes: int) -> None:
    desc = TensorDesc.plain(DType.UINT8, (nbytes,))
    params = table.pack_params(
        "strided_copy", {"rank": 1, "dims": [nbytes], "src_strides": [1], "dst_strides": [1], "item": 1}
    )
    source, result = Slot(Region.ARENA, 0, nbytes, desc, 0), Slot(Region.OUTPUT, 0, nbytes, desc, 0)
    plan = _kernels.Plan(table.pack_task("strided_copy", [source], [result], params), None, nbytes, [], [nbytes], 1)
    leave_in_memory((nbytes + 63) // 64 * 64)
    y = np.full(nbytes, 0xAA, np.uint8)
    plan.start([], [y]).execute(0, 1)
    assert not y.any()


@pytest.mark.parametrize("nbytes", [64, 1000, 20_000, 100_000])
def test_memory_for_results_has_zeros(nbytes: int) -> None:
    leave_in_memory(nbytes)
    assert not BufferPool(DType.UINT8, (nbytes,)).take().any()


def test_a_plan_that_was_refused_or_never_loaded_runs_nothing() -> None:
    def check(plan: _kernels.Plan) -> None:
        for call in (plan.rows, plan.scratch_bytes, plan.run_bytes, lambda: plan.start([], [])):
            with pytest.raises(RuntimeError, match="not loaded"):
                call()

    plan = _kernels.Plan.__new__(_kernels.Plan)
    check(plan)
    with pytest.raises(_kernels.Refused, match="no task writes output 0"):
        _kernels.Plan.__init__(plan, b"", None, 0, [], [4], 1)
    check(plan)
    with pytest.raises(RuntimeError, match="loaded once"):
        _kernels.Plan.__init__(plan, b"", None, 0, [], [], 1)

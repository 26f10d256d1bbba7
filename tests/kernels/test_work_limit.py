"""Records whose work or scratch is out of proportion to their operands are refused: a small package cannot run for
hours, nor take all memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table
from tests.harness import load_task

Params = dict[str, table.ParamValue]
MANY = 2**46

F32 = TensorDesc.plain(DType.FLOAT32, (1,))


def slot(region: Region, nbytes: int, index: int = 0) -> Slot:
    return Slot(region, 0, nbytes, F32, index)


def load(family: str, params: dict[str, table.ParamValue], *sizes: int) -> _kernels.Plan:
    """A task of float32, with operands of so many bytes, the last of which is the result."""
    *srcs, dst = sizes
    sources = [slot(Region.INPUT, nbytes, index) for index, nbytes in enumerate(srcs)]
    record = table.pack_task(family, sources, [slot(Region.OUTPUT, dst)], table.pack_params(family, params))
    return _kernels.Plan(record, None, 0, srcs, [dst], 1)


def pool(taps: int) -> dict[str, table.ParamValue]:
    """One window of taps × taps over a single pixel; all other taps lie in the padding."""
    window = {"kh": taps, "kw": taps, "pt": taps - 1, "pl": taps - 1}
    pads = {"pb": 0, "pr": 0} if any(f.name == "pb" for f in table.families()["pool2d"]) else {}
    return {
        "planes": 1,
        "c0": 1,
        "h": 1,
        "w": 1,
        "oh": 1,
        "ow": 1,
        "sh": 1,
        "sw": 1,
        "dh": 1,
        "dw": 1,
        **window,
        **pads,
    }


def test_a_window_of_2_to_the_40_taps_over_padding_is_refused() -> None:
    load("pool2d", pool(31), 4, 4)
    with pytest.raises(_kernels.Refused, match="more work than its operands can ask for"):
        load("pool2d", pool(2**20), 4, 4)


def test_work_that_is_too_big_to_count_is_refused_whatever_the_operands() -> None:
    planes = 2**34
    load("pool2d", pool(2**4) | {"planes": planes}, 4 * planes, 4 * planes)
    with pytest.raises(_kernels.Refused, match="more work than its operands can ask for"):
        load("pool2d", pool(2**20) | {"planes": planes}, 4 * planes, 4 * planes)


def test_results_that_read_nothing_but_padding_are_work() -> None:
    def convolve(out: int, kernel: int) -> None:
        params = WINDOW | {"c": 16, "m": 16, "cg": 16, "mg": 16, "oh": out, "ow": out, "kh": kernel, "kw": kernel}
        load("conv_transpose2d", params, 64, 4 * 256 * kernel**2, 64 * out**2)

    convolve(2**12, 2**4)
    with pytest.raises(_kernels.Refused, match="more work than its operands can ask for"):
        convolve(2**12, 2**12)


def test_rows_that_are_mixed_for_one_pixel_are_work() -> None:
    def resize(w: int) -> None:
        params: Params = {"outer": 1, "h": 1, "w": w, "oh": 2**20, "ow": 1, "c0": 1, "item": 4, "mode": "linear"}
        load("resize2d", params, 4 * w, 4 * 2**20)

    resize(2**10)
    with pytest.raises(_kernels.Refused, match="more work than its operands can ask for"):
        resize(2**20)


def test_taps_are_not_counted_one_by_one_at_load() -> None:
    """A loop over them would take minutes."""
    taps = 2**36
    load("conv_transpose2d", WINDOW | {"kh": taps}, 64, 4 * 256 * taps, 64)


def empty(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def counts(n: int) -> Array:
    return np.zeros(n, np.int64)


WINDOW: Params = {
    "n": 1, "c": 1, "h": 1, "w": 1, "m": 1, "oh": 1, "ow": 1, "kh": 1, "kw": 1, "sh": 1, "sw": 1, "dh": 1, "dw": 1,
    "group": 1, "cg": 1, "mg": 1,
}  # fmt: skip
RECURRENT: Params = {"kind": "rnn", "directions": 1, "batch": 1, "y_h": 1}
# Loops over nothing: a small record, its operands, and the change that makes it run for days.
LOOPS: dict[str, tuple[str, Params, list[Array | None], list[Array], Params]] = {
    "recurrent": (
        "recurrent", RECURRENT, [empty(0), empty(0), None, None, np.zeros(1, np.int32), None, None], [empty(0)],
        {"steps": MANY},
    ),
    "unique": (
        "unique", {"outer": 1, "n": 2, "results": 1, "dtype": 1}, [empty(0)], [empty(0), counts(1)], {"outer": MANY},
    ),
    "compress": (
        "compress", {"outer": 1, "inner": 1, "item": 4}, [empty(0), np.zeros(0, bool)], [empty(0), counts(1)],
        {"outer": MANY},
    ),
    "quant_range": (
        "quant_range", {"planes": 1, "c1": 1, "c0": 2, "c_last": 1}, [empty(0)], [empty(1), np.zeros(1, np.uint8)],
        {"planes": MANY},
    ),
    "conv2d": (
        "conv2d", WINDOW | {"kh": 2, "src_c0": 1}, [empty(1), empty(32)], [empty(16)], {"dh": 2**36, "sw": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LOOPS)
def test_loops_over_nothing_are_work(case: str) -> None:
    family, params, srcs, dsts, change = LOOPS[case]
    load_task(family, params, srcs, *dsts)
    with pytest.raises(_kernels.Refused, match=r"more (work|scratch) than its operands can ask for"):
        load_task(family, params | change, srcs, *dsts)


def test_a_task_without_elements_has_no_work() -> None:
    load_task("unary", {"n": 0}, [empty(0)], empty(0))
    load_task("recurrent", RECURRENT | {"steps": MANY}, [empty(0), empty(0), *[None] * 5], empty(0))


@pytest.mark.parametrize("sampling", [0, 1])
def test_cells_that_each_look_at_all_columns_are_work(sampling: int) -> None:
    """A region of one pixel's height, which is cut into many cells."""

    def pool(side: int) -> None:
        params: Params = {"n": 1, "c": 1, "h": 1, "w": side, "count": 1, "oh": side, "ow": 1, "scale": 1.0}
        region = np.array([0, 0, 0, side, 0], np.float32)
        load_task("roi", params | {"kind": "max", "sampling": sampling}, [empty(side), region], empty(side))

    pool(2**10)
    with pytest.raises(_kernels.Refused, match="more work than its operands can ask for"):
        pool(2**22)


@pytest.mark.parametrize("sw", [2**10, 2**30])
def test_scratch_is_bounded_by_the_operands(sw: int) -> None:
    srcs: Sequence[Array] = [empty(2), empty(16)]
    params = WINDOW | {"src_c0": 1, "sw": sw, "pl": 1}
    if sw < 2**20:
        load_task("conv2d", params, srcs, empty(16))
        return
    with pytest.raises(_kernels.Refused, match=r"conv2d: more (scratch|work) than its operands can ask for"):
        load_task("conv2d", params, srcs, empty(16))

"""strided_copy: every row against numpy's strides; out-of-bounds records are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table
from atcpy.ops.core.strided import collapse, row_major
from tests.isa import ISAS

ITEMS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


def run(params: dict[str, table.ParamValue], src: Array | None, dst: Array, isa: str | None = None) -> None:
    """Run one task on two arrays."""
    slots = [
        Slot(region, 0, array.nbytes, TensorDesc.plain(DType.from_numpy(array.dtype), array.shape))
        for region, array in ((Region.INPUT, src), (Region.OUTPUT, dst))
        if array is not None
    ]
    record = table.pack_task("strided_copy", slots[:-1], slots[-1:], table.pack_params("strided_copy", params))
    feeds = [] if src is None else [src]
    plan = _kernels.Plan(record, None, 0, [array.nbytes for array in feeds], [dst.nbytes], 2, isa)
    plan.start([array.reshape(-1).view(np.uint8) for array in feeds], [dst.reshape(-1).view(np.uint8)]).execute(0, 1)


@st.composite
def copies(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Dims, source strides of either sign, and destination strides in a random order with gaps."""
    dims = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 16, 17, 40]), max_size=5))
    while np.prod(dims) > 20000:
        dims.pop()
    src = [draw(st.sampled_from([1, 0, -1, 2, 7, -16, 40])) for _ in dims]
    dst, stride = [0] * len(dims), draw(st.sampled_from([1, 1, 2]))
    for axis in draw(st.permutations(range(len(dims)))):
        dst[axis] = stride
        stride *= max(dims[axis], 1) + draw(st.sampled_from([0, 0, 1]))
    return dims, src, dst


@pytest.mark.parametrize("isa", ISAS)
@given(copy=copies(), item=st.sampled_from(list(ITEMS)), collapsed=st.booleans())
def test_agrees_with_numpy(isa: str, copy: tuple[list[int], list[int], list[int]], item: int, collapsed: bool) -> None:
    dims, src_strides, dst_strides = copy
    below = sum((size - 1) * -stride for size, stride in zip(dims, src_strides, strict=True) if stride < 0 < size)
    above = sum((size - 1) * stride for size, stride in zip(dims, src_strides, strict=True) if stride > 0 < size)
    src = np.arange(1, below + above + 2).astype(ITEMS[item])
    dst = np.zeros(sum((max(size, 1) - 1) * at for size, at in zip(dims, dst_strides, strict=True)) + 4, ITEMS[item])
    expected = dst.copy()
    to = as_strided(expected[3:], dims, [stride * item for stride in dst_strides])
    to[...] = as_strided(src[below:], dims, [stride * item for stride in src_strides])
    if collapsed:
        dims, src_strides, dst_strides = collapse(dims, src_strides, dst_strides)
    params: dict[str, table.ParamValue] = {
        "rank": len(dims), "dims": dims, "src_strides": src_strides, "dst_strides": dst_strides,
        "src_offset": below, "dst_offset": 3, "item": item,
    }  # fmt: skip
    run(params, src, dst, isa)
    np.testing.assert_array_equal(dst, expected)


def test_fill() -> None:
    dst = np.zeros((3, 5), np.int16)
    run({"rank": 2, "dims": [2, 3], "dst_strides": [5, 1], "dst_offset": 6, "item": 2, "value": -2}, None, dst)
    np.testing.assert_array_equal(dst[1:, 1:4], -2)
    assert np.count_nonzero(dst) == 6


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("item", ITEMS)
def test_transposes_into_a_gap(item: int, isa: str) -> None:
    """Sides below, of and between tiles, between elements that stay as they are."""
    for rows in (3, 7, 8, 9, 15, 17, 70):
        for columns in (3, 5, 8, 11, 16, 25, 67):
            src = np.arange(1, rows * columns + 1).astype(ITEMS[item]).reshape(columns, rows)
            dst = np.zeros((rows + 2, columns + 3), ITEMS[item])
            expected = dst.copy()
            expected[1:-1, 2:-1] = src.T
            params: dict[str, table.ParamValue] = {
                "rank": 2, "dims": [rows, columns], "src_strides": [1, rows], "dst_strides": [columns + 3, 1],
                "dst_offset": columns + 5, "item": item,
            }  # fmt: skip
            run(params, src, dst, isa)
            np.testing.assert_array_equal(dst, expected)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("length", [3, 15, 16, 17, 31, 33, 70, 3000])
def test_triples_far_apart(length: int, isa: str) -> None:
    """Three rows into triples, past the caches, from each position in a cache line on."""
    blocks, apart = 2, (1 << 25) // 4 // 2 + 1
    src = np.arange(1, blocks * 3 * length + 1, dtype=np.uint32).reshape(blocks, 3, length)
    dst = np.zeros(blocks * apart, np.uint32)
    for offset in range(17):
        params: dict[str, table.ParamValue] = {
            "rank": 3, "dims": [blocks, length, 3], "src_strides": [3 * length, 1, length],
            "dst_strides": [apart, 3, 1], "dst_offset": offset, "item": 4,
        }  # fmt: skip
        run(params, src, dst, isa)
        for block in range(blocks):
            written = dst[block * apart + offset :][: 3 * length]
            np.testing.assert_array_equal(written.reshape(length, 3), src[block].T)
            written[:] = 0
    assert not np.any(dst)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("length", [1, 31, 33, 129, 200, 511, 700])
def test_runs_far_apart(length: int, item: int, isa: str) -> None:
    """A destination larger than caches is written past them, but for the ends of runs."""
    rows, apart = 3, (1 << 25) // item // 2 + 1
    src = np.arange(rows * length).astype(ITEMS[item]).reshape(rows, length)
    dst = np.zeros(rows * apart, ITEMS[item])
    for offset in range(3):
        params: dict[str, table.ParamValue] = {
            "rank": 2, "dims": [rows, length], "src_strides": [length, 1], "dst_strides": [apart, 1],
            "dst_offset": offset, "item": item,
        }  # fmt: skip
        run(params, src, dst, isa)
        for row in range(rows):
            np.testing.assert_array_equal(dst[row * apart + offset : row * apart + offset + length], src[row])
            np.testing.assert_array_equal(dst[row * apart + offset + length :][:99], 0)
            dst[row * apart :][: offset + length] = 0


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("outer", [7, 8, 70])
@pytest.mark.parametrize("length", [1, 31, 33, 129, 200, 1100])
def test_large_transposes_of_runs(length: int, outer: int, isa: str) -> None:
    """Runs that lie together in the source, in blocks of 11 in a destination larger than caches."""
    inner, apart = 11, (1 << 25) // 4 // outer + 1
    src = np.arange(1, inner * outer * length + 1, dtype=np.uint32).reshape(inner, outer, length)
    dst = np.zeros(outer * apart, np.uint32)
    params: dict[str, table.ParamValue] = {
        "rank": 3, "dims": [outer, inner, length], "src_strides": [length, outer * length, 1],
        "dst_strides": [apart, length, 1], "dst_offset": 3, "item": 4,
    }  # fmt: skip
    run(params, src, dst, isa)
    written = as_strided(dst[3:], (outer, inner, length), (4 * apart, 4 * length, 4))
    np.testing.assert_array_equal(written, src.swapaxes(0, 1))
    assert np.count_nonzero(dst) == src.size


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("value", [0, -1, 0x0101, 1, 0x0100])
@pytest.mark.parametrize("length", [2047, 2048, 20_000])
def test_long_fills(length: int, value: int, isa: str) -> None:
    dst = np.full((3, length + 5), 77, np.int16)
    run(
        {"rank": 2, "dims": [2, length], "dst_strides": [length + 5, 1], "dst_offset": length + 7, "item": 2,
         "value": value}, None, dst, isa,
    )  # fmt: skip
    np.testing.assert_array_equal(dst[1:, 2:-3], value)
    assert np.count_nonzero(dst == 77) == 3 * (length + 5) - 2 * length


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("length", [(1 << 17) - 1, 1 << 17, 300_000])
def test_fills_larger_than_caches(length: int, value: int, isa: str) -> None:
    """Runs of a part of a plate, of one, and of two and a part."""
    rows, apart = 2, (1 << 25) // 2 // 2 + 1
    dst = np.full(rows * apart, 77, np.int16)
    run(
        {"rank": 2, "dims": [rows, length], "dst_strides": [apart, 1], "dst_offset": 3, "item": 2, "value": value},
        None, dst, isa,
    )  # fmt: skip
    for row in range(rows):
        np.testing.assert_array_equal(dst[row * apart + 3 :][:length], value)
    assert np.count_nonzero(dst == 77) == rows * (apart - length)


def test_contiguous_dims_are_merged() -> None:
    shape = (2, 1, 3, 4)
    assert collapse(shape, row_major(shape), row_major(shape)) == ([24], [1], [1])
    assert collapse((2, 3, 4), (12, 1, 3), (12, 4, 1)) == ([2, 3, 4], [12, 1, 3], [12, 4, 1])
    assert collapse((2, 3), (1, 2), (1, 2)) == ([6], [1], [1])


FITS: dict[str, table.ParamValue] = {
    "rank": 2, "dims": [3, 4], "src_strides": [4, 1], "dst_strides": [4, 1], "item": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dims": [4, 4]}, "beyond the destination"),
        ({"dst_offset": 1}, "beyond the destination"),
        ({"dst_offset": -1}, "beyond the destination"),
        ({"src_offset": 1}, "beyond the source"),
        ({"src_offset": -(2**63)}, "beyond the source"),
        ({"src_strides": [-4, 1]}, "beyond the source"),
        ({"src_strides": [-(2**63), 1]}, "beyond the source"),
        ({"src_strides": [2**62, 1]}, "beyond the source"),
        ({"dst_strides": [0, 1]}, "not positive"),
        ({"dst_strides": [-4, 1], "dst_offset": 8}, "not positive"),
        ({"dims": [2**40, 2**40]}, "out of range"),
        ({"dims": [-3, 4]}, "out of range"),
        ({"rank": 9}, "out of range"),
        ({"item": 8}, "beyond the destination"),
        ({"item": 3}, "unknown size"),
    ],
)
def test_out_of_bounds_records_are_refused(change: dict[str, table.ParamValue], reason: str) -> None:
    src, dst = np.zeros(12, np.float32), np.zeros(12, np.float32)
    run(FITS, src, dst)
    with pytest.raises(_kernels.Refused, match=reason):
        run(FITS | change, src, dst)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("fills", [False, True])
def test_nothing_is_copied_into_an_empty_tensor(isa: str, fills: bool) -> None:
    """Its strides, row by row, are 0 before a dim of 0."""
    params: dict[str, table.ParamValue] = {
        "rank": 3, "dims": [5, 2, 0], "src_strides": [0] * 3, "dst_strides": [0, 0, 1], "dst_offset": 9, "item": 4
    }  # fmt: skip
    run(params, None if fills else np.ones(3, np.float32), np.zeros((5, 2, 0), np.float32), isa)
    with pytest.raises(_kernels.Refused, match="stride"):
        run(params | {"dims": [5, 2, 1]}, None, np.zeros((5, 2, 1), np.float32), isa)

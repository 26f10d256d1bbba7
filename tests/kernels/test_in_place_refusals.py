"""A destination may be the memory of a source only where each of its elements takes the same element of the source."""

from __future__ import annotations

import pytest

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.kernels import _kernels, table
from atcpy.kernels.table import ParamValue

Params = dict[str, ParamValue]
WALK: Params = {"rank": 2, "dims": [3, 4], "a_strides": [4, 1], "b_strides": [4, 1]}
SUM: Params = {"rows": 3, "n": 4, "run": 1, "period": 1, "lines": [3, 0, 0], "index_item": [8, 8, 8]}


def slot(number: int, dtype: DType, elements: int) -> Slot:
    """Operand `number`, 256 bytes behind the one before."""
    return Slot(Region.ARENA, 256 * number, dtype.nbytes(elements), TensorDesc.plain(dtype, (elements,)), 0)


def load(family: str, params: Params, srcs: list[Slot | None], dsts: list[Slot]) -> None:
    record = table.pack_task(family, srcs, dsts, table.pack_params(family, params))
    _kernels.Plan(record, None, 4096, [], [], 1)


@pytest.mark.parametrize(
    ("change", "elements", "reason"),
    [
        ({}, 12, None),
        ({"a_strides": [0, 1]}, 4, "in other steps"),
        ({"a_strides": [1, 0]}, 3, "in other steps"),
        ({"dims": [3, 3], "a_strides": [1, 1], "b_strides": [3, 1]}, 5, "in other steps"),
        ({"op": "Less"}, 12, "operands overlap"),
    ],
)
def test_a_source_that_is_broadcast_is_not_overwritten(change: Params, elements: int, reason: str | None) -> None:
    a, b = slot(0, DType.FLOAT32, 12), slot(1, DType.FLOAT32, 12)
    result = slot(0, DType.BOOL if "op" in change else DType.FLOAT32, 12)
    load("binary", WALK | change, [a, b], [slot(2, result.desc.dtype, 12)])
    if reason is None:
        load("binary", WALK | change, [a, b], [result])
        return
    with pytest.raises(_kernels.Refused, match=reason):
        load("binary", WALK | change, [a, b], [result])


def test_a_transposed_source_is_not_overwritten() -> None:
    square: Params = {"rank": 2, "dims": [4, 4], "item": 4, "c_strides": [4, 1], "b_strides": [4, 1]}
    srcs: list[Slot | None] = [slot(n, DType.BOOL if n == 0 else DType.FLOAT32, 16) for n in range(3)]
    load("where", square | {"a_strides": [4, 1]}, srcs, [slot(1, DType.FLOAT32, 16)])
    load("where", square | {"a_strides": [4, 0]}, srcs, [slot(3, DType.FLOAT32, 16)])
    with pytest.raises(_kernels.Refused, match="in other steps"):
        load("where", square | {"a_strides": [4, 0]}, srcs, [slot(1, DType.FLOAT32, 16)])


@pytest.mark.parametrize(
    ("change", "reason"),
    [({}, None), ({"lines": [2, 0, 0]}, "operands overlap"), ({"numbers": [3, 0, 0]}, "rows that indices name")],
)
def test_a_sum_overwrites_only_the_rows_that_it_takes(change: Params, reason: str | None) -> None:
    indices = slot(1, DType.INT64, 3) if "numbers" in change else None
    srcs = [slot(0, DType.FLOAT32, 12), None, None, indices, None, None, None, None]
    load("normalize", SUM | change, srcs, [slot(2, DType.FLOAT32, 12)])
    if reason is None:
        load("normalize", SUM | change, srcs, [slot(0, DType.FLOAT32, 12)])
        return
    with pytest.raises(_kernels.Refused, match=reason):
        load("normalize", SUM | change, srcs, [slot(0, DType.FLOAT32, 12)])


@pytest.mark.parametrize(("strides", "fits"), [([4, 1], True), ([5, 2], False), ([2, 1], False)])
def test_a_copy_writes_each_element_once(strides: list[int], fits: bool) -> None:
    copy: Params = {"rank": 2, "dims": [3, 4], "src_strides": [4, 1], "dst_strides": strides, "item": 4}
    operands = [slot(0, DType.FLOAT32, 12)], [slot(1, DType.FLOAT32, 40)]
    if fits:
        load("strided_copy", copy, *operands)
        return
    with pytest.raises(_kernels.Refused, match="overlap"):
        load("strided_copy", copy, *operands)


def test_lanes_that_are_scattered_to_lie_apart() -> None:
    params: Params = {
        "kind": "none", "rank": 1, "dims": [3], "index_strides": [1], "data_strides": [1], "count": 2,
        "index_step": 3, "size": 4, "data_step": 3, "item": 4, "index_item": 8,
    }  # fmt: skip
    srcs: list[Slot | None] = [slot(0, DType.FLOAT32, 6), slot(1, DType.INT64, 6)]
    load("elements", params, srcs, [slot(2, DType.FLOAT32, 12)])
    for change in ({"data_strides": [0]}, {"data_step": 1}, {"data_step": 0}):
        with pytest.raises(_kernels.Refused, match="lanes that are written overlap"):
            load("elements", params | change, srcs, [slot(2, DType.FLOAT32, 12)])


def test_lanes_that_are_gathered_lie_apart() -> None:
    params: Params = {
        "kind": "gather", "rank": 2, "dims": [4, 3], "index_strides": [6, 1], "data_strides": [7, 1], "count": 2,
        "index_step": 3, "size": 3, "data_step": 3, "item": 8, "index_item": 4,
    }  # fmt: skip
    srcs: list[Slot | None] = [slot(0, DType.INT64, 32), slot(1, DType.INT32, 24)]
    load("elements", params, srcs, [slot(2, DType.INT64, 32)])
    for change in ({"index_strides": [5, 1]}, {"index_step": 2}):
        with pytest.raises(_kernels.Refused, match="overlap"):
            load("elements", params | change, srcs, [slot(2, DType.INT64, 32)])

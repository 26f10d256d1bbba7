"""gather, reduce, resize2d, transdata and trilu refuse records that would access memory outside their operands."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.kernels import _kernels, table
from tests.harness import load_task

Params = dict[str, table.ParamValue]

GATHER: Params = {"outer": 2, "count": 3, "depth": 1, "dims": [4], "inner": 5, "item": 4, "index_item": 8}
RESIZE: Params = {"outer": 2, "h": 4, "w": 5, "oh": 2, "ow": 3, "c0": 1, "item": 4, "scale_h": 0.5, "scale_w": 0.6}
TRANSDATA: Params = {"n": 2, "c": 4, "hw": 5, "c0": 16, "to_blocked": 1, "item": 4}

TRILU: Params = {"matrices": 2, "rows": 3, "cols": 4, "upper": 1, "item": 4}
REDUCE: Params = {
    "kept": [2, 1, 1, 1],
    "kept_stride": [3] * 4,
    "reduced": [3, 1, 1, 1],
    "reduced_stride": [1] * 4,
    "inner": 1,
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dims": [5]}, "too small"),
        ({"count": 4}, "too small"),
        ({"outer": 3}, "too small"),
        ({"index_stride": 3}, "too small"),
        ({"index_stride": 2}, "index_stride fits neither way"),
        ({"depth": 2, "dims": [4, 1]}, "too small"),
        ({"depth": 9}, "out of range"),
        ({"index_item": 4}, "neither int32 nor int64"),
        ({"inner": 2**46, "outer": 2**46}, "too small"),
        ({"item": 3}, "unknown size"),
    ],
)
def test_gather(change: Params, reason: str) -> None:
    operands = [np.zeros((2, 4, 5), np.float32), np.zeros(3, np.int64)], np.zeros((2, 3, 5), np.float32)
    load_task("gather", GATHER, *operands)
    with pytest.raises(_kernels.Refused, match=reason):
        load_task("gather", GATHER | change, *operands)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"h": 5}, "too small"),
        ({"oh": 3}, "too small"),
        ({"c0": 2}, "too small"),
        ({"outer": -1}, "out of range"),
        ({"w": 0}, "out of range"),
        ({"w": 2**25}, "out of range"),
        ({"scale_h": -0.5}, "scale"),
        ({"scale_w": float("nan")}, "scale"),
        ({"scale_w": float("inf")}, "scale"),
        ({"mode": "linear", "item": 1}, "float32 only"),
    ],
)
def test_resize2d(change: Params, reason: str) -> None:
    operands = [np.zeros((2, 4, 5), np.float32)], np.zeros((2, 2, 3), np.float32)
    load_task("resize2d", RESIZE, *operands)
    with pytest.raises(_kernels.Refused, match=reason):
        load_task("resize2d", RESIZE | change, *operands)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"c": 17}, "too small"),
        ({"to_blocked": 0}, "too small"),
        ({"to_blocked": 2}, "neither 0 nor 1"),
        ({"c0": 0}, "out of range"),
        ({"n": -1}, "out of range"),
        ({"hw": 2**46, "n": 2**46}, "too small"),
        ({"item": 16}, "unknown size"),
    ],
)
def test_transdata(change: Params, reason: str) -> None:
    operands = [np.zeros((2, 4, 5), np.float32)], np.zeros((2, 1, 5, 16), np.float32)
    load_task("transdata", TRANSDATA, *operands)
    with pytest.raises(_kernels.Refused, match=reason):
        load_task("transdata", TRANSDATA | change, *operands)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 4}, "too small"),
        ({"matrices": 2**46, "rows": 2**46}, "too small"),
        ({"cols": -1}, "out of range"),
        ({"upper": 2}, "neither 0 nor 1"),
        ({"item": 3}, "unknown size"),
    ],
)
def test_trilu(change: Params, reason: str) -> None:
    operands = [np.zeros((2, 3, 4), np.float32), np.zeros(1, np.int64)], np.zeros((2, 3, 4), np.float32)
    load_task("trilu", TRILU, *operands)
    with pytest.raises(_kernels.Refused, match=reason):
        load_task("trilu", TRILU | change, *operands)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kept": [2**31, 2**40, 0, 0]}, "too many elements"),
        ({"reduced": [2**40, 2**40, 0, 1]}, "too many elements"),
        ({"reduced": [3, 0, 1, 1]}, "empty dim must come first"),
        ({"kept": [3, 1, 1, 1]}, "too small"),
    ],
)
def test_reduce(change: Params, reason: str) -> None:
    operands = [np.zeros((2, 3), np.float32)], np.zeros(2, np.float32)
    load_task("reduce", REDUCE, *operands)
    with pytest.raises(_kernels.Refused, match=reason):
        load_task("reduce", REDUCE | change, *operands)

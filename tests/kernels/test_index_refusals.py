"""Kernels of irregular ops refuse records that would access memory outside their operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table
from tests.harness import load_task

Params = dict[str, table.ParamValue]


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def counts(*shape: int) -> Array:
    return np.zeros(shape, np.int64)


ONE = counts(1)
BASES: dict[str, tuple[Params, list[Array], list[Array]]] = {
    "elements": (
        {"kind": "add", "rank": 1, "dims": [3], "index_strides": [1], "data_strides": [1], "count": 2, "index_step": 3,
         "size": 5, "data_step": 3, "item": 4, "index_item": 8, "dtype": 1},
        [zeros(2, 3), counts(2, 3)], [zeros(5, 3)],
    ),
    "scatter_nd": (
        {"kind": "max", "count": 2, "depth": 1, "dims": [5], "inner": 3, "item": 4, "index_item": 8, "dtype": 1},
        [zeros(2, 3), counts(2, 1)], [zeros(5, 3)],
    ),
    "tensor_scatter": (
        {"batch": 2, "groups": 1, "count": 2, "size": 5, "inner": 3, "item": 4},
        [zeros(2, 2, 3), counts(2)], [zeros(2, 5, 3)],
    ),
    "cumulate": ({"outer": 2, "n": 5, "inner": 3, "dtype": 1}, [zeros(2, 5, 3)], [zeros(2, 5, 3)]),
    "onehot": (
        {"outer": 2, "depth": 5, "inner": 3, "item": 4, "dtype": 7}, [counts(2, 3), zeros(2)], [zeros(2, 5, 3)],
    ),
    "topk": (
        {"outer": 2, "n": 5, "inner": 3, "k": 2, "largest": 1, "dtype": 1},
        [zeros(2, 5, 3)], [zeros(2, 2, 3), counts(2, 2, 3)],
    ),
    "reverse_sequence": (
        {"steps": 4, "batches": 2, "inner": 3, "item": 4}, [zeros(4, 2, 3), counts(2)], [zeros(4, 2, 3)],
    ),
    "pad": (
        {"mode": "reflect", "rank": 2, "dims": [4, 9], "sizes": [4, 3], "before": [0, 5],
         "x_strides": [3, 1], "item": 4},
        [zeros(4, 3)], [zeros(4, 9)],
    ),
    "nonzero": ({"rank": 2, "dims": [4, 3], "item": 4, "is_float": 1}, [zeros(4, 3)], [counts(2, 12), ONE]),
    "compress": (
        {"outer": 2, "n": 5, "inner": 3, "item": 4, "conditions": 5},
        [zeros(2, 5, 3), np.zeros(5, bool)], [zeros(2, 5, 3), ONE],
    ),
    "unique": (
        {"outer": 2, "n": 5, "inner": 3, "sorted": 1, "results": 3, "dtype": 1},
        [zeros(2, 5, 3)], [zeros(2, 5, 3), counts(5), counts(5), ONE],
    ),
    "normalize": (
        {"rows": 6, "n": 5, "run": 1, "period": 1, "lines": [4, 3, 6], "numbers": [6, 2, 3], "index_item": [8, 8, 8]},
        [zeros(4, 5), zeros(5), zeros(5), counts(6), counts(2), counts(3), zeros(3, 5), zeros(6, 5)],
        [zeros(6, 5), zeros(6, 5)],
    ),
    "nms": (
        {"batches": 1, "classes": 2, "n": 5, "room": 3}, [zeros(1, 5, 4), zeros(1, 2, 5)], [counts(6, 3), ONE],
    ),
}  # fmt: skip


def load(family: str, params: Params, srcs: Sequence[Array | None], dsts: Sequence[Array]) -> None:
    load_task(family, params, srcs, *dsts)


@pytest.mark.parametrize("family", BASES)
def test_valid_records_are_accepted(family: str) -> None:
    load(family, *BASES[family])


@pytest.mark.parametrize("family", BASES)
def test_operands_that_are_too_small_are_refused(family: str) -> None:
    params, srcs, dsts = BASES[family]
    for number in range(len(srcs) + len(dsts)):
        operands = [*srcs, *dsts]
        operands[number] = operands[number].reshape(-1)[:-1].copy()
        with pytest.raises(_kernels.Refused, match="too small"):
            load(family, params, operands[: len(srcs)], operands[len(srcs) :])


@pytest.mark.parametrize("size", [-1, 2**46, 2**62])
@pytest.mark.parametrize("family", BASES)
def test_inconsistent_sizes_are_refused(family: str, size: int) -> None:
    params, srcs, dsts = BASES[family]
    flags = {"kind", "mode", "item", "index_item", "dtype", "is_float", "largest", "sorted", "results", "before"}
    for name, value in params.items():
        if name in flags:
            continue
        change = [size, *value[1:]] if isinstance(value, list) else size
        with pytest.raises(_kernels.Refused):
            load(family, params | {name: change}, srcs, dsts)


@pytest.mark.parametrize(
    ("family", "change", "reason"),
    [
        ("elements", {"index_strides": [0]}, "lanes overlap"),
        ("elements", {"item": 8}, "cannot be combined"),
        ("elements", {"dtype": 6}, "cannot be combined"),
        ("elements", {"index_item": 4}, "unknown size"),
        ("scatter_nd", {"dtype": 6}, "cannot be combined"),
        ("scatter_nd", {"depth": 9}, "out of range"),
        ("tensor_scatter", {"circular": 2}, "neither 0 nor 1"),
        ("tensor_scatter", {"size": 1}, "out of range"),
        ("cumulate", {"dtype": 11}, "not numbers of one type"),
        ("cumulate", {"reverse": 2}, "neither 0 nor 1"),
        ("onehot", {"dtype": 6}, "unknown type"),
        ("topk", {"k": 6}, "out of range"),
        ("topk", {"dtype": 6}, "no order"),
        ("pad", {"sizes": [4, 0]}, "out of range"),
        ("pad", {"rank": 0}, "out of range"),
        ("pad", {"item": 3}, "unknown size"),
        ("nonzero", {"is_float": 2}, "neither 0 nor 1"),
        ("nonzero", {"item": 8}, "another size"),
        ("nonzero", {"item": 2}, "another size"),
        ("nonzero", {"rank": 9}, "out of range"),
        ("elements", {"rank": 9}, "out of range"),
        ("elements", {"rank": -1}, "out of range"),
        ("unique", {"results": 4}, "number of operands"),
        ("normalize", {"lines": [4, 0, 6]}, "indices are missing"),
        ("normalize", {"numbers": [6, 0, 3]}, "indices are missing"),
        ("normalize", {"lines": [0, 3, 6]}, "number of operands"),
        ("normalize", {"index_item": [8, 4, 8]}, "neither int32 nor int64"),
        ("normalize", {"run": 5}, "rows alone"),
        ("normalize", {"lines": [-4, 3, 6]}, "out of range"),
        ("nms", {"room": 6}, "out of range"),
        ("nms", {"centred": 2}, "neither 0 nor 1"),
    ],
)
def test_invalid_parameters_are_refused(family: str, change: Params, reason: str) -> None:
    params, srcs, dsts = BASES[family]
    with pytest.raises(_kernels.Refused, match=reason):
        load(family, params | change, srcs, dsts)


def test_a_copy_onto_itself_is_a_no_op() -> None:
    slot = Slot(Region.ARENA, 0, 64, TensorDesc.plain(DType.FLOAT32, (16,)), 0)
    params: Params = {"rank": 1, "dims": [8], "src_strides": [1], "dst_strides": [1], "item": 4}
    for change, fits in ({}, True), ({"dst_offset": 4}, False), ({"src_strides": [2]}, False):
        record = table.pack_task("strided_copy", [slot], [slot], table.pack_params("strided_copy", params | change))
        if fits:
            _kernels.Plan(record, None, 64, [], [], 1)
        else:
            with pytest.raises(_kernels.Refused, match="moves elements"):
                _kernels.Plan(record, None, 64, [], [], 1)

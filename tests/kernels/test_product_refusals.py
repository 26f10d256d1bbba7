"""Convolutions and matrix products refuse records that would access memory outside their operands.

The operands of each base record are exactly as large as it needs: it loads, and no operand may be smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from atcpy.ir.dtype import DType
from atcpy.ir.tensor import Array
from atcpy.kernels import table
from atcpy.kernels._kernels import Refused
from tests.harness import load_task

Params = dict[str, table.ParamValue]

WINDOW: Params = {"n": 2, "h": 5, "w": 6, "oh": 3, "ow": 4, "kh": 2, "kw": 3, "sh": 1, "sw": 1, "dh": 1, "dw": 1}
SQUARE: Params = WINDOW | {"kh": 3}
GROUPED: Params = WINDOW | {"group": 2, "c": 48, "cg": 32, "m": 32, "mg": 16}
HALF = {"weights": "f16"}
PAIRS: Params = {"weights": "bf16_vnni2"}
SPATIAL: Params = {"kernel": [1, 2, 2], "stride": [1, 1, 1], "dilation": [1, 1, 1], "pad": [0, 0, 0]}
MATMUL: Params = {
    "batch": [1, 1, 1, 2, 3], "a_batch": [0, 0, 0, 60, 20], "b_batch": [0, 0, 0, 0, 30], "y_batch": [0, 0, 0, 72, 24],
    "m": 4, "k": 5, "n": 6, "a_row": 5, "a_col": 1, "b_row": 6, "b_col": 1, "y_row": 6, "bias_row": 6, "bias_col": 1,
    "scale": 1.0, "bias_scale": 1.0,
}  # fmt: skip
PACKED: Params = MATMUL | {"b_packed": 1, "b_batch": [0, 0, 0, 0, 256], "weights": "bf16"}
# Parameters, number of elements of each source and of the result, dtype of the weights.
BASES: dict[str, tuple[str, Params, list[int], int, str]] = {
    "conv2d": ("conv2d", GROUPED | {"src_c0": 16}, [2880, 6144, 32, 768], 768, "f32"),
    "conv2d_half": ("conv2d", GROUPED | HALF | {"src_c0": 16}, [2880, 6144, 32, 768, 32], 768, "f16"),
    "conv2d_columns": ("conv2d",
                       WINDOW | PAIRS | {"sw": 2, "group": 1, "c": 3, "cg": 3, "m": 20, "mg": 20, "src_c0": 1},
                       [180, 768, 20, 1 * 768], 768, "bf16"),
    "conv2d_plain": ("conv2d", WINDOW | {"group": 1, "c": 3, "cg": 3, "m": 20, "mg": 20, "src_c0": 1},
                     [180, 576, 20, 1 * 768], 768, "f32"),
    "winograd2d": ("winograd2d", SQUARE | {"tile": 4, "group": 1, "c": 40, "cg": 40, "m": 20, "mg": 20},
                   [2880, 13824, 20, 768], 768, "f32"),
    "winograd2d_strided": ("winograd2d",
                           SQUARE | {"tile": 2, "sh": 2, "sw": 2, "group": 1, "c": 40, "cg": 40, "m": 20, "mg": 20},
                           [2880, 13824, 20, 768], 768, "f32"),
    "winograd2d_pairs": ("winograd2d", SQUARE | PAIRS | {"tile": 2, "group": 1, "c": 40, "cg": 40, "m": 20, "mg": 20},
                         [2880, 13824, 20, 768], 768, "bf16"),
    "conv_transpose2d": ("conv_transpose2d", GROUPED, [2880, 6144, 32, 768], 768, "f32"),
    "depthwise2d": ("depthwise2d", WINDOW | {"c": 20, "m": 20}, [1920, 192, 20, 768], 768, "f32"),
    "depthwise2d_half": ("depthwise2d", WINDOW | HALF | {"c": 20, "m": 20}, [1920, 192, 20, 768, 20], 768, "f16"),
    "convnd": ("convnd", SPATIAL | {"n": 2, "group": 2, "cg": 3, "mg": 5, "in": [1, 4, 5], "out": [1, 3, 4]},
               [240, 120, 10], 240, "f32"),
    "col2im": ("col2im", SPATIAL | {"planes": 3, "image": [1, 4, 5], "cols": [1, 3, 4]}, [144], 60, "f32"),
    "matmul": ("matmul", MATMUL, [120, 90, 24, 144], 144, "f32"),
    "matmul_packed": ("matmul", PACKED, [120, 768, 24, 144], 144, "bf16"),
}  # fmt: skip
DTYPES = {dtype.short: dtype.numpy for dtype in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)}
HUGE = 2**46
FLAGS = {"src_c0", "tile", "transposed", "b_packed", "falls_back"}
MAY_BE_ZERO = {
    "conv2d": {"pt", "pl"},
    "winograd2d": {"pt", "pl"},
    "conv_transpose2d": {"pt", "pl"},
    "depthwise2d": {"pt", "pl"},
    "convnd": {"cg", "pad"},
    "col2im": {"planes", "pad"},
}
BLOCKED = [
    ({"n": 3}, "too small"), ({"h": 6}, "too small"), ({"w": 7}, "too small"), ({"oh": 4}, "too small"),
    ({"ow": 5}, "too small"), ({"kh": 3}, "too small"), ({"kw": 4}, "too small"), ({"n": 0}, "out of range"),
    ({"dw": 0}, "out of range"), ({"pt": -1}, "out of range"), ({"pl": 2**47}, "out of range"),
]  # fmt: skip
GROUPS = [
    ({"c": 65}, "groups do not fit"), ({"c": 32}, "groups do not fit"), ({"cg": 24}, "whole blocks"),
    ({"mg": 24, "m": 48}, "whole blocks"), ({"c": 49}, "too small"), ({"group": 3, "c": 96, "m": 48}, "too small"),
]  # fmt: skip
REACH = [({"dh": HUGE * 2 - 1}, "too far"), ({"dw": HUGE}, "too far")]
STRIDES = [({"sh": HUGE}, "too far"), ({"sw": HUGE}, "too far")]
CHANGES: dict[str, list[tuple[Params, str]]] = {
    "conv2d": [
        *BLOCKED, *GROUPS, *REACH, *STRIDES, ({"src_c0": 1}, "whole blocks"), ({"src_c0": 8}, "neither 1 nor 16"),
    ],
    "conv2d_columns": [
        ({"sw": 1}, "an odd stride or a dilation"), ({"sw": 3}, "an odd stride or a dilation"),
        ({"dw": 2}, "an odd stride or a dilation"), ({"kw": 5}, "too small"), ({"x_type": "bf16"}, "of another type"),
    ],
    "conv2d_half": [({"weights": "f32"}, "too small or of another type"), ({"weights": "bf16"}, "of another type")],
    "conv2d_plain": [
        *BLOCKED, ({"c": 4, "cg": 4}, "too small"), ({"c": 2}, "groups do not fit"), ({"mg": 16}, "groups do not fit"),
    ],
    "winograd2d": [
        *(row for row in BLOCKED if "kh" not in row[0]), ({"c": 41}, "groups do not fit"),
        ({"c": 49, "cg": 49}, "too small"), ({"m": 33, "mg": 33}, "too small"),
        *[({name: 2}, "not of 3x3 at stride 1 or 2") for name in ("sh", "sw", "dh", "dw")],
        ({"sh": 3, "sw": 3}, "not of 3x3 at stride 1 or 2"), ({"sh": 2, "sw": 2}, "of large tiles"),
        ({"kh": 2}, "not of 3x3"), ({"kw": 2}, "not of 3x3"), ({"weights": "f16"}, "too small or of another type"),
        ({"group": 2, "cg": 32, "mg": 16}, "not of 3x3 at stride 1 or 2 in one group"),
        ({"falls_back": 2}, "neither 0 nor 1"), ({"falls_back": -1}, "neither 0 nor 1"),
        *[({"tile": tile}, "neither of 4x4 nor of 2x2") for tile in (0, 1, 3, 5, -2)],
        ({"tile": 2}, "not in pairs"),
    ],
    "winograd2d_strided": [
        ({"tile": 4}, "of large tiles"), ({"falls_back": 2}, "neither 0 nor 1"), ({"sw": 1}, "not of 3x3 at stride"),
        ({"weights": "bf16_vnni2"}, "of another type"), ({"h": 9}, "too small"), ({"oh": 5}, "too small"),
    ],
    "winograd2d_pairs": [
        ({"sh": 2, "sw": 2}, "of weights in pairs"),
        ({"falls_back": 1}, "the definition of other weights"), ({"c": 39, "cg": 39}, "of odd channels"),
        ({"tile": 3}, "neither of 4x4 nor of 2x2"),
    ],
    "conv_transpose2d": [*BLOCKED, *GROUPS, *REACH],
    "depthwise2d": [*BLOCKED, *REACH, *STRIDES, ({"c": 21}, "as many"), ({"c": 33, "m": 33}, "too small")],
    "depthwise2d_half": [({"weights": "f32"}, "of another type"), ({"weights": "bf16"}, "of another type")],
    "convnd": [
        ({"n": 3}, "too small"), ({"group": 3}, "too small"), ({"cg": 4}, "too small"), ({"mg": 6}, "too small"),
        ({"in": [2, 4, 5]}, "too small"), ({"out": [1, 3, 5]}, "too small"), ({"kernel": [1, 2, 3]}, "too small"),
        ({"mg": 0}, "out of range"), ({"cg": -1}, "out of range"), ({"pad": [0, 0, -1]}, "out of range"),
        ({"dilation": [1, 0, 1]}, "out of range"), ({"transposed": 2}, "neither 0 nor 1"),
        ({"stride": [1, 1, HUGE]}, "too far"), ({"transposed": 1, "stride": [1, HUGE, 1]}, "too far"),
        ({"dilation": [1, HUGE, 1]}, "too far"), ({"cg": 0, "in": [HUGE, HUGE, 1]}, "too far|out of range"),
        ({"cg": 0, "kernel": [2**23, 2**23, 2]}, "out of range"),
    ],
    "col2im": [
        ({"planes": 4}, "too small"), ({"image": [1, 4, 6]}, "too small"), ({"cols": [1, 4, 4]}, "too small"),
        ({"kernel": [2, 2, 2]}, "too small"), ({"planes": -1}, "out of range"), ({"pad": [-1, 0, 0]}, "out of range"),
        ({"image": [0, 4, 5]}, "out of range"), ({"stride": [1, 1, HUGE]}, "too far"),
        ({"dilation": [1, HUGE, 1]}, "too far"),
    ],
    "matmul": [
        ({"m": 5}, "overlap"), ({"m": 5, "y_batch": [0, 0, 0, 90, 30]}, "too small"), ({"k": 6}, "too small"),
        ({"n": 7}, "overlap"), ({"a_row": 6}, "too small"), ({"b_row": 7}, "too small"), ({"b_col": 2}, "too small"),
        ({"a_batch": [0, 0, 0, 61, 20]}, "too small"), ({"b_batch": [0, 0, 0, 1, 30]}, "too small"),
        ({"batch": [2, 1, 1, 2, 3], "y_batch": [144, 0, 0, 72, 24]}, "too small"),
        ({"y_batch": [0, 0, 0, 72, 23]}, "overlap"), ({"y_row": 5}, "overlap"), ({"a_col": 0}, "step along k"),
        ({"bias_row": 7}, "bias or residual"), ({"bias_col": 2}, "neither 0 nor 1"), ({"scale": 2.0}, "residual needs"),
        ({"weights": "f16"}, "must be packed"), ({"b_packed": 2}, "packed so"), ({"b_packed": 1}, "too small"),
        ({"k": -1}, "out of range"), ({"batch": [1, 1, 1, 2, -1]}, "out of range"), ({"k": HUGE, "a_row": HUGE}, "too"),
    ],
    "matmul_packed": [
        ({"n": 17, "y_row": 17, "y_batch": [0, 0, 0, 204, 68]}, "too small"), ({"weights": "f16"}, "of another type"),
        ({"b_batch": [0, 0, 0, 1, 256]}, "too small"), ({"weights": "f32"}, "too small or of another type"),
    ],
}  # fmt: skip


def operands(base: str) -> list[Array]:
    """The sources followed by the result."""
    _, _, sizes, result, weights = BASES[base]
    types = [weights if index == 1 else "f32" for index in range(len(sizes))]
    return [np.zeros(size, DTYPES[name]) for size, name in zip([*sizes, result], [*types, "f32"], strict=True)]


def load(base: str, change: Params, arrays: Sequence[Array | None], results: int = 1) -> None:
    """Make a plan of a base record with changes; the last arrays are its results."""
    family, params, *_ = BASES[base]
    load_task(family, params | change, arrays[:-results], *(array for array in arrays[-results:] if array is not None))


@pytest.mark.parametrize(("base", "change", "reason"), [(base, *row) for base, rows in CHANGES.items() for row in rows])
def test_records_that_reach_too_far_are_refused(base: str, change: Params, reason: str) -> None:
    load(base, {}, operands(base))
    with pytest.raises(Refused, match=reason):
        load(base, change, operands(base))


@pytest.mark.parametrize("base", BASES)
def test_sizes_out_of_range_are_refused(base: str) -> None:
    family, params, *_ = BASES[base]
    for field in table.families()[family]:
        if field.is_float or field.choices or field.name in FLAGS:
            continue
        may_be_zero = family == "matmul" or field.name in MAY_BE_ZERO[family]
        for index, size in product(range(field.count), (-1 if may_be_zero else 0, 2**47, 2**62)):
            value = params.get(field.name, 0)
            changed = [*value[:index], size, *value[index + 1 :]] if isinstance(value, list) else size
            with pytest.raises(Refused, match="out of range"):
                load(base, {field.name: changed}, operands(base))


@pytest.mark.parametrize(("weights", "dtype"), [(HALF, np.float16), (PAIRS, ml_dtypes.bfloat16)], ids=["half", "pairs"])
def test_winograd_takes_weights_of_16_bits(weights: dict[str, str], dtype: type) -> None:
    arrays = operands("winograd2d")
    arrays[1] = arrays[1].astype(dtype)
    load("winograd2d", weights, arrays)


@pytest.mark.parametrize(
    ("base", "change", "reason"),
    [
        ("conv2d_half", {}, "with a scale"),
        ("conv_transpose2d", {}, "does not multiply"),
        ("depthwise2d", {}, "multiplied alone"),
        ("matmul_packed", {"a_col": 4, "a_row": 1}, "an input that is not"),
        ("matmul", {}, "must be packed"),
    ],
)
def test_pairs_are_refused_where_no_kernel_multiplies_them(base: str, change: Params, reason: str) -> None:
    arrays = operands(base)
    arrays[1] = arrays[1].astype(ml_dtypes.bfloat16)
    with pytest.raises(Refused, match=reason):
        load(base, PAIRS | change, arrays)


def test_pairs_are_accepted_where_kernels_multiply_them() -> None:
    load("matmul_packed", PAIRS, operands("matmul_packed"))
    for base in ("conv2d", "conv2d_half"):
        arrays = operands(base)
        arrays[1] = arrays[1].astype(ml_dtypes.bfloat16)
        load(base, PAIRS, [*arrays[:4], arrays[-1]])


SMALL: Params = MATMUL | {"batch": [2] * 5, "a_batch": [0] * 5, "b_batch": [0] * 5, "m": 2, "k": 1, "n": 1, "y_row": 1}


def test_overlapping_result_strides_are_refused() -> None:
    load("matmul", SMALL | {"y_batch": [32, 16, 8, 4, 2]}, operands("matmul"))
    with pytest.raises(Refused, match="overlap"):
        load("matmul", SMALL | {"y_batch": [16, 16, 8, 4, 2]}, operands("matmul"))


def test_empty_sums_and_empty_results_are_accepted() -> None:
    a, b, bias, residual, y = operands("matmul")
    load("matmul", {"k": 0}, [a[:100], b[:60], bias, residual, y])  # as far as the batch strides reach
    with pytest.raises(Refused, match="too small"):
        load("matmul", {"k": 0}, [a[:99], b[:60], bias, residual, y])
    for change in ({"m": 0}, {"n": 0}, {"batch": [1, 1, 1, 0, 3]}):
        load("matmul", change, [a[:0], b[:0], bias[:0], residual[:0], y[:0]])


@pytest.mark.parametrize("base", BASES)
def test_operands_that_are_too_small_are_refused(base: str) -> None:
    arrays = operands(base)
    for index, array in enumerate(arrays):
        with pytest.raises(Refused, match="too small"):
            load(base, {}, [*arrays[:index], array[1:], *arrays[index + 1 :]])


@pytest.mark.parametrize("base", BASES)
def test_only_optional_operands_may_be_omitted(base: str) -> None:
    *sources, result = operands(base)
    required = min(len(sources), 2)
    load(base, {}, [*sources[:required], *[None] * (len(sources) - required), result])
    load(base, {}, [*sources[:required], result])
    for index in range(required):
        with pytest.raises(Refused, match=r"of another type|of an unknown type|packed so"):
            load(base, {}, [*sources[:index], None, *sources[index + 1 :], result])


@pytest.mark.parametrize("base", BASES)
def test_a_wrong_number_of_operands_is_refused(base: str) -> None:
    *sources, result = operands(base)
    room = {"convnd": 3, "col2im": 1, "matmul": 4}.get(BASES[base][0], 5)
    full = [*sources, *[None] * (room - len(sources))]
    load(base, {}, [*full, result])
    fewer = [*sources[: min(room, 2) - 1], result]
    for arrays, results in ((fewer, 1), ([*full, None, result], 1), ([*full, result, result], 2)):
        with pytest.raises(Refused, match="wrong number of operands"):
            load(base, {}, arrays, results)

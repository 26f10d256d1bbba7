"""DeformConv against ONNX Runtime and the definition; out-of-bounds task records are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper

import atcpy
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table
from tests.harness import load_task
from tests.ort import open_ort

Attrs = dict[str, object]


def model_of(feeds: dict[str, Array], attrs: Attrs, *, is_open: bool) -> ModelProto:
    """Build a model of one DeformConv; batch and spatial dims may be symbolic."""
    names = [name if name in feeds else "" for name in ("x", "w", "offset", "b", "mask")]
    node = helper.make_node("DeformConv", names, ["y"], **attrs)
    dims: dict[str, list[str | None]] = {
        "x": ["n", None, "h", "w"],
        "offset": ["n", None, "oh", "ow"],
        "mask": ["n", None, "oh", "ow"],
    }
    dims = dims if is_open else {}
    kind = helper.np_dtype_to_tensor_dtype(feeds["x"].dtype)
    infos = [
        helper.make_tensor_value_info(
            name, kind, [d or s for d, s in zip(dims.get(name, array.shape), array.shape, strict=True)]
        )
        for name, array in feeds.items()
    ]
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", kind, [None] * 4)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


CASES: dict[str, tuple[Attrs, int, int, bool, bool]] = {  # attributes, channels, results, bias and mask
    "plain": ({}, 3, 4, False, False),
    "padded": ({"pads": [1, 1, 1, 1]}, 2, 5, True, False),
    "strided": ({"pads": [2, 1, 0, 1], "strides": [2, 1]}, 2, 2, False, True),
    "dilated": ({"pads": [2, 2, 2, 2], "dilations": [2, 2]}, 1, 3, True, True),
    "groups": ({"pads": [1, 1, 1, 1], "group": 2, "offset_group": 2}, 4, 6, True, True),
    "offset groups": ({"offset_group": 3}, 6, 2, False, True),
}


def feeds_of(case: str, dtype: type = np.float32) -> dict[str, Array]:
    attrs, channels, results, has_bias, has_mask = CASES[case]
    rng = np.random.default_rng(1)
    size, kernel = np.array([7, 9]), np.array([3, 2])
    pads = np.array(attrs.get("pads", [0] * 4))
    dilated = (kernel - 1) * np.array(attrs.get("dilations", [1, 1])) + 1
    out = (size + pads[:2] + pads[2:] - dilated) // np.array(attrs.get("strides", [1, 1])) + 1
    taps = int(attrs.get("offset_group", 1)) * 6  # type: ignore[call-overload]
    feeds = {
        "x": rng.normal(size=(2, channels, *size)),
        "w": rng.normal(size=(results, channels // int(attrs.get("group", 1)), *kernel)),  # type: ignore[call-overload]
        "offset": rng.normal(size=(2, taps * 2, *out)) * 2,
    }
    feeds["offset"].reshape(-1)[:4] = [0, -1, 100, -100]
    if has_bias:
        feeds["b"] = rng.normal(size=results)
    if has_mask:
        feeds["mask"] = rng.random((2, taps, *out))
    return {name: array.astype(dtype) for name, array in feeds.items()}


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_onnxruntime(case: str, is_open: bool, tmp_path: Path) -> None:
    feeds = feeds_of(case, np.float64 if case == "dilated" else np.float32)
    model = model_of(feeds, CASES[case][0], is_open=is_open)
    report = atcpy.convert(model, tmp_path / "m.om")
    assert not report.host_cpu_ops and not report.unplanned
    (own,) = atcpy.InferenceSession(tmp_path / "m.om").run(None, feeds)
    (expected,) = open_ort(model).run(None, feeds)
    np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-4)


COLUMNS: dict[str, table.ParamValue] = {
    "n": 1, "groups": 2, "channels": 3, "in": [4, 5], "out": [3, 4], "kernel": [2, 2],
    "stride": [1, 1], "dilation": [1, 1], "pad": [0, 0],
}  # fmt: skip


def columns(*, offset: float = 0.0) -> tuple[list[Array | None], Array]:
    x = np.arange(120, dtype=np.float32).reshape(1, 6, 4, 5)
    offsets = np.full((1, 16, 3, 4), offset, np.float32)
    return [x, offsets, np.ones((1, 8, 3, 4), np.float32)], np.zeros((1, 6, 4, 12), np.float32)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n": 2}, "too small"),
        ({"groups": 3}, "too small"),
        ({"channels": 4}, "too small"),
        ({"in": [5, 5]}, "too small"),
        ({"out": [3, 5]}, "too small"),
        ({"kernel": [2, 3]}, "too small"),
        ({"in": [0, 5]}, "out of range"),
        ({"stride": [0, 1]}, "out of range"),
        ({"pad": [-1, 0]}, "out of range"),
        ({"stride": [2**46, 1]}, "too far"),
        ({"dilation": [1, 2**46]}, "too far"),
        ({"channels": 2**40, "n": 2**40}, "too small"),
    ],
)
def test_invalid_column_records_are_refused(change: dict[str, table.ParamValue], reason: str) -> None:
    src, y = columns()
    load_task("deform_columns", COLUMNS, src, y)
    with pytest.raises(_kernels.Refused, match=reason):
        load_task("deform_columns", COLUMNS | change, src, y)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_column_operands_that_are_too_small_are_refused(index: int) -> None:
    src, y = columns()
    array = src[index]
    assert array is not None
    src[index] = array.reshape(-1)[:-1].copy()
    with pytest.raises(_kernels.Refused, match="too small"):
        load_task("deform_columns", COLUMNS, src, y)


@pytest.mark.parametrize("offset", [np.nan, np.inf, -np.inf, 3e38, -3e38, -1.0 - 2**-20])
def test_positions_outside_are_zero(offset: float) -> None:
    src, y = columns(offset=offset)
    plan = load_task("deform_columns", COLUMNS, src, y)
    y[:] = 7
    plan.start([array for array in src if array is not None], [y]).execute(0, 1)
    outside = y if offset != -1.0 - 2**-20 else y.reshape(6, 4, 3, 4)[:, 0, 0]  # the first tap of the first row
    assert (outside == 0).all()

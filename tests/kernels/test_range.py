"""range: every row against numpy; records that reach beyond their operands are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import atcpy
from atcpy.ir import DType
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table
from tests.harness import load_task
from tests.isa import ISAS

Params = dict[str, table.ParamValue]
BOUNDS = [(0, 1), (-7, 3), (250, -2), (2**62 + 5, 2**61)]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["i2", "i4", "i8", "f4", "f8"])
def test_agrees_with_numpy(isa: str, dtype: str) -> None:
    for start, delta in BOUNDS:
        for n in (0, 1, 7, 16, 33, 4096, 8195):
            first, step = (np.array([bound]).astype(dtype) for bound in (start, delta))
            y = np.full(n, 99, dtype)
            params: Params = {"n": n, "dtype": DType.from_numpy(y.dtype).onnx}
            plan = load_task("range", params, [first, step], y, isa=isa)
            plan.start([array.view(np.uint8) for array in (first, step)], [y.view(np.uint8)]).execute(0, 1)
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(y, first + np.arange(n).astype(dtype) * step)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n": 6}, "too small"),
        ({"n": -1}, "out of range"),
        ({"dtype": 7}, "of another type"),
    ],
)
def test_refusals(change: Params, reason: str) -> None:
    one, y = np.ones(1, np.float32), np.zeros(5, np.float32)
    load_task("range", {"n": 5, "dtype": 1}, [one, one], y)
    with pytest.raises(_kernels.Refused, match=reason):
        load_task("range", {"n": 5, "dtype": 1} | change, [one, one], y)


@pytest.mark.parametrize(
    ("operands", "reason"),
    [
        ([np.ones(1, "f4")], "number of operands"),
        ([np.ones(0, "f4"), np.ones(1, "f4")], "too small"),
        ([np.ones(1, "f4"), np.ones(1, "i4")], "of another type"),
    ],
)
def test_operands_are_refused(operands: list[Array], reason: str) -> None:
    with pytest.raises(_kernels.Refused, match=reason):
        load_task("range", {"n": 5, "dtype": 1}, operands, np.zeros(5, np.float32))


def test_a_type_that_is_not_counted_is_refused() -> None:
    one, y = np.ones(1, np.uint8), np.zeros(5, np.uint8)
    with pytest.raises(_kernels.Refused, match="not of numbers"):
        load_task("range", {"n": 5, "dtype": 2}, [one, one], y)


def test_bounds_that_a_run_brings(tmp_path: Path) -> None:
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, []) for name in ("start", "limit", "delta")]
    node = helper.make_node("Range", ["start", "limit", "delta"], ["y"])
    graph = helper.make_graph([node], "range", inputs, [helper.make_tensor_value_info("y", TensorProto.INT64, ["n"])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")
    session = atcpy.InferenceSession(str(tmp_path / "m.om"), threads=1)
    for bounds in ((0, 10, 1), (5, -20, -3), (3, 3, 1), (-4, 5000, 7)):
        feeds = {name: np.array(value) for name, value in zip(("start", "limit", "delta"), bounds, strict=True)}
        np.testing.assert_array_equal(session.run(None, feeds)[0], np.arange(*bounds))
    assert any(task.kernel.startswith("range_any") for task in session.tasks)

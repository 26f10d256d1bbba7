"""Pad against the ONNX reference; where places are taken away, which that cannot, ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ops.pad import supports_pad
from tests.harness import make_node
from tests.isa import ISAS
from tests.ops.exact import arange, check_exact, onnxruntime_op, shapes


@st.composite
def paddings(draw: st.DrawFn, least: int) -> tuple[tuple[int, ...], list[int]]:
    """A shape without zeros and pads that keep every size positive."""
    shape = tuple(max(size, 1) for size in draw(st.integers(1, 4).flatmap(lambda rank: shapes(rank, 7))))
    pads = [draw(st.integers(max(least, -((size - 1) // 2)), 3)) for size in shape * 2]
    return shape, pads


@pytest.mark.parametrize("isa", ISAS)
@given(case=paddings(-2), value=st.sampled_from([None, 7]), dtype=st.sampled_from([np.uint8, np.float32, np.int64]))
def test_constant(isa: str, case: tuple[tuple[int, ...], list[int]], value: int | None, dtype: type) -> None:
    shape, pads = case
    filling = None if value is None else np.array(value, dtype)
    check_exact("Pad", [arange(shape, dtype), np.array(pads), filling], isa=isa, oracle=onnxruntime_op)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@given(case=paddings(0), dtype=st.sampled_from([np.uint8, np.float32]))
def test_from_inside(isa: str, mode: str, case: tuple[tuple[int, ...], list[int]], dtype: type) -> None:
    shape, pads = case
    room = {"edge": 99, "reflect": -1, "wrap": 0}[mode]
    pads = [min(pad, size + room) for pad, size in zip(pads, shape * 2, strict=True)]
    check_exact("Pad", [arange(shape, dtype), np.array(pads)], {"mode": mode}, isa=isa)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_some_axes_blocked(mode: str) -> None:
    pads, axes = np.array([1, 2, 3, 1]), np.array([-1, 2])
    value = np.array(2.5, np.float32) if mode == "constant" else None
    check_exact("Pad", [arange((2, 17, 5, 6)), pads, value, axes], {"mode": mode})


def test_more_is_taken_than_left() -> None:
    check_exact("Pad", [arange((4,)), np.array([-4, 7])], oracle=onnxruntime_op)
    with pytest.raises(ModelInvalid, match="pads take more from dim 0 than its 4 places"):
        make_node("Pad", [arange((4,)), np.array([-3, -2])], constants=(1,))


@pytest.mark.parametrize(
    ("mode", "pads", "reason"),
    [
        ("reflect", [4, 0], "pads-wider-than-input"),
        ("wrap", [5, 0], "pads-wider-than-input"),
        ("edge", [-1, 1], "negative-pads"),
    ],
)
def test_reasons(mode: str, pads: list[int], reason: str) -> None:
    node = make_node("Pad", [arange((4,)), np.array(pads)], {"mode": mode}, constants=(1,))
    assert [reject.reason for reject in supports_pad(node)] == [reason]
    node = make_node("Pad", [arange((4,)), np.array(pads)], {"mode": mode})
    assert [reject.reason for reject in supports_pad(node)] == ["shape-unknown", "pads-not-constant"]

"""Pad against the ONNX reference, or ONNX Runtime for negative pads, which the reference does not support."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, Reject
from atcpy.ops.move.pad import evaluate_pad, layout_pad, supports_pad
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import ISAS
from tests.ops.exact import ITEMS, arange, assert_same, check_exact, onnxruntime_op, shapes


@st.composite
def paddings(draw: st.DrawFn, min_pad: int) -> tuple[tuple[int, ...], list[int]]:
    """A shape without zeros and pads that keep every size positive."""
    shape = tuple(max(size, 1) for size in draw(st.integers(1, 4).flatmap(lambda rank: shapes(rank, 7))))
    pads = [draw(st.integers(max(min_pad, -((size - 1) // 2)), 3)) for size in shape * 2]
    return shape, pads


@pytest.mark.parametrize("isa", ISAS)
@given(case=paddings(-2), value=st.sampled_from([None, 7]), dtype=st.sampled_from([np.uint8, np.float32, np.int64]))
def test_constant(isa: str, case: tuple[tuple[int, ...], list[int]], value: int | None, dtype: type) -> None:
    shape, pads = case
    fill_value = None if value is None else np.array(value, dtype)
    check_exact("Pad", [arange(shape, dtype), np.array(pads), fill_value], isa=isa, oracle=onnxruntime_op)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@given(case=paddings(0), dtype=st.sampled_from([np.uint8, np.float32]))
def test_edge_reflect_and_wrap(isa: str, mode: str, case: tuple[tuple[int, ...], list[int]], dtype: type) -> None:
    shape, pads = case
    room = {"edge": 99, "reflect": -1, "wrap": 0}[mode]
    pads = [min(pad, size + room) for pad, size in zip(pads, shape * 2, strict=True)]
    check_exact("Pad", [arange(shape, dtype), np.array(pads)], {"mode": mode}, isa=isa)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_some_axes_blocked(mode: str) -> None:
    pads, axes = np.array([1, 2, 3, 1]), np.array([-1, 2])
    value = np.array(2.5, np.float32) if mode == "constant" else None
    check_exact("Pad", [arange((2, 17, 5, 6)), pads, value, axes], {"mode": mode})


@settings(max_examples=trials(40))
@given(
    channels=st.sampled_from([1, 5, 16, 24, 33]),
    before=st.sampled_from([0, 16]),
    after=st.sampled_from([1, 4, 8, 16, 30]),
    others=st.tuples(*[st.integers(-1, 2)] * 6),
    value=st.sampled_from([None, 2.5]),
)
def test_channels_are_padded_in_blocks(
    channels: int, before: int, after: int, others: tuple[int, ...], value: float | None
) -> None:
    pads = np.array([max(others[0], 0), before, *others[1:3], max(others[3], 0), after, *others[4:]])
    arrays = [arange((2, channels, 3, 4)), pads, None if value is None else np.array(value, np.float32)]
    node = make_node("Pad", arrays, constants=(1,))
    assert not isinstance(layout_pad(node, (NC1HWC0,)), Reject)
    assert_same(run_op(node, arrays, blocked=True), onnxruntime_op(node, arrays))


@pytest.mark.parametrize("border", [(3, 0), (16, -16), (0, -1), (-1, 0)])
def test_pads_that_shift_channels_within_blocks_use_the_plain_format(border: tuple[int, int]) -> None:
    node = make_node("Pad", [arange((1, 24, 2, 2)), np.array([0, border[0], 0, 0, 0, border[1], 0, 0])], constants=(1,))
    assert isinstance(layout_pad(node, (NC1HWC0,)), Reject)


def test_negative_pads_may_not_remove_more_than_the_dim() -> None:
    check_exact("Pad", [arange((4,)), np.array([-4, 7])], oracle=onnxruntime_op)
    with pytest.raises(ModelInvalid, match="pads take more from dim 0 than its 4 elements"):
        make_node("Pad", [arange((4,)), np.array([-3, -2])], constants=(1,))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@given(case=paddings(-2), value=st.sampled_from([None, 7]), dtype=st.sampled_from([np.uint8, np.float32]))
def test_constants_are_padded(
    mode: str, case: tuple[tuple[int, ...], list[int]], value: int | None, dtype: type
) -> None:
    shape, pads = case
    room = {"constant": 99, "edge": 99, "reflect": -1, "wrap": 0}[mode]
    kept = [size + min(a, 0) + min(b, 0) for size, a, b in zip(shape, pads, pads[len(shape) :], strict=False)]
    pads = [min(pad, size + room) for pad, size in zip(pads, kept * 2, strict=True)]
    fill_value = None if value is None or mode != "constant" else np.array(value, dtype)
    arrays = [arange(shape, dtype), np.array(pads), fill_value]
    node = make_node("Pad", arrays, {"mode": mode}, constants=(1,))
    assert_same(evaluate_pad(node, arrays), onnxruntime_op(node, arrays))


def test_constants_of_which_nothing_is_left() -> None:
    arrays = [arange((4, 2)), np.array([-4, 0, 7, 0])]
    node = make_node("Pad", arrays, constants=(1,))
    assert_same(evaluate_pad(node, arrays), onnxruntime_op(node, arrays))
    with pytest.raises(ModelInvalid, match=r"pads take more from \[4, 2\] than its elements"):
        evaluate_pad(node, [arrays[0], np.array([-4, 0, -1, 0])])


@st.composite
def wide_paddings(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    """A shape and pads of any width; negative pads leave at least one element."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    around = [(draw(st.integers(-(size - 1), 9)), draw(st.integers(0, 9))) for size in shape]
    return shape, [pair if draw(st.booleans()) else pair[::-1] for pair in around]


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@settings(max_examples=trials(50))
@given(case=wide_paddings(), dtype=st.sampled_from(ITEMS))
def test_any_width(mode: str, case: tuple[list[int], list[tuple[int, int]]], dtype: type) -> None:
    """Negative pads crop first, then positive ones pad, as in ONNX Runtime."""
    shape, around = case
    x = arange(shape, dtype)
    node = make_node("Pad", [x, np.array(around).T.reshape(-1)], {"mode": mode}, constants=(1,))
    kept = x[tuple(slice(max(-low, 0), size + min(high, 0)) for size, (low, high) in zip(shape, around, strict=True))]
    expected = np.pad(kept, [(max(low, 0), max(high, 0)) for low, high in around], mode)  # type: ignore[call-overload]
    assert not list(supports_pad(node))
    assert_same(run_op(node, [x, None], threads=2), [expected])


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("columns", [1, 3, 64, 65])
@pytest.mark.parametrize("borders", [((1, 2), (0, 3), (0, 0)), ((0, 0), (2, 1), (0, 0)), ((90, 0), (1, 0), (0, 0))])
def test_last_dims_without_borders(mode: str, columns: int, borders: tuple[tuple[int, int], ...]) -> None:
    """Rows of short last dims are moved as one element; there are more rows than are written at once."""
    x = arange((7, 11, columns), np.float32)
    node = make_node("Pad", [x, np.array(borders).T.reshape(-1)], {"mode": mode}, constants=(1,))
    assert_same(run_op(node, [x, None], threads=2), [np.pad(x, borders, mode)])  # type: ignore[call-overload]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_many_dims(mode: str) -> None:
    x = arange((2, 1, 2, 1, 2, 2, 3, 1, 2, 2))
    around = [(0, 0)] * 10
    around[4], around[9] = (1, 0), (1, 1)
    node = make_node("Pad", [x, np.array(around).T.reshape(-1)], {"mode": mode}, constants=(1,))
    assert not list(supports_pad(node))
    assert_same(run_op(node, [x, None]), [np.pad(x, around, mode)])  # type: ignore[call-overload]


def test_rejections() -> None:
    node = make_node("Pad", [arange((4,)), np.array([-4, 1])], {"mode": "edge"}, constants=(1,))
    assert [reject.reason for reject in supports_pad(node)] == ["pads-without-input"]
    node = make_node("Pad", [arange((4,)), np.array([1, 1])], {"mode": "edge"})
    assert [reject.reason for reject in supports_pad(node)] == ["shape-unknown", "pads-not-constant"]

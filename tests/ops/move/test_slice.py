"""Slice against the ONNX reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir import Dim, Sym
from atcpy.ops.move.slice import infer_slice, propagate_slice
from tests.harness import make_node
from tests.isa import ISAS
from tests.ops.exact import ITEMS, arange, check_exact, onnxruntime_op, shapes

INT_MAX = 2**63 - 1


@st.composite
def slices(draw: st.DrawFn) -> tuple[tuple[int, ...], list[list[int]]]:
    """A shape, and starts, ends, axes, steps."""
    shape = draw(st.integers(1, 5).flatmap(lambda rank: shapes(rank, 9)))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True, max_size=len(shape)))
    bound = st.one_of(st.integers(-12, 12), st.sampled_from([INT_MAX, -INT_MAX, 16]))
    steps = st.sampled_from([1, 1, 1, 2, 3, -1, -2])
    rows = [[draw(bound), draw(bound), axis, draw(steps)] for axis in axes]
    for row in rows:
        # A start before the first element with a negative step: the standard clamps it to 0, numpy selects nothing.
        if row[3] < 0 and row[0] < -shape[row[2]]:
            row[0] = -1
    return shape, [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]


@pytest.mark.parametrize("isa", ISAS)
@given(case=slices(), dtype=st.sampled_from(ITEMS))
def test_agrees_with_the_reference(isa: str, case: tuple[tuple[int, ...], list[list[int]]], dtype: type) -> None:
    shape, bounds = case
    check_exact("Slice", [arange(shape, dtype), *(np.array(row, np.int64) for row in bounds)], isa=isa)


def test_blocks_of_channels_stay_blocked() -> None:
    arrays = [arange((2, 40, 3, 5)), np.array([16, -4]), np.array([36, 9]), np.array([1, 3]), np.array([1, 2])]
    check_exact("Slice", arrays)


def test_a_start_before_the_first_element_is_clamped() -> None:
    arrays = [arange((3,)), *(np.array([item]) for item in (-9, -9, 0, -1))]
    check_exact("Slice", arrays, oracle=onnxruntime_op)


def test_step_of_zero_is_refused() -> None:
    arrays = [arange((3,)), np.array([0]), np.array([3]), np.array([0]), np.array([0])]
    with pytest.raises(ModelInvalid, match="a step is 0"):
        make_node("Slice", arrays, constants=(1, 2, 3, 4))


def test_symbolic_sizes_are_kept() -> None:
    node = make_node("Slice", [arange((4,)), np.array([1]), np.array([INT_MAX])], constants=(1, 2))
    batch = Sym("batch")
    known: dict[str, tuple[Dim, ...]] = {"i0": (batch, 3, 8, 8), "i1": (1,), "i2": (INT_MAX,)}
    assert propagate_slice(node, lambda value: known[value.name] if value else None) == (3, 8, 8)
    node.operand(0).desc = node.operand(0).desc.plain(node.operand(0).desc.dtype, (batch, 4))
    known["i1"] = (0,)
    assert infer_slice(node, lambda value: known[value.name] if value else None)[0].shape == (batch, 4)

"""Where: elements of each size, broadcasting, blocks, shape arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir import Sym
from atcpy.ir.shape import Dim
from atcpy.ops import find_opdef
from atcpy.ops.core.shape_values import UNNAMED
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import LOOP_ISAS

DTYPES = [np.bool_, np.int8, np.float16, np.float32, np.int64, np.complex64, np.complex128]


@pytest.mark.parametrize("isa", LOOP_ISAS)
@given(
    target=st.lists(st.sampled_from([0, 1, 2, 3, 7, 9, 16, 17, 33]), max_size=4),
    masks=st.lists(st.integers(0, 15), min_size=3, max_size=3),
    dtype=st.sampled_from(DTYPES),
)
@settings(max_examples=trials(60))
def test_broadcasts_like_numpy(isa: str, target: list[int], masks: list[int], dtype: type) -> None:
    rng = np.random.default_rng(4)
    shapes = [tuple(1 if mask >> axis & 1 else dim for axis, dim in enumerate(target)) for mask in masks]
    condition = rng.integers(0, 2, shapes[0]).astype(np.bool_)
    a, b = (rng.integers(0, 100, shape).astype(dtype) for shape in shapes[1:])
    arrays = [condition, a, b]
    ours = run_op(make_node("Where", arrays), arrays, isa=isa, threads=2)[0]
    np.testing.assert_array_equal(ours, np.where(condition, a, b))


@pytest.mark.parametrize("isa", LOOP_ISAS)
def test_long_rows(isa: str) -> None:
    rng = np.random.default_rng(4)
    arrays = [rng.integers(0, 2, (2, 20001)).astype(np.bool_), rng.normal(size=(2, 1)), rng.normal(size=(2, 20001))]
    np.testing.assert_array_equal(run_op(make_node("Where", arrays), arrays, isa=isa)[0], np.where(*arrays))


@pytest.mark.parametrize("isa", LOOP_ISAS)
def test_blocks_of_channels(isa: str) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2, 19, 3, 5)).astype(np.float32)
    arrays = [x > 0, x, np.array(-1, np.float32)]
    node = make_node("Where", arrays)
    np.testing.assert_array_equal(run_op(node, arrays, blocked=True, isa=isa)[0], np.where(x > 0, x, -1))
    assert node.output.desc.storage_shape == (2, 2, 3, 5, 16)


@pytest.mark.parametrize(
    ("condition", "a", "b", "expected"),
    [
        ((1, 0), (Sym("n"), 3), (5, Sym("m")), (Sym("n"), Sym("m"))),
        ((0,), (1,), (Sym("n"), 4), (Sym("n"), 4)),
        ((UNNAMED, UNNAMED), (3, 3), (3, 4), (3, UNNAMED)),
        ((1, 0), (1, 2, 3), (1,), None),
    ],
)
def test_shape_arithmetic(
    condition: tuple[Dim, ...], a: tuple[Dim, ...], b: tuple[Dim, ...], expected: tuple[Dim, ...] | None
) -> None:
    node = make_node("Where", [np.zeros(1, np.bool_), np.zeros(1, np.int64), np.zeros(1, np.int64)])
    elements = dict(zip(node.operands, (condition, a, b), strict=True))
    opdef = find_opdef(node)
    assert opdef is not None and opdef.propagate is not None
    assert opdef.propagate(node, lambda value: None if value is None else elements[value]) == expected


def test_a_condition_that_is_no_bool_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="condition"):
        make_node("Where", [np.zeros(1, np.int32), np.zeros(1), np.zeros(1)])

"""Concat and Split against the ONNX reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from tests.harness import make_node
from tests.isa import ISAS
from tests.ops.exact import ITEMS, arange, check_exact, shapes

PARTS = st.lists(st.sampled_from([0, 1, 3, 16, 32, 17]), min_size=1, max_size=4)


@pytest.mark.parametrize("isa", ISAS)
@given(shape=st.integers(1, 5).flatmap(shapes), sizes=PARTS, axis=st.integers(0, 4), dtype=st.sampled_from(ITEMS))
def test_concat(isa: str, shape: tuple[int, ...], sizes: list[int], axis: int, dtype: type) -> None:
    axis = axis % len(shape)
    parts = [arange((*shape[:axis], size, *shape[axis + 1 :]), dtype) for size in sizes]
    check_exact("Concat", parts, {"axis": axis - len(shape)}, isa=isa)


@pytest.mark.parametrize("isa", ISAS)
@given(shape=st.integers(1, 5).flatmap(shapes), sizes=PARTS, axis=st.integers(0, 4), dtype=st.sampled_from(ITEMS))
def test_split(isa: str, shape: tuple[int, ...], sizes: list[int], axis: int, dtype: type) -> None:
    axis = axis % len(shape)
    x = arange((*shape[:axis], sum(sizes), *shape[axis + 1 :]), dtype)
    check_exact("Split", [x, np.array(sizes, np.int64)], {"axis": axis}, isa=isa, outputs=len(sizes))


@pytest.mark.parametrize("count", [2, 3, 6])
def test_split_into_a_number_of_parts(count: int) -> None:
    check_exact("Split", [arange((3, 11))], {"axis": 1, "num_outputs": count}, outputs=count)


def test_channels_split_at_blocks_stay_blocked() -> None:
    node = check_exact("Split", [arange((1, 40, 2, 2)), np.array([32, 8])], {"axis": 1}, outputs=2)
    assert [value.desc.static_shape[1] for value in node.outputs] == [32, 8]


@pytest.mark.parametrize(
    ("shapes_", "axis", "wrong"),
    [
        ([(2, 3), (2, 4)], 0, r"\[2,3\], \[2,4\] do not fit along axis 0"),
        ([(2, 3), (3,)], 0, "do not fit"),
        ([(2, 3)], 2, "axis = 2 is outside a tensor of rank 2"),
    ],
)
def test_inconsistent_concat_is_refused(shapes_: list[tuple[int, ...]], axis: int, wrong: str) -> None:
    with pytest.raises(ModelInvalid, match=wrong):
        make_node("Concat", [arange(shape) for shape in shapes_], {"axis": axis})


def test_inconsistent_split_is_refused() -> None:
    with pytest.raises(ModelInvalid, match=r"5 cannot be split as \[2, 2\] into 2"):
        make_node("Split", [arange((5,)), np.array([2, 2])], constants=(1,), outputs=2)
    with pytest.raises(ModelInvalid, match="11 cannot be split into 5 parts of 3"):
        make_node("Split", [arange((11,))], {"num_outputs": 5}, outputs=5)

"""Expand and Tile against the ONNX reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from tests.harness import make_node
from tests.isa import ISAS
from tests.ops.exact import ITEMS, arange, check_exact, shapes


@pytest.mark.parametrize("isa", ISAS)
@given(target=st.integers(0, 5).flatmap(shapes), ones=st.integers(0, 31), rank=st.integers(0, 5),
       target_ones=st.integers(0, 31), dtype=st.sampled_from(ITEMS))  # fmt: skip
def test_expand(isa: str, target: tuple[int, ...], ones: int, rank: int, target_ones: int, dtype: type) -> None:
    shape = tuple(1 if ones >> axis & 1 else size for axis, size in enumerate(target))[-rank or len(target) :]
    target_shape = [1 if target_ones >> axis & 1 else size for axis, size in enumerate(target)]
    check_exact("Expand", [arange(shape, dtype), np.array(target_shape, np.int64)], isa=isa)


@pytest.mark.parametrize("isa", ISAS)
@given(shape=st.integers(0, 4).flatmap(shapes), repeats=st.lists(st.integers(0, 3), min_size=4, max_size=4),
       dtype=st.sampled_from(ITEMS))  # fmt: skip
def test_tile(isa: str, shape: tuple[int, ...], repeats: list[int], dtype: type) -> None:
    check_exact("Tile", [arange(shape, dtype), np.array(repeats[: len(shape)], np.int64)], isa=isa)


def test_blocked() -> None:
    check_exact("Expand", [arange((1, 17, 1, 5)), np.array([2, 17, 3, 5])])
    check_exact("Tile", [arange((1, 17, 1, 5)), np.array([2, 1, 3, 2])])


def test_sizes_that_do_not_broadcast_are_refused() -> None:
    with pytest.raises(ModelInvalid, match=r"\[2,3\] cannot be expanded to \[4\]"):
        make_node("Expand", [arange((2, 3)), np.array([4])], constants=(1,))
    with pytest.raises(ModelInvalid, match="repeats"):
        make_node("Tile", [arange((2, 3)), np.array([4])], constants=(1,))

"""Transpose, DepthToSpace, SpaceToDepth against the ONNX reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from tests.harness import make_node
from tests.isa import ISAS
from tests.ops.exact import ITEMS, arange, check_exact, shapes


@pytest.mark.parametrize("isa", ISAS)
@given(case=st.integers(1, 6).flatmap(lambda rank: st.tuples(shapes(rank), st.permutations(range(rank)))),
       dtype=st.sampled_from(ITEMS))  # fmt: skip
def test_transpose(isa: str, case: tuple[tuple[int, ...], list[int]], dtype: type) -> None:
    shape, perm = case
    check_exact("Transpose", [arange(shape, dtype)], {"perm": tuple(perm)}, isa=isa)


@pytest.mark.parametrize("isa", ISAS)
@given(rows=st.integers(1, 150), columns=st.integers(1, 150), batch=st.integers(1, 2), dtype=st.sampled_from(ITEMS))
def test_matrices(isa: str, rows: int, columns: int, batch: int, dtype: type) -> None:
    check_exact("Transpose", [arange((batch, rows, columns), dtype)], {"perm": (0, 2, 1)}, isa=isa)


@pytest.mark.parametrize("isa", ISAS)
@given(pixels=st.integers(1, 5000), batch=st.integers(1, 2))
def test_planes_of_colours_become_pixels(isa: str, pixels: int, batch: int) -> None:
    check_exact("Transpose", [arange((batch, 3, pixels))], {"perm": (0, 2, 1)}, isa=isa)


@pytest.mark.parametrize("isa", ISAS)
@given(c=st.sampled_from([1, 7, 16, 33]), perm=st.permutations(range(4)))
def test_blocked_input_is_read_as_it_is(isa: str, c: int, perm: list[int]) -> None:
    check_exact("Transpose", [arange((2, c, 3, 19))], {"perm": tuple(perm)}, isa=isa)


def test_default_reverses() -> None:
    check_exact("Transpose", [arange((2, 3, 4))])
    check_exact("Transpose", [arange(())])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@given(n=st.integers(0, 2), c=st.sampled_from([1, 3, 16, 32]), h=st.integers(1, 4), w=st.integers(1, 20),
       b=st.integers(1, 3), dtype=st.sampled_from(ITEMS))  # fmt: skip
def test_depth_and_space(isa: str, mode: str, n: int, c: int, h: int, w: int, b: int, dtype: type) -> None:
    attrs = {"blocksize": b, "mode": mode}
    check_exact("DepthToSpace", [arange((n, c * b * b, h, w), dtype)], attrs, isa=isa)
    check_exact("SpaceToDepth", [arange((n, c, h * b, w * b), dtype)], attrs, isa=isa)


@pytest.mark.parametrize("perm", [(0, 0), (0,), (0, 2)])
def test_bad_permutations_are_refused(perm: tuple[int, ...]) -> None:
    with pytest.raises(ModelInvalid):
        make_node("Transpose", [arange((2, 3))], {"perm": perm})


def test_a_block_size_that_does_not_divide_the_depth_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="dim 1 of size 6 is not a multiple of 4"):
        make_node("DepthToSpace", [arange((1, 6, 2, 2))], {"blocksize": 2})

"""Gather and GatherND against the ONNX reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.kernels import _kernels
from atcpy.ops import find_opdef
from tests.harness import make_node, reference_op, run_op
from tests.isa import ISAS
from tests.ops.exact import ITEMS, arange, assert_same, shapes

INDEX_TYPES = [np.int32, np.int64]


@pytest.mark.parametrize("isa", ISAS)
@given(shape=st.integers(1, 4).flatmap(shapes), indices_shape=st.integers(0, 2).flatmap(shapes),
       axis=st.integers(-4, 3), dtype=st.sampled_from(ITEMS), index_type=st.sampled_from(INDEX_TYPES),
       seed=st.integers(0, 999))  # fmt: skip
def test_gather(
    isa: str,
    shape: tuple[int, ...],
    indices_shape: tuple[int, ...],
    axis: int,
    dtype: type,
    index_type: type,
    seed: int,
) -> None:
    axis = axis % len(shape) - len(shape)
    if shape[axis] == 0:
        indices_shape = (0,)
    size = max(shape[axis], 1)
    indices = np.random.default_rng(seed).integers(-size, size, indices_shape).astype(index_type)
    arrays = [arange(shape, dtype), indices]
    node = make_node("Gather", arrays, {"axis": axis})
    assert_same(run_op(node, arrays, isa=isa, threads=2), reference_op(node, arrays))


@pytest.mark.parametrize("isa", ISAS)
@given(shape=st.integers(1, 4).flatmap(shapes), axis=st.integers(-4, 3), dtype=st.sampled_from(ITEMS),
       first=st.integers(-9, 9), step=st.integers(-3, 3), count=st.integers(1, 4), as_scalar=st.booleans())  # fmt: skip
def test_evenly_spaced_constant_indices_become_a_strided_copy(
    isa: str, shape: tuple[int, ...], axis: int, dtype: type, first: int, step: int, count: int, as_scalar: bool
) -> None:
    axis = axis % len(shape)
    size = max(shape[axis], 1)
    indices = (first + step * np.arange(count)) % size
    shape = tuple(max(dim, 1) if at == axis else dim for at, dim in enumerate(shape))
    arrays = [arange(shape, dtype), indices[0] if as_scalar else indices - size]
    node = make_node("Gather", arrays, {"axis": axis}, constants=[1])
    opdef = find_opdef(node)
    assert opdef is not None and opdef.lower is not None
    steps = set(np.diff(indices))
    families = {call.family for call in opdef.lower(node)}
    assert families <= ({"strided_copy"} if as_scalar or len(steps) < 2 else {"gather"})
    assert_same(run_op(node, arrays, isa=isa, threads=2), reference_op(node, arrays))


@pytest.mark.parametrize("isa", ISAS)
@given(batch=st.integers(0, 2).flatmap(shapes), dims=st.lists(st.integers(1, 5), min_size=1, max_size=3),
       indices_shape=st.integers(1, 2).flatmap(shapes), inner=st.integers(0, 2).flatmap(shapes),
       dtype=st.sampled_from(ITEMS), seed=st.integers(0, 999))  # fmt: skip
def test_gather_nd(
    isa: str,
    batch: tuple[int, ...],
    dims: list[int],
    indices_shape: tuple[int, ...],
    inner: tuple[int, ...],
    dtype: type,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    x = arange((*batch, *dims, *inner), dtype)
    indices = np.stack([rng.integers(-dim, dim, (*batch, *indices_shape)) for dim in dims], -1)
    node = make_node("GatherND", [x, indices], {"batch_dims": len(batch)})
    flat = [math.prod(batch), *dims, *inner]
    wrapped = [indices[..., axis].reshape(flat[0], math.prod(indices_shape)) % dim for axis, dim in enumerate(dims)]
    expected = x.reshape(flat)[(np.arange(flat[0])[:, None], *wrapped)].reshape((*batch, *indices_shape, *inner))
    assert_same(run_op(node, [x, indices], isa=isa, threads=2), [expected])


@pytest.mark.parametrize(("index", "op_type"), [(5, "Gather"), (-6, "Gather"), (2**40, "Gather"), (5, "GatherND")])
def test_an_out_of_range_index_is_a_fault(index: int, op_type: str) -> None:
    arrays = [arange((5, 3)), np.array([1, index])[:, None][:, : 1 if op_type == "GatherND" else None]]
    with pytest.raises(_kernels.Fault) as caught:
        run_op(make_node(op_type, arrays), arrays)
    assert caught.value.args[1:] == (1, index, 5)

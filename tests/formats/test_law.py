"""The law of every storage format: pack and unpack are inverse, and index says where things lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.formats import ALL, find_format
from atcpy.formats.base import StorageFormat


@pytest.mark.parametrize("form", ALL, ids=lambda form: str(form.id))
def test_is_found_by_its_identifier(form: StorageFormat) -> None:
    assert find_format(form.id).id == form.id
    assert type(find_format(form.id)) is type(form)


@pytest.mark.parametrize("form", ALL, ids=lambda form: str(form.id))
@settings(max_examples=25, deadline=None)
@given(dims=st.tuples(st.integers(1, 5), st.integers(1, 37), st.integers(1, 4), st.integers(1, 4)))
def test_holds_each_element_where_index_says(form: StorageFormat, dims: tuple[int, ...]) -> None:
    outer, *rest = dims
    shape = (outer * form.id.groups, *rest)
    if not form.accepts(shape):
        shape = (shape[0], 1, *shape[2:])
    assert form.accepts(shape)
    array = np.arange(1, np.prod(shape) + 1, dtype=np.int64).reshape(shape)
    packed = form.pack(array)
    assert packed.shape == form.storage_shape(shape)
    np.testing.assert_array_equal(form.unpack(packed, shape), array)
    flat = packed.reshape(-1)
    for position in np.ndindex(*shape):
        assert flat[form.index(shape, position)] == array[position]
    assert np.count_nonzero(flat) == array.size  # padding is zero

"""The law of every storage format: pack and unpack are inverse, and index says where things lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.formats import find_format, tried_formats
from atcpy.ir import Format
from tests.effort import trials


@pytest.mark.parametrize("form", tried_formats(), ids=str)
def test_is_found_by_its_identifier(form: Format) -> None:
    assert find_format(form).id == form


@pytest.mark.parametrize("form", tried_formats(), ids=str)
@settings(max_examples=trials(25), deadline=None)
@given(data=st.data())
def test_holds_each_element_where_index_says(form: Format, data: st.DataObject) -> None:
    storage = find_format(form)
    ranks = [rank for rank in range(1, 7) if storage.accepts((form.groups, *[1] * (rank - 1)))]
    rank = data.draw(st.sampled_from(ranks))
    outer, inner, *rest = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 37), *[st.integers(1, 4)] * 4))
    shape = (outer * form.groups, inner, *rest)[:rank]
    if not storage.accepts(shape):
        shape = (shape[0], 1, *shape[2:])
    assert storage.accepts(shape)
    array = np.arange(1, np.prod(shape) + 1, dtype=np.int64).reshape(shape)
    packed = storage.pack(array)
    assert packed.shape == storage.storage_shape(shape)
    np.testing.assert_array_equal(storage.unpack(packed, shape), array)
    flat = packed.reshape(-1)
    for position in np.ndindex(*shape):
        assert flat[storage.index(shape, position)] == array[position]
    assert np.count_nonzero(flat) == array.size  # padding is zero

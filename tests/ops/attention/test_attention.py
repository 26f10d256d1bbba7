"""Attention: the types of all outputs are inferred at compile time."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.errors import ModelInvalid
from atcpy.ir import DType
from tests.harness import make_node

F32 = np.float32


@pytest.mark.parametrize("past", [0, 5])
@pytest.mark.parametrize("rank", [3, 4])
def test_shapes_of_keys_and_scores_are_inferred_with_and_without_a_cache(rank: int, past: int) -> None:
    q, k = (np.zeros((2, 6, 4, 8), F32), np.zeros((2, 3, 7, 8), F32))
    cache = np.zeros((2, 3, past, 8), F32) if past else None
    attrs: dict[str, object] = {}
    if rank == 3:
        q, k = np.zeros((2, 4, 48), F32), np.zeros((2, 7, 24), F32)
        attrs = {"q_num_heads": 6, "kv_num_heads": 3}
    node = make_node("Attention", [q, k, k, None, cache, cache], attrs, outputs=4)
    assert {value.desc.dtype for value in node.outputs} == {DType.FLOAT32}
    keys = 7 + past
    shapes = [value.desc.static_shape for value in node.outputs]
    assert shapes == [q.shape, (2, 3, keys, 8), (2, 3, keys, 8), (2, 6, 4, keys)]


@pytest.mark.parametrize("keys", [1, 3])
def test_a_mask_of_more_columns_than_keys_is_refused(keys: int) -> None:
    q, k = np.zeros((2, 6, 4, 8), F32), np.zeros((2, 6, keys, 8), F32)
    make_node("Attention", [q, k, k, np.zeros((4, keys), F32)], {})
    with pytest.raises(ModelInvalid, match=f"a mask of 5 columns for {keys} keys"):
        make_node("Attention", [q, k, k, np.zeros((4, 5), F32)], {})

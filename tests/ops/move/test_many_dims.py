"""Tensors of higher rank than the copy kernel's: dims are merged, else the smallest are looped over by launches."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.move.transpose import lower_transpose
from tests.harness import make_node
from tests.ops.exact import ITEMS, arange, check_exact

SHAPE = (2, 3, 1, 2, 2, 3, 1, 2, 2, 2)
RANK = len(SHAPE)


@pytest.mark.parametrize(
    ("op_type", "arrays", "attrs", "outputs"),
    [
        ("Transpose", [], {}, 1),
        ("Transpose", [], {"perm": (9, 1, 7, 3, 5, 4, 6, 2, 8, 0)}, 1),
        ("Concat", [arange(SHAPE)], {"axis": 4}, 1),
        ("Split", [], {"axis": 4, "num_outputs": 2}, 2),
        ("Slice", [np.array([1] * 2), np.array([9] * 2), np.array([1, 8]), np.array([1, -1])], {}, 1),
        ("Expand", [np.array((2, *SHAPE[:2], 4, *SHAPE[3:]))], {}, 1),
        ("Tile", [np.array([2, 1, 3, 1, 1, 2, 1, 1, 2, 1])], {}, 1),
    ],
)
def test_moves(op_type: str, arrays: list[Array], attrs: dict[str, object], outputs: int) -> None:
    node = check_exact(op_type, [arange(SHAPE), *arrays], attrs, outputs=outputs)
    opdef = find_opdef(node)
    assert opdef is not None
    assert not [reject for supports in opdef.engines.values() for reject in supports(node)]


def test_the_smallest_dims_are_looped_over_by_launches() -> None:
    assert len(list(lower_transpose(make_node("Transpose", [arange(SHAPE)])))) == 1
    shape = (3, 2, 5, 4, 3, 4, 3, 4, 2, 3)
    node = make_node("Transpose", [arange(shape)])
    assert len(list(lower_transpose(node))) == 2 * 2


def test_too_many_launches_are_refused() -> None:
    node = make_node("Transpose", [np.zeros((2,) * 16, np.int8)])
    opdef = find_opdef(node)
    assert opdef is not None
    [supports] = opdef.engines.values()
    assert [reject.reason for reject in supports(node)] == ["rank"]


@pytest.mark.parametrize("dtype", ITEMS)
def test_gather_and_trilu_support_any_rank(dtype: type) -> None:
    check_exact("Gather", [arange(SHAPE, dtype), np.array([1, 0, -1])], {"axis": 5})
    check_exact("Trilu", [arange(SHAPE, dtype)])

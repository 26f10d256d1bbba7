"""Ways to regroup dims."""

import numpy as np

from atcpy.passes.prepare.layout.reshape_factors import regrouped, regrouping
from tests.harness import make_node


def test_a_way_regroups_shapes_with_as_many_dims_or_fewer() -> None:
    way = regrouping((2, 3, 4), (6, 4))
    assert way is not None
    assert way.shape((2, 3, 7)) == (6, 7)
    assert way.shape((7,)) == (1, 7)
    assert way.shape((3, 2, 4)) is None


def test_a_shape_with_more_dims_does_not_go_that_way() -> None:
    """A scalar becomes a list of one; the list of three beside it, from which it is subtracted, does not."""
    way = regrouping((), (1,))
    assert way is not None
    assert way.shape(()) == (1,)
    assert way.shape((3,)) is None
    three = np.arange(3, dtype=np.float32)
    assert regrouped(make_node("Sub", [three, three]), way) is None
    assert regrouped(make_node("Softmax", [three]), way) is None

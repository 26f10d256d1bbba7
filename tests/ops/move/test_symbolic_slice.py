"""The extent of a slice traced on a symbolic dim agrees with the extent at each concrete size."""

from __future__ import annotations

from itertools import product

import pytest

from atcpy.ir import Graph
from atcpy.ir.symbolic import Tracer
from atcpy.ops.move.slice import extent

FAR = 2**63 - 1


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
def test_extents_of_symbolic_dims(step: int) -> None:
    node = Graph("g").append("Slice", outputs=("y",))
    for start, end in product((0, 1, 2, -1, -2, FAR), (0, 3, -1, FAR, -FAR, -FAR - 1, 2**31 - 1, -(2**31))):
        tracer = Tracer()
        taken = extent(node, tracer.symbol("b", 1, 2**40, 5), start, end, step)
        served = 0
        for size in (1, 2, 3, 5, 7):
            if tracer.all_hold(tracer.guards.values(), {"b": size}):
                expected = extent(node, size, start, end, step)
                first, count = tracer.value(taken.start, {"b": size}), tracer.value(taken.count, {"b": size})
                assert count == expected.count, (start, end, size)
                assert first == expected.start if count else first is not None and 0 <= first <= size
                served += 1
        assert served

"""Bodies that iterate in C: which can, and what an iteration reads of the one before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.ir import DType
from atcpy.runtime import control
from atcpy.runtime.iterations import BodyOutput, BodyPlan, Iterations, Origin, can_iterate
from atcpy.runtime.plan import PlanPort, Segment
from tests.models_in_text import package

COMPUTED = [BodyOutput(Origin.PLAN_OUTPUT, index) for index in range(3)]
PASSED = [BodyOutput(Origin.BODY_INPUT, index) for index in range(3)]
VALUES = [np.zeros((), np.int64), np.ones((), np.bool_), np.zeros((2, 3), np.float32)]


def body(outputs: list[BodyOutput], *, dtype: DType = DType.FLOAT32, size: int = 3, on_host: bool = False) -> BodyPlan:
    """A body of a Loop that carries one value and computes a condition and a value of some type."""
    ports = (PlanPort("c", DType.BOOL, ()), PlanPort("v", dtype, (2, size)))
    plan: Any = SimpleNamespace(segments=(Segment(0, 1, on_host=on_host),), inputs=ports, outputs=ports)
    return BodyPlan(plan, (1, 2), tuple(outputs))


@pytest.mark.parametrize(
    ("plan", "condition", "expected"),
    [
        (body(COMPUTED[:2]), 1, True),
        (body(COMPUTED[:2]), None, True),
        (body(COMPUTED[:2], on_host=True), 1, True),
        (body(COMPUTED[:2], dtype=DType.INT4), 1, False),
        (body(COMPUTED[:2], dtype=DType.FLOAT64), 1, False),
        (body(COMPUTED[:2], size=4), 1, False),
        (body([PASSED[1], COMPUTED[1]]), 1, True),  # the condition stays what it is
        (body([PASSED[1], COMPUTED[1]]), None, False),  # a Scan has none
        (body([PASSED[0], COMPUTED[1]]), 1, False),
        (body([PASSED[1], PASSED[2]]), 1, False),
        (body([COMPUTED[0], PASSED[2]]), 1, False),
    ],
)
def test_a_body_iterates_in_c_if_it_computes_all_that_it_carries(
    plan: BodyPlan, condition: int | None, expected: bool
) -> None:
    assert can_iterate(plan, VALUES, {2: 1}, condition) is expected


@pytest.mark.parametrize("trip_count", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("keeps", [True, False], ids=["condition-kept", "condition-computed"])
def test_each_iteration_reads_the_one_before(trip_count: int, keeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    class Counted(Iterations):
        def run(self, count: int, steps: Any) -> Any:
            done, outputs = super().run(count, steps)
            runs.append(done)
            return done, outputs

    monkeypatch.setattr(control, "Iterations", Counted)
    condition = "d = Identity(k)" if keeps else "s = Identity(k)  d = And(s, k)"
    text = (
        "net (float[3] x, int64 m) => (float[3] y, float[n,3] z) {"
        "t = Constant<value = bool {1}>()  y, z = Loop<body = step (int64 i, bool k, float[3] a) =>"
        f"(bool d, float[3] b, float[3] e) {{ {condition}  f = Cast<to = 1>(i)  g = Add(a, f)  b = Add(g, a)"
        "e = Identity(b) }>(m, t, x) }"
    )
    x = np.arange(3, dtype=np.float32)
    y, z = InferenceSession(package(text)).run(None, {"x": x, "m": np.array(trip_count)})
    rows = []
    for number in range(trip_count):
        rows.append(2 * (rows[-1] if rows else x) + number)
    np.testing.assert_array_equal(z, np.array(rows, np.float32).reshape(trip_count, 3))
    np.testing.assert_array_equal(y, rows[-1] if rows else x)
    assert sum(runs) == trip_count

"""Times by type of op, from given times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atcpy.report.profile import OpTime, counter_lines, op_lines, roofline_line, times_by_op
from atcpy.runtime.profile import TaskCost, TaskInfo, TaskTime
from atcpy.runtime.roofline import Bandwidth, Roofline

MACHINE = Roofline(2, 1e12, (Bandwidth(1 << 20, 1e11),))


def time_of(op: str, runs: int, seconds: float, cost: TaskCost) -> TaskTime:
    return TaskTime(TaskInfo(f"{op}1", op, "AIcoreEngine", "k", (op,), ()), runs, seconds, cost)


def moves(count: int) -> TaskCost:
    return TaskCost(0, count, count, None)


def sums(flops: int, multiplied: str = "float32") -> TaskCost:
    return TaskCost(0, 1000, 0, flops, multiplied)


def test_tasks_of_a_type_are_added_up() -> None:
    times = [
        time_of("Relu", 2, 1e-3, moves(25_000)),
        time_of("Conv", 1, 4e-3, sums(10**9)),
        time_of("Conv", 3, 5e-3, sums(2 * 10**9)),
    ]
    conv, relu = times_by_op(times, MACHINE)
    assert conv == OpTime(
        op="Conv", tasks=2, launches=4, seconds=pytest.approx(9e-3), share=pytest.approx(0.9), read_bytes=4000,
        written_bytes=0, flops=7 * 10**9, gflops_per_second=pytest.approx(7 / 9e-3),
        gbytes_per_second=pytest.approx(4e-6 / 9e-3), roofline=pytest.approx(7e-3 / 9e-3),
    )  # fmt: skip
    assert relu == OpTime(
        op="Relu", tasks=1, launches=2, seconds=1e-3, share=pytest.approx(0.1), read_bytes=50_000,
        written_bytes=50_000, flops=None, gflops_per_second=None, gbytes_per_second=pytest.approx(0.1),
        roofline=pytest.approx(1e-6 / 1e-3),
    )  # fmt: skip


def test_rates_of_products_are_those_of_the_tasks_that_have_some() -> None:
    [mixed] = times_by_op([time_of("Op", 1, 1e-3, sums(10**6)), time_of("Op", 1, 9e-3, moves(10))], MACHINE)
    assert mixed.gflops_per_second == pytest.approx(1.0)


@pytest.mark.parametrize("roofline", [None, MACHINE])
def test_a_roofline_that_is_not_known_for_one_task_is_not_known(roofline: Roofline | None) -> None:
    [op] = times_by_op(
        [time_of("Op", 1, 1e-3, moves(10)), time_of("Op", 1, 1e-3, sums(5, multiplied="float64"))], roofline
    )
    assert op.roofline is None
    [op] = times_by_op([time_of("Op", 1, 1e-3, moves(10))], roofline)
    assert (op.roofline is None) == (roofline is None)


def test_tasks_that_did_not_run_are_left_out() -> None:
    assert times_by_op([time_of("Relu", 0, 0.0, moves(10))], MACHINE) == []
    assert times_by_op([], None) == []


def test_no_time_has_no_rates() -> None:
    [op] = times_by_op([time_of("Relu", 1, 0.0, moves(10))], MACHINE)
    assert (op.share, op.gbytes_per_second, op.roofline) == (0.0, None, None)


def test_the_table() -> None:
    ops = times_by_op([time_of("Conv", 1, 3e-3, sums(10**9)), time_of("Relu", 2, 1e-3, moves(25_000))], None)
    assert list(op_lines(ops)) == [
        "op    tasks  launches     time  share  GFLOP/s      GB/s  roofline",
        "Conv      1         1  3.00 ms  75.0%      333  0.000333         -",
        "Relu      1         2  1.00 ms  25.0%        -       0.1         -",
    ]


def test_a_table_of_many_types_ends() -> None:
    ops = times_by_op([time_of(f"Op{n:02}", 1, 1e-3 / (n + 1), moves(n)) for n in range(22)], MACHINE)
    lines = list(op_lines(ops))
    assert len(lines) == 22
    assert lines[-1] == "and 2 types of less time (--json lists all)"


def test_the_lines_below_it() -> None:
    assert roofline_line(MACHINE) == "peaks of 2 threads: 1000 GFLOP/s in float32, 100 GB/s for 1.0 MB"
    machine = replace(MACHINE, other_types={"bfloat16": 2e12, "int8": 4e12})
    assert roofline_line(machine) == (
        "peaks of 2 threads: 1000 GFLOP/s in float32, 2000 GFLOP/s in bfloat16, 4000 GOP/s in int8, 100 GB/s for 1.0 MB"
    )
    values = {"cycles": 2000, "instructions": 5000, "cache_misses": 1_000_000}
    assert list(counter_lines(values, "")) == [
        "counted: 2,000 cycles, 5,000 instructions, 1,000,000 cache misses, 2.50 instructions a cycle"
    ]
    assert list(counter_lines({"cycles": 7}, "denied")) == ["counted: 7 cycles", "not counted: denied"]
    assert list(counter_lines({}, "denied")) == ["not counted: denied"]
    assert list(counter_lines({"cycles": 0, "instructions": 0}, "")) == ["counted: 0 cycles, 0 instructions"]

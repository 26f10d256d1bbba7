"""A profile by type of op: time, what was computed and moved, and the share of the roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from atcpy.errors import count_of
from atcpy.report.columns import table
from atcpy.report.units import duration, rate, size
from atcpy.runtime.profile import TaskTime
from atcpy.runtime.roofline import Roofline

_OPS_SHOWN = 20
_UNITS = {"int8": "OP"}  # others are operations on floats


@dataclass(frozen=True, slots=True)
class OpTime:
    """All launches of the tasks of a type: their time and its share of that of all tasks, what they read, write and
    compute, rates, and the share of the roofline that they reach. `flops` and their rate are those of the tasks that
    sum products; None where there is none. `roofline`: None if it is not known for one of the tasks.
    """

    op: str
    tasks: int
    launches: int
    seconds: float
    share: float
    read_bytes: int
    written_bytes: int
    flops: int | None
    gflops_per_second: float | None
    gbytes_per_second: float | None
    roofline: float | None


def times_by_op(times: Sequence[TaskTime], roofline: Roofline | None) -> list[OpTime]:
    """Return the types of tasks that ran, what took longest first."""
    groups: dict[str, list[TaskTime]] = {}
    for item in times:
        if item.runs:
            groups.setdefault(item.task.op_type, []).append(item)
    total = sum(item.seconds for item in times)
    ops = [_sum(op, group, total, roofline) for op, group in groups.items()]
    return sorted(ops, key=lambda each: -each.seconds)


def _sum(op: str, group: Sequence[TaskTime], total: float, roofline: Roofline | None) -> OpTime:
    seconds = sum(item.seconds for item in group)
    summing = [item for item in group if item.cost.flops is not None]
    flops = sum(item.runs * (item.cost.flops or 0) for item in summing) if summing else None
    read = sum(item.runs * item.cost.read_bytes for item in group)
    written = sum(item.runs * item.cost.written_bytes for item in group)
    floors = [(item.runs, None if roofline is None else roofline.floor_seconds(item.cost)) for item in group]
    floor = sum(runs * each for runs, each in floors if each is not None)
    return OpTime(
        op=op,
        tasks=len(group),
        launches=sum(item.runs for item in group),
        seconds=seconds,
        share=_ratio(seconds, total) or 0.0,
        read_bytes=read,
        written_bytes=written,
        flops=flops,
        gflops_per_second=None if flops is None else _ratio(flops * 1e-9, sum(item.seconds for item in summing)),
        gbytes_per_second=_ratio((read + written) * 1e-9, seconds),
        roofline=None if any(each is None for _, each in floors) else _ratio(floor, seconds),
    )


def _ratio(amount: float, seconds: float) -> float | None:
    return amount / seconds if seconds > 0 else None


def ops_record(ops: Sequence[OpTime]) -> list[dict[str, Any]]:
    """The rows for `--json`."""
    return [asdict(op) for op in ops]


def op_lines(ops: Sequence[OpTime]) -> Iterator[str]:
    """The rows as a table, `-` where a number is not known."""
    head = ("op", "tasks", "launches", "time", "share", "GFLOP/s", "GB/s", "roofline")
    rows = [
        (
            *(op.op, op.tasks, op.launches, duration(op.seconds), f"{op.share:.1%}"),
            *(rate(op.gflops_per_second), rate(op.gbytes_per_second)),
            "-" if op.roofline is None else f"{op.roofline:.0%}",
        )
        for op in ops[:_OPS_SHOWN]
    ]
    yield from table(head, rows, right=range(1, len(head)))
    if len(ops) > _OPS_SHOWN:
        yield f"and {count_of(len(ops) - _OPS_SHOWN, 'type')} of less time (--json lists all)"


def roofline_line(roofline: Roofline) -> str:
    """The peaks of this machine, as they were measured."""
    rates = [f"{rate(each.bytes_per_second * 1e-9)} GB/s for {size(each.bytes)}" for each in roofline.bandwidths]
    threads = count_of(roofline.threads, "thread")
    peaks = {"float32": roofline.flops_per_second, **roofline.other_types}
    operations = ", ".join(
        f"{rate(peak * 1e-9)} G{_UNITS.get(name, 'FLOP')}/s in {name}" for name, peak in peaks.items()
    )
    return f"peaks of {threads}: {operations}, {', '.join(rates)}"


def counter_lines(values: Mapping[str, int], missing: str) -> Iterator[str]:
    """What the hardware counted, or why it did not."""
    if values:
        counted = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in values.items())
        cycles, instructions = values.get("cycles"), values.get("instructions")
        rate = f", {instructions / cycles:.2f} instructions a cycle" if cycles and instructions is not None else ""
        yield f"counted: {counted}{rate}"
    if missing:
        yield f"not counted: {missing}"

"""The memory plan of a package as `inspect --memory` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atcpy.errors import count_of
from atcpy.report.columns import table
from atcpy.report.memory_plan import ArenaPlan

MAX_ROWS = 20

Record = dict[str, Any]


def arena_record(plan: ArenaPlan) -> Record:
    """The plan for JSON: all buffers, and the numbers of those that bound the arena or end above its lower bound."""
    numbers = {buffer: number for number, buffer in enumerate(plan.buffers)}
    bound = plan.peak.nbytes
    return {
        "plan": plan.plan,
        "arena": plan.arena_bytes,
        "lower_bound": bound,
        "ratio": plan.arena_bytes / bound if bound else 1.0,
        "peak": {
            "task": plan.peak.task,
            "node": plan.tasks[plan.peak.task] if plan.tasks else "",
            "buffers": [numbers[buffer] for buffer in plan.at_peak],
            "values": [buffer.value_at(plan.peak.task) for buffer in plan.at_peak],
        },
        "above_bound": [numbers[buffer] for buffer in plan.above_bound],
        "tasks": len(plan.tasks),
        "sections": [[section.start, section.stop] for section in plan.sections],
        "buffers": [
            {
                "values": list(buffer.names),
                "offset": buffer.block.offset,
                "bytes": buffer.block.nbytes,
                "first_task": buffer.block.first,
                "last_task": buffer.block.last,
                "stream": buffer.stream,
            }
            for buffer in plan.buffers
        ],
    }


def arena_lines(record: Record) -> list[str]:
    """The plan for people: arena, lower bound and gap, and the buffers that cause them."""
    name = f"plan {record['plan']}: " if record["plan"] else ""
    over = record["arena"] - record["lower_bound"]
    gap = f"{over} bytes above it ({record['ratio']:.3f}×)" if over > 0 else "met"
    peak = record["peak"]
    buffers = [record["buffers"][number] for number in peak["buffers"]]
    above = [record["buffers"][number] for number in record["above_bound"]]
    counted = f"{count_of(len(record['buffers']), 'buffer')} of {count_of(record['tasks'], 'task')}"
    lines = [f"{name}arena {record['arena']} bytes, lower bound {record['lower_bound']}: {gap}; {counted}"]
    if buffers:
        lines += _table(f"at the peak, task {peak['task']} ({peak['node']})", buffers, peak["values"])
    if above:
        lines += ["", *_table("above the lower bound", above, [buffer["values"][0] for buffer in above])]
    return lines


def _table(title: str, buffers: Sequence[Record], names: Sequence[str]) -> list[str]:
    rows = [
        (
            name + (f" and {len(b['values']) - 1} more" if len(b["values"]) > 1 else ""),
            b["bytes"],
            b["offset"],
            f"{b['first_task']}-{b['last_task']}",
            b["stream"],
        )
        for b, name in list(zip(buffers, names, strict=True))[:MAX_ROWS]
    ]
    more = [f"and {len(buffers) - MAX_ROWS} more"] if len(buffers) > MAX_ROWS else []
    return [*table((title, "bytes", "offset", "tasks", "stream"), rows, right=(1, 2)), *more]

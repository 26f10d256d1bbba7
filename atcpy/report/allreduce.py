"""What became of the allreduces, in one line."""

from collections.abc import Mapping
from typing import Any

from atcpy.errors import count_of
from atcpy.report.units import counts, duration


def allreduce_line(plan: Mapping[str, Any]) -> str:
    """The record of an `AllReducePlan` as `convert` and `inspect` print it."""
    algorithms = " · ".join(plan["algorithms"]) if len(plan["algorithms"]) == 1 else counts(plan["algorithms"])
    predicted = f"{duration(plan['seconds'])} predicted for {count_of(plan['ranks'], 'rank')} ({algorithms})"
    others = f"alone {duration(plan['seconds_alone'])}, split by default {duration(plan['seconds_default'])}"
    count = count_of(plan["collectives"], "collective")
    return f"{plan['allreduces']} → {count}   {predicted}; {others}{_copies(plan)}"


def _copies(plan: Mapping[str, Any]) -> str:
    if plan["fused_copies"] is None:
        return ""
    ports = f", {plan['port_copies']} of inputs and outputs" if plan["port_copies"] else ""
    return f"   {count_of(plan['fused_copies'], 'fused copy', 'fused copies')}{ports}"

"""The name of the CPU, as the system knows it."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def cpu_model() -> str:
    """The name that the system gives the CPU; it is looked for once."""
    return next((line.partition(":")[2].strip() for line in cpuinfo() if line.startswith("model name")), "unknown")


def cpuinfo() -> list[str]:
    """The lines of /proc/cpuinfo."""
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []

"""The name of the CPU, as the system knows it."""

from __future__ import annotations

from pathlib import Path


def cpu_model() -> str:
    """The name that the system gives the CPU."""
    return next((line.partition(":")[2].strip() for line in cpuinfo() if line.startswith("model name")), "unknown")


def cpuinfo() -> list[str]:
    """The lines of /proc/cpuinfo."""
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []

"""What the machine gives where the user says nothing."""

import os
from pathlib import Path


def _cgroup_bytes() -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        return int(text) if text.isdigit() else None
    return None


def default_memory_bytes() -> int:
    """Three quarters of the memory, or the limit of the control group where that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(total * 3 // 4, _cgroup_bytes() or total)

"""The file of `--auto_tune_mode`: how long launches of kernels took, by CPU.

{"schema": "atcpy.kernel_times/1",
 "times": [{"cpu": "…", "isa": "avx512f", "threads": 1, "version": "0.1.0", "kernel": "conv2d", "launch": "…",
            "microseconds": 812.3}, …]}
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from atcpy.config_files import members_of, parse_config, read_text_file
from atcpy.errors import UsageError, Where
from atcpy.options.readers import text_of

SCHEMA: Final = "atcpy.kernel_times/1"
_UNIT: Final = "microseconds"


@dataclass(frozen=True, slots=True, order=True)
class TimedLaunch:
    """A launch of a kernel family, `launch` being its arguments and operands, and what it was measured on: the CPU's
    name, the instruction set in use, the number of threads and the version of atcpy.
    """

    cpu: str
    isa: str
    threads: int
    version: str
    kernel: str
    launch: str


_KEYS: Final = tuple(each.name for each in fields(TimedLaunch))


@dataclass(eq=False, slots=True)
class KernelTimes:
    """Microseconds of launches: those of the file, whose digest is `sha256`, and those that a conversion measures."""

    path: Path
    sha256: str = hashlib.sha256().hexdigest()  # of no file
    microseconds: dict[TimedLaunch, float] = field(default_factory=dict)
    is_changed: bool = False

    def add(self, launch: TimedLaunch, microseconds: float) -> None:
        """Note a time, to three decimals: what the file will have."""
        self.microseconds[launch] = round(microseconds, 3)
        self.is_changed = True

    def text(self) -> str:
        """What the file holds."""
        times = [{**asdict(launch), _UNIT: self.microseconds[launch]} for launch in sorted(self.microseconds)]
        return json.dumps({"schema": SCHEMA, "times": times}, indent=1) + "\n"


def read_kernel_times(option: str, value: object) -> KernelTimes:
    """The times of a file, none if it does not exist. Raises UsageError for one that holds something else."""
    name = str(value) if isinstance(value, os.PathLike) else text_of(option, value)
    path = Path(name)
    if not path.exists():
        return KernelTimes(path)
    text, sha256 = read_text_file(name)
    root = members_of(name, "the file", parse_config(name, text), ("schema", "times"))
    if root.get("schema") != SCHEMA or not isinstance(root.get("times"), list):
        raise _wrong(name, f'it has no schema "{SCHEMA}" with times')
    return KernelTimes(
        path, sha256, dict(_read_time(name, number, record) for number, record in enumerate(root["times"], 1))
    )


def _read_time(path: str, number: int, record: object) -> tuple[TimedLaunch, float]:
    where = f"time {number}"
    members = members_of(path, where, record, (*_KEYS, _UNIT))
    if missing := [key for key in (*_KEYS, _UNIT) if key not in members]:
        raise _wrong(path, f"{where} lacks {missing[0]}")
    values: dict[str, Any] = {key: members[key] for key in _KEYS}
    for key, item in values.items():
        kind = int if key == "threads" else str
        if not isinstance(item, kind) or isinstance(item, bool):
            raise _wrong(path, f"{key} of {where} is no {'number' if kind is int else 'text'}")
    microseconds = members[_UNIT]
    is_number = isinstance(microseconds, int | float) and not isinstance(microseconds, bool)
    if not is_number or not math.isfinite(microseconds) or microseconds <= 0:
        raise _wrong(path, f"{_UNIT} of {where} are no number above 0")
    return TimedLaunch(**values), float(microseconds)


def _wrong(path: str, what: str) -> UsageError:
    hint = "remove the file, which is written again"
    return UsageError("E20003", f"{path}: {what}", where=Where(file=path), hint=hint)

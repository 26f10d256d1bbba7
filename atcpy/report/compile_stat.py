"""`fusion_result.json`: what ATC's `--export_compile_stat` tells of the passes.

    {"session_and_graph_id_0_0": {"graph_fusion": {Pass: {"effect_times": "1", "match_times": "1"}}, "ub_fusion": {}}}

Counts are texts, as ATC writes them. All our passes rewrite the graph; none merges kernels on a chip's buffer, so
`ub_fusion` is empty. Passes that matched nothing, that are switched off, or that cannot be, do not appear.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from atcpy.om.atomic import atomic_write
from atcpy.passes.pass_set import built_in_passes
from atcpy.stages.report import ConvertReport

NAME = "fusion_result.json"
NEVER, AT_END, AFTER_COMPILATION = 0, 1, 2

_written: dict[Path, dict[str, Any]] = {}  # the graphs of this process so far: a later one is added to its file


def statistics_path() -> Path:
    """In the working directory, or where `ASCEND_WORK_PATH` says."""
    work = os.environ.get("ASCEND_WORK_PATH")
    return (Path(work) / "FE" / str(os.getpid()) if work else Path.cwd()) / NAME


class CompileStatistics:
    """Writes the file at the moment that `--export_compile_stat` names; one that an earlier process left is removed."""

    def __init__(self, when: int) -> None:
        self._when = when
        self._path = statistics_path()
        if when != NEVER and self._path not in _written:
            with suppress(FileNotFoundError):
                self._path.unlink()

    def compiled(self, report: ConvertReport) -> None:
        """The graph is compiled."""
        if self._when == AFTER_COMPILATION:
            self._write(report)

    def at_end(self, report: ConvertReport) -> None:
        """The command is about to end well."""
        if self._when == AT_END:
            self._write(report)

    def _write(self, report: ConvertReport) -> None:
        content = _written.setdefault(self._path, {})
        required = {entry.name for entry in built_in_passes() if entry.required}
        fusions = {
            entry.name: {"effect_times": str(entry.applied), "match_times": str(entry.matched)}
            for entry in report.passes
            if entry.matched and entry.name not in required
        }
        if fusions:
            content[f"session_and_graph_id_0_{len(content)}"] = {"graph_fusion": fusions, "ub_fusion": {}}
        atomic_write(self._path, [json.dumps(content, indent=4, sort_keys=True).encode() + b"\n"])

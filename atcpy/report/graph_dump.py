"""`--dump_graph`: the graph after each stage, in files named after GE's dumps, and around single passes. What the
environment asks for with DUMP_GE_GRAPH comes in GE's own forms.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from atcpy.ir import Graph
from atcpy.ir.decisions import Moment
from atcpy.ir.dump import dump
from atcpy.om.atomic import atomic_write
from atcpy.options import DumpOptions, Stage
from atcpy.stages.pipeline import GE_STAGE, Observer


def dump_path(directory: Path, stage: Stage) -> Path:
    """`NN_<GE stage>.txt`"""
    return directory / f"{list(Stage).index(stage):02}_{GE_STAGE[stage]}.txt"


class Dumper(Observer):
    """An observer of the pipeline that writes what is asked for."""

    def __init__(self, options: DumpOptions, ge_folder: Path = Path()) -> None:
        """GE's dumps go to `ge_folder` if the environment names no folder.

        Raises UsageError (E13024) if the environment asks for dumps that there are not.
        """
        self._options = options
        self._runs = 0
        self._ge_dumps = None
        if os.environ.get("DUMP_GE_GRAPH"):
            from atcpy.report.ge_dump import ge_dumps

            self._ge_dumps = ge_dumps(os.environ, ge_folder)

    def stage_done(self, stage: Stage, seconds: float, graphs: Sequence[Graph]) -> None:
        """Write the graph, or its pieces one after the other, if it is asked for after this stage."""
        if self._ge_dumps is not None:
            self._ge_dumps.write(GE_STAGE[stage], graphs[0])
        if self._options.directory is not None and stage in self._options.stages:
            _write(dump_path(self._options.directory, stage), graphs)

    def passing(self, name: str, graph: Graph, moment: Moment) -> None:
        """`NN_before_<pass>.txt` and `NN_after_<pass>.txt`, numbered in the order in which the passes run."""
        if self._options.directory is None or name not in self._options.passes:
            return
        self._runs += moment is Moment.BEFORE
        _write(self._options.directory / f"{self._runs:02}_{moment.value}_{name}.txt", [graph])


def _write(path: Path, graphs: Sequence[Graph]) -> None:
    atomic_write(path, [_text(graphs).encode("utf-8", "backslashreplace")])


def _text(graphs: Sequence[Graph]) -> str:
    if len(graphs) == 1:
        return dump(graphs[0])
    return "".join(f"--- {graph.name}\n{dump(graph)}" for graph in graphs)

"""`--dump_graph`: the graph after each stage, in files named after GE's dumps, and around single passes."""

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

    def __init__(self, options: DumpOptions) -> None:
        self._options = options
        self._runs = 0

    def stage_done(self, stage: Stage, seconds: float, graphs: Sequence[Graph]) -> None:
        """Write the graph, or its pieces one after the other, if it is asked for after this stage."""
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

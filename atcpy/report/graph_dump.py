"""`--dump_graph`: the graph after each stage, in files named after GE's dumps."""

from collections.abc import Sequence
from pathlib import Path

from atcpy.errors import raise_os_error
from atcpy.ir import Graph
from atcpy.ir.dump import dump
from atcpy.options import DumpOptions, Stage
from atcpy.stages.pipeline import GE_STAGE


def dump_path(directory: Path, stage: Stage) -> Path:
    """`NN_<GE stage>.txt`"""
    return directory / f"{list(Stage).index(stage):02}_{GE_STAGE[stage]}.txt"


def write_dump(options: DumpOptions, stage: Stage, graphs: Sequence[Graph]) -> None:
    """Write the graph, or its pieces one after the other, if it is asked for after this stage."""
    if options.directory is None or stage not in options.stages:
        return
    path = dump_path(options.directory, stage)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(graphs), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise_os_error(error, str(path), writing=True)


def _text(graphs: Sequence[Graph]) -> str:
    if len(graphs) == 1:
        return dump(graphs[0])
    return "".join(f"--- {graph.name}\n{dump(graph)}" for graph in graphs)

"""What a conversion shows while it runs."""

from collections.abc import Sequence
from pathlib import Path

from atcpy.cli.invocation import Invocation
from atcpy.ir import Graph
from atcpy.ir.decisions import Moment
from atcpy.options import DumpOptions, Stage
from atcpy.report.graph_dump import Dumper
from atcpy.report.units import duration


class Watcher(Dumper):
    """Reports the progress, and writes the dumps."""

    def __init__(self, run: Invocation, options: DumpOptions, ge_folder: Path = Path()) -> None:
        super().__init__(options, ge_folder)
        self._run = run
        self._stage = ""

    def stage(self, stage: Stage) -> None:
        """Report that a stage begins."""
        stages = list(Stage)
        self._stage = f"{stage.value}  {stages.index(stage) + 1} of {len(stages)}"
        self._run.progress.step(stage.value, shown=self._stage)

    def passing(self, name: str, graph: Graph, moment: Moment) -> None:
        """Show which pass runs, and write the dump."""
        if moment is Moment.BEFORE:
            self._run.progress.show(f"{self._stage}  {name}")
        super().passing(name, graph, moment)

    def stage_done(self, stage: Stage, seconds: float, graphs: Sequence[Graph]) -> None:
        """Report the time of a stage, and write the dump."""
        nodes = sum(len(graph) for graph in graphs)
        self._run.say(f"{stage.value}: {duration(seconds)}, {nodes} nodes", level=2)
        super().stage_done(stage, seconds, graphs)

"""Compares the number of tasks that a package launches per run with the nodes of ONNX Runtime's optimized model.

python benchmarks/task_counts.py models/generated/*.onnx

Both fuse nodes into ops of their own. The nodes of a loop's body count once, however often it runs. Of an If, the
package counts the branch that was taken, and ONNX Runtime the one with fewer nodes.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import onnx
import onnxruntime as ort
import typer
from feeds import Feeds, load_feeds

import atcpy
from atcpy.errors import AtcError

EXIT_MORE: Final = 1


@dataclass(frozen=True)
class Counts:
    """Counts of both engines, None for one that cannot run the model; `kinds` are the package's tasks by op."""

    model: str
    ours: int | None
    theirs: int | None
    kinds: dict[str, int]

    @property
    def is_more(self) -> bool:
        """Whether our count is larger, or missing while theirs is not."""
        return self.theirs is not None and (self.ours is None or self.ours > self.theirs)


def count(model: Path, feeds: Feeds) -> Counts:
    """Count the tasks of one run with these inputs."""
    with tempfile.TemporaryDirectory() as folder:
        kinds = _package_tasks(model, feeds, Path(folder) / "model.om")
        theirs = _optimised_nodes(model, Path(folder) / "optimised.onnx")
    return Counts(
        model.stem, None if kinds is None else kinds.total(), theirs, dict((kinds or Counter()).most_common())
    )


def _package_tasks(model: Path, feeds: Feeds, om: Path) -> Counter[str] | None:
    try:
        atcpy.convert(str(model), str(om))
        session = atcpy.InferenceSession(str(om), threads=1)
        times = session.profile(feeds)
    except AtcError as error:
        print(f"{model}: {str(error).partition(chr(10))[0]}")
        return None
    run_by_python = (node.op_type for node in session.eager_nodes if node.has_subgraphs)
    return Counter([*(time.task.op_type for time in times if time.seconds), *run_by_python])  # those of one branch


def _optimised_nodes(model: Path, target: Path) -> int | None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    try:
        ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  they have no base class
        print(f"{model}: {' '.join(str(error).split())[:160]}")
        return None
    return _nodes(onnx.load(target, load_external_data=False).graph)


def _nodes(graph: onnx.GraphProto) -> int:
    total = 0
    for node in graph.node:
        bodies = [_nodes(attr.g) for attr in node.attribute if attr.type == onnx.AttributeProto.GRAPH]
        total += 1 + (min(bodies) if node.op_type == "If" else sum(bodies))
    return total


def main(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL.onnx...", exists=True, dir_okay=False)],
    feeds: Annotated[Path | None, typer.Option(help="folder of inputs: MODEL.npz, or MODEL.*.npz with in/NAME")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the figures to this file")] = None,
) -> None:
    """Print the counts of each model; exit status 1 if ours is larger for any."""
    print(f"{'model':<36}{'tasks':>7}{'nodes':>7}")
    found: list[Counts] = []
    for model in models:
        counts = count(model, load_feeds(model, feeds))
        ours, theirs = ("-" if number is None else number for number in (counts.ours, counts.theirs))
        remark = "   " + " ".join(f"{kind}:{n}" for kind, n in counts.kinds.items()) if counts.is_more else ""
        print(f"{counts.model:<36}{ours:>7}{theirs:>7}{remark}", flush=True)
        found.append(counts)
    judged = [counts for counts in found if counts.theirs is not None]
    print(f"no more tasks than nodes: {sum(not counts.is_more for counts in judged)} of {len(judged)}")
    if json_file:
        json_file.write_text(json.dumps([asdict(counts) for counts in found], indent=1) + "\n")
    if any(counts.is_more for counts in found):
        raise SystemExit(EXIT_MORE)


if __name__ == "__main__":
    typer.run(main)

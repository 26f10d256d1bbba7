"""Freeze a TensorFlow model with its variables into one graph. Weights are copied from file to file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from atcpy.errors import AtcError, UsageError, Where, raise_all
from atcpy.om.atomic import atomic_write
from atcpy.options import ParseOptions
from atcpy.parsers.tensorflow.frozen import freeze_graph
from atcpy.parsers.tensorflow.model import open_model


@dataclass(frozen=True, slots=True)
class FreezeReport:
    """What was written; the fields are those of `freeze --json`."""

    output: str
    bytes: int
    kind: str  # of the model: SavedModel, checkpoint or frozen graph
    nodes: int
    variables: int
    weight_bytes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def freeze(model: Path, target: Path, options: ParseOptions, checkpoint: Path | None = None) -> FreezeReport:
    """Writes `model` to `target` with its variables, or those of a separate checkpoint, as constants."""
    try:
        opened = open_model(model, options, checkpoint=checkpoint, pivots=True)
        raise_all(opened.states)
        graph = freeze_graph(opened)
    except AtcError as error:
        raise error.located(file=str(model)) from error.__cause__
    if any(_is_same(target, Path(file)) for file in opened.file.files):
        raise UsageError("E13004", f"{target} is a file of the model itself", where=Where(file=str(target)))
    atomic_write(target, graph.buffers())
    return FreezeReport(
        str(target),
        graph.nbytes,
        opened.file.kind.value,
        graph.node_count,
        len(graph.variables),
        graph.weight_bytes,
        tuple(graph.inputs),
        tuple(graph.outputs),
    )


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and os.path.samefile(one, other)

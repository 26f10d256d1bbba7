"""A path → the plain graph that its outputs depend on: what conversion and freezing begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from atcpy.errors import AtcError, Unsupported, Where, raise_all
from atcpy.options import ParseOptions
from atcpy.parsers.tensorflow.conditions import origin
from atcpy.parsers.tensorflow.endpoints import Endpoints, find_endpoints
from atcpy.parsers.tensorflow.examples import feed_features
from atcpy.parsers.tensorflow.functions import Library, inline_calls
from atcpy.parsers.tensorflow.graph import SWITCHES, TfGraph, TfNode, needed, read_graph, redirect
from atcpy.parsers.tensorflow.locate import find_checkpoint
from atcpy.parsers.tensorflow.reader import TfFile, read_file
from atcpy.parsers.tensorflow.tables import Tables
from atcpy.parsers.tensorflow.variables import VARIABLES, Variables


@dataclass(frozen=True, slots=True)
class TfModel:
    """The nodes in an order in which each comes after what it reads; calls of functions are in place. The inputs of
    `ends` are those that belong to the graph. `states` has the errors for what it keeps from run to run, `features` the
    inputs that the graph would parse from examples.
    """

    file: TfFile
    library: Library
    graph: TfGraph
    ends: Endpoints
    variables: Variables
    tables: Tables
    states: list[AtcError]
    features: Sequence[str] = ()


def open_model(path: Path, options: ParseOptions, *, checkpoint: Path | None = None, pivots: bool = False) -> TfModel:
    """Reads a model up to its plain graph; raises one error that holds all of its problems. Its variables are those of
    `checkpoint`, a path to one, or else those that were saved with it. With `pivots` the nodes are there, too, on which
    constants of branches and loops of TensorFlow 1 hang by control edges.
    """
    file = read_file(path, options)
    if checkpoint is not None:
        file = file.with_checkpoint(find_checkpoint(checkpoint))
    problems: list[AtcError] = []
    library = Library(file.graph.library.function, file.ops, file.function_aliases)
    nodes = read_graph(file.graph, problems)
    raise_all(problems)
    ends = find_endpoints(nodes, file, options)
    fed = {node.name: node for node in ends.inputs.values()}
    whole = TfGraph({**nodes, **fed}, list(fed) if ends.all_inputs else [], list(ends.outputs.values()))
    whole = redirect(whole, ends.fed)
    inlined = inline_calls(_select(whole, pivots), library)
    inlined, features = feed_features(inlined, list(ends.inputs))
    flat = _select(inlined, pivots)
    inputs = {name: node for name, node in {**ends.inputs, **features}.items() if node.name in flat.nodes}
    outputs = dict(zip(ends.outputs, flat.outputs, strict=True))
    variables = Variables(file, nodes, library)
    tables = Tables(file, nodes, library, variables)
    if any(node.op in VARIABLES for node in flat.nodes.values()):
        variables.open()
    return TfModel(
        file, library, flat, Endpoints(inputs, outputs), variables, tables, _kept_states(inlined, flat), list(features)
    )


def _kept_states(inlined: TfGraph, flat: TfGraph) -> list[AtcError]:
    """Errors for the variables that functions write and outputs depend on: a run would change the next one."""
    written: dict[str, TfNode] = {}
    for node in inlined.nodes.values():
        if node.op in _WRITES and node.inputs and node.name not in flat.nodes:
            handle = flat.nodes.get(origin(inlined.nodes, node.inputs[0]).node)
            if handle is not None and handle.op in VARIABLES:
                written.setdefault(handle.name, node)
    hint = "export it without state: what is kept becomes an input and an output"
    return [
        Unsupported(
            "E10055",
            f'the model writes the variable "{name}", on which its outputs depend: a run would change the next one',
            where=Where(node=node.name, op=node.op),
            hint=hint,
        )
        for name, node in written.items()
    ]


def _select(graph: TfGraph, pivots: bool) -> TfGraph:
    """What the outputs need."""
    problems: list[AtcError] = []
    found = needed(graph, problems)
    raise_all(problems)
    if pivots and any(node.op in SWITCHES for node in found.nodes.values()):
        return needed(graph, problems, pivots=_PIVOTS)
    return found


_WRITES: Final = frozenset(
    {
        "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceScatterAdd", "ResourceScatterUpdate",
        "ResourceScatterNdUpdate",
    }
)  # fmt: skip
# Parts of branches and loops.
_PIVOTS: Final = frozenset({"Identity", "Switch", "Merge", "LoopCond", "Enter", "NextIteration", "Exit"})

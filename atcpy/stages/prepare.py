"""Stage 1, prepare: shapes, constants and engine-neutral rewrites on the whole graph."""

from collections.abc import Callable

from atcpy.errors import ModelInvalid
from atcpy.ir import Graph, walk
from atcpy.options import Deadline, PrepareOptions, Stage
from atcpy.passes import prepare as _passes  # registers them
from atcpy.passes.base import Pass, run_passes

__all__ = ["prepare", "prepare_bodies"]
assert _passes


def prepare(
    graph: Graph,
    options: PrepareOptions,
    *,
    deadline: Deadline,
    verify_ir: bool = False,
    wanted: Callable[[Pass], bool] = lambda entry: True,
    first: tuple[Pass, ...] = (),
) -> None:
    """Infers, folds and rewrites a graph as it came from the parser, by the passes that are `wanted`, and by
    those of this conversion alone, `first`.
    """
    run_passes(Stage.PREPARE, graph, options, deadline=deadline, verify_ir=verify_ir, wanted=wanted, first=first)


def prepare_bodies(graph: Graph, prepare_body: Callable[[Graph], None]) -> None:
    """Prepares the bodies of If, Loop and Scan in a graph that is prepared itself: their inputs have its types."""
    for body in [body for node in walk(graph) for body in node.subgraphs]:
        body.decisions = graph.decisions
        try:
            prepare_body(body)
        except ModelInvalid as error:
            if error.code != "EZ8888":  # a branch that is never taken with these shapes may be one that does not fit
                raise

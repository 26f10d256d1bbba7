"""Stage 1, prepare: shapes, constants and engine-neutral rewrites on the whole graph."""

from collections.abc import Callable

from atcpy.ir import Graph
from atcpy.options import Deadline, PrepareOptions, Stage
from atcpy.passes import prepare as _passes  # registers them
from atcpy.passes.base import Pass, run_passes

__all__ = ["prepare"]
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

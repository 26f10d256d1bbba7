"""Running passes over the bodies of If, Loop and Scan."""

from collections.abc import Callable

from atcpy.errors import ModelInvalid
from atcpy.ir import Graph, walk


def prepare_bodies(graph: Graph, prepare_body: Callable[[Graph], None]) -> None:
    """Prepare the bodies in a graph that is prepared itself: their inputs have its types."""
    for body in [body for node in walk(graph) for body in node.subgraphs]:
        body.decisions = graph.decisions
        try:
            prepare_body(body)
        except ModelInvalid as error:
            if error.code != "EZ8888":  # a branch that is never taken with these shapes may be one that does not fit
                raise

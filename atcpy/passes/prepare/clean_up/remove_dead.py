"""Dead code: what no output needs."""

from atcpy.ir import Graph, PassRecord, erase_dead
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase


@graph_pass("PrunePass", Phase.COMPACT, after=("CommonSubexpressionEliminationPass",), required=True, repeats=True)
def remove_dead(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Remove nodes whose results nobody reads."""
    count = erase_dead(graph, [node for node in graph.nodes if not node.is_read], "dead")
    record.matched += count
    record.applied += count

"""--deterministic_level=2: rows of the same numbers have the same results, wherever in a tensor they are.

Kernels compute the last elements of a row, and the last rows of a block, with the arithmetic of all others, so that it
holds without effort. Recurrent kernels multiply a single last row otherwise; the sums of collectives depend on which
rank adds up a chunk; of what the host runs nothing is known.
"""

from __future__ import annotations

from atcpy.errors import Unsupported, raise_all
from atcpy.ir import Engine, Graph, Node, walk


def check_positions(graph: Graph) -> None:
    """Raise Unsupported (E10055) for all nodes whose results may depend on the position of a row."""
    problems = [
        Unsupported("E10055", f"--deterministic_level=2 is not supported: {why}", where=node, hint="1 is always true")
        for node in walk(graph)
        if (why := _why_not(node))
    ]
    raise_all(problems)


def _why_not(node: Node) -> str:
    if node.op_type == "Recurrence":
        return "recurrent layers compute the last row of a batch in another way"
    if node.engine is Engine.HCCL:
        return "collectives add up the parts of a tensor in different orders"
    if node.engine is Engine.HOST_CPU and not node.is_structural:
        return f"{node.op_type} runs on HOST_CPU"
    return ""

"""Shorten chains of Reshape, Squeeze, Unsqueeze, Flatten and Transpose: `passes/layout_chain.py`.

Transpose(Transpose(x))             →  x, or one Transpose
Reshape(Unsqueeze(x))               →  Reshape(x)
Transpose(x), if only dims of size 1 change places  →  Reshape(x)

A chain goes if what takes its place has fewer nodes than die, or as many and fewer of them Transposes. What somebody
else reads stays, so that nothing is moved twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.layout_chain import MOVES, Moves, Step, chain_above, has_named_dims
from atcpy.passes.phase import Phase

LONGEST = 6  # of a chain that is looked at


@graph_pass("TransposeReshapeMergePass", Phase.MOVE, repeats=True)
def merge_moves(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Shorten chains of Reshape, Squeeze, Unsqueeze, Flatten and Transpose."""
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of(*MOVES):
        chain = list(chain_above(node, LONGEST))
        found = _shorter(chain)
        if found is not None:
            if not record.may_apply():
                break
            part, steps = found
            record.matched += 1
            record.fire(part)
            rw = Rewriter(graph, node, record.name, part)
            value = part[-1].operand(0)
            for step in steps:
                value = step.insert(rw, value)
            finisher.finish(rw, [(node.output, value)], part)
        elif 2 < len(chain) < LONGEST and all(has_named_dims(link.output.desc.shape) for link in chain):
            record.matched += 1
            record.reject(Reject("no-shorter-chain", node.name))


def _shorter(chain: Sequence[Node]) -> tuple[Sequence[Node], list[Step]] | None:
    """The longest part of a chain, from its end, that fewer steps can replace, and these."""
    for length in range(len(chain), 0, -1):
        part = chain[:length]
        source, result = part[-1].operand(0).desc.shape, part[0].output.desc.shape
        if source is None or result is None or not has_named_dims(source):
            continue
        moves = Moves(source)
        if not all(moves.apply(node) for node in reversed(part)):
            continue
        steps = moves.shortest(result)
        if steps is not None and _pays(part, steps):
            return part, steps
    return None


def _pays(part: Sequence[Node], steps: Sequence[Step]) -> bool:
    dying = 1
    while dying < len(part) and part[dying].output.use_count == 1:
        dying += 1
    transposes = sum(node.op_type == "Transpose" for node in part[:dying])
    new_transposes = sum(step.op_type == "Transpose" for step in steps)
    if len(steps) < dying:
        return True
    if len(steps) > 1 or new_transposes > transposes:
        return False
    return len(part) > 1 or new_transposes < transposes

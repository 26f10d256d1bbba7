"""Leave out initial states of RNN, GRU and LSTM that are zero: without one they begin with zero.

LSTM(x, w, r, b, lengths, ConstantOfShape(…, 0), c)  →  LSTM(x, w, r, b, lengths, , c)
"""

from __future__ import annotations

from atcpy.ir import Graph, PassRecord, Reject, erase_dead
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.recurrent.splat import elements, is_zero

_STATES = (5, 6)  # the hidden and the cell's state


@graph_pass("ZeroStateEliminationPass", Phase.RECURRENT)
def drop_zero_states(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Leave out initial states of recurrent layers that are zero."""
    for node in graph.nodes_of("RNN", "GRU", "LSTM"):
        for index in _STATES:
            state = node.input(index)
            if state is None or elements(state) is None:
                continue
            rejects = [] if is_zero(state) else [Reject("other-constant", state.name, "is not 0")]
            if not record.accept([node], *rejects):
                continue
            values = [*node.inputs[:index], None, *node.inputs[index + 1 :]]
            while values[-1] is None:
                values.pop()
            graph.set_inputs(node, values)
            node.passes = (*node.passes, record.name)
            erase_dead(graph, [state.producer])

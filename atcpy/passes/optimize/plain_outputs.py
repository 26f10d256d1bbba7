"""Outputs leave the model as the model means them: a TransData in front of NetOutput undoes blocks."""

from __future__ import annotations

from atcpy.ir import Graph, PassRecord
from atcpy.options import OptimizeOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.optimize.choose_formats import insert_transdata
from atcpy.passes.phase import Phase


@graph_pass("NetOutputPass", Phase.CANCEL, required=True)
def plain_outputs(graph: Graph, record: PassRecord, options: OptimizeOptions) -> None:
    """Give outputs their origin format."""
    net_output = graph.net_output
    for index, value in enumerate(net_output.operands):
        record.matched += 1
        if value.desc.format == value.desc.origin_format:
            continue
        plain = insert_transdata(graph, net_output, value, value.desc.origin_format)
        graph.set_input(net_output, index, plain)
        graph.take_name(plain, value)
        value.name = graph.names.fresh_value(f"{plain.name}.{value.desc.format.kind.name}")
        record.applied += 1

"""Compute distances of all pairs of rows at once, which skl2onnx writes as a loop over the rows of one side.

Scan(x, rows) { ReduceSumSquare(x − row) }   →  ReduceSumSquare(Unsqueeze(x, 0) − Unsqueeze(rows, 1))

Neighbours, kernels and clusters of scikit-learn are exported so. x is the state of the loop, which it hands on.
"""

from __future__ import annotations

from atcpy.ir import Graph, Node, PassRecord, Rewriter, Value
from atcpy.ir.closure import formal_inputs
from atcpy.ops import Trait, has_trait
from atcpy.options import OoLevel, PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase

NAME = "ScanDistancesFusionPass"


@graph_pass(NAME, Phase.RECOGNISE, level=OoLevel.O2)
def compute_at_once(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Replace loops over rows that reduce their difference to other rows."""
    finisher = Finisher(graph, record, options)
    for node in list(graph.nodes_of("Scan")):
        reduction = _distance(node)
        if reduction is None or not record.accept([node]):
            continue
        x, rows = node.operand(0), node.operand(1)
        rw = Rewriter(graph, node, NAME, [node])
        difference = rw.op("Sub", rw.unsqueeze(x, 0), rw.unsqueeze(rows, 1))
        distance = rw.op(reduction, difference, rw.const([-1], label="axes"), keepdims=0)
        finisher.finish(rw, [(node.outputs[0], x), (node.outputs[1], distance)], [node])


def _distance(node: Node) -> str | None:
    """Return the reduction over the differences of a state and one scanned input, if a Scan computes nothing else."""
    moved = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")
    if node.input_count != 2 or len(node.outputs) != 2 or any(any(node.ints_attr(name)) for name in moved):
        return None
    if any(value.desc.shape is None or len(value.desc.shape) != 2 for value in node.operands):
        return None
    body = next(node.subgraphs)
    formal = [data.output for data in formal_inputs(body)]
    if len(formal) != 2 or len(body.outputs) != 2 or _source(body.outputs[0]) is not formal[0]:
        return None
    reduction = _source(body.outputs[1]).producer
    if not has_trait(reduction, Trait.REDUCTION) or reduction.input_count != 2 or reduction.int_attr("keepdims", 1):
        return None
    axes, difference = reduction.operand(1), _source(reduction.operand(0)).producer
    if axes.tensor is None or axes.array.reshape(-1).tolist() not in ([1], [-1]) or difference.op_type != "Sub":
        return None
    operands = [_source(value) for value in difference.operands]
    return reduction.op_type if operands in (formal, formal[::-1]) else None


def _source(value: Value) -> Value:
    """Return the value that Identity nodes hand on."""
    while value.producer.op_type == "Identity":
        value = value.producer.operand(0)
    return value

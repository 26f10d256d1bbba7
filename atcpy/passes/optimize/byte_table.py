"""Look results up: what lies between a DequantizeLinear and a QuantizeLinear and takes each element by itself.

QuantizeLinear(f(g(DequantizeLinear(x))))  →  ByteTable(x, table)

A byte has 256 values: the table has what the ops of the standard give for each. With no op in between,
it changes scale and zero point.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.ir import DType, Engine, Graph, Node, PassRecord, Rewriter, Value, erase_dead
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, find_opdef, has_trait
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.reference import evaluate_by_onnx
from atcpy.options import OptimizeOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase
from atcpy.passes.quantization_params import rejects_bytes, rejects_steps, steps_of

NAME = "ByteTableFusionPass"


@graph_pass(NAME, Phase.EPILOGUE)
def fuse_byte_functions(graph: Graph, record: PassRecord, options: OptimizeOptions) -> None:
    """Look functions of quantised bytes up in a table."""
    for node in graph.nodes_of("QuantizeLinear"):
        chain = _chain_before(node)
        source = chain[0].operand(0).producer if chain else node.operand(0).producer
        if source.op_type != "DequantizeLinear" or source.engine is not Engine.VECTOR:
            continue
        rejects = (r for end in (source, node) for reasons in (rejects_bytes, rejects_steps) for r in reasons(end))
        if record.accept([node, *reversed(chain), source], *rejects):
            _replace(graph, [source, *chain, node])


def _chain_before(node: Node) -> list[Node]:
    """The elementwise nodes in front of a node that nobody else reads, the first of them first."""
    chain: list[Node] = []
    value = node.operand(0)
    while _takes_each_by_itself(value.producer) and value.use_count == 1:
        chain.append(value.producer)
        value = value.producer.operand(0)
    return chain[::-1]


def _takes_each_by_itself(node: Node) -> bool:
    x, *others = node.operands or node.outputs
    return (
        has_trait(node, Trait.ELEMENTWISE)
        and all(value.tensor is not None and value.desc.elements == 1 for value in others)
        and (x.desc.dtype, x.desc.shape) == (node.output.desc.dtype, node.output.desc.shape)
    )


def _replace(graph: Graph, nodes: Sequence[Node]) -> None:
    source, *chain, last = nodes
    steps = steps_of(source)
    floats = steps.dequantize(every_byte(steps.dtype))
    for node in chain:
        opdef = find_opdef(node)
        evaluate = evaluate_by_onnx if opdef is None or opdef.evaluate is None else opdef.evaluate
        with np.errstate(all="ignore"):
            arrays = [floats, *(None if value is None else value.array for value in node.inputs[1:])]
            floats = np.asarray(evaluate(node, arrays)[0], np.float32).reshape(-1)
    look_up(graph, nodes, NAME, source.operand(0), steps_of(last).quantize(floats))


def look_up(graph: Graph, nodes: Sequence[Node], name: str, x: Value, table: Array) -> None:
    """Look what the last of some nodes computes up for each byte x, instead of computing it by these nodes; `name` is
    that of the pass. The table is in the order of the bits of x.
    """
    last = nodes[-1]
    rw = Rewriter(graph, last, name, nodes)
    constant = rw.const(table, name=f"{last.name}_table")
    found: Value = rw.op("ByteTable", x, constant)
    found.producer.engine, constant.producer.engine = last.engine, Engine.GE_LOCAL
    infer_node(found.producer, KnownValues())
    rw.replace(last.output, found)
    erase_dead(graph, [last])


def every_byte(dtype: DType) -> Array:
    """The 256 numbers of a type of 8 bits, in the order of their bits."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy)

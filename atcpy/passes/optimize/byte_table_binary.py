"""Look sums and products of two functions of the same byte up in one table, as SiLU is in quantised models.

QLinearMul(x, ByteTable(x, t))  →  ByteTable(x, u)

Either operand may be the byte itself, or what a table gives for it. The new table has what the kernel of QLinearAdd or
QLinearMul computes for each byte. Their scales and zero points are constants wherever these ops come from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.ir import Graph, Node, PassRecord, Value
from atcpy.ir.tensor import Array
from atcpy.options import OptimizeOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.optimize.byte_table import every_byte, look_up
from atcpy.passes.phase import Phase
from atcpy.passes.quantization_params import Steps

NAME = "ByteTableBinaryFusionPass"
_OPS = {"QLinearAdd": np.add, "QLinearMul": np.multiply}
_OPERANDS = (0, 3)  # each is followed by its scale and zero point
_Y_SCALE = 6


@graph_pass(NAME, Phase.EPILOGUE, after=("ByteTableFusionPass",))
def look_up_both(graph: Graph, record: PassRecord, options: OptimizeOptions) -> None:
    """Look sums and products of functions of one byte up in a table."""
    for node in [node for node in graph.nodes if node.op_type in _OPS]:
        a, b = (_argument(node.operand(index)) for index in _OPERANDS)
        if a is not b:
            continue
        looked_up = dict.fromkeys(node.operand(i).producer for i in _OPERANDS if node.operand(i) is not a)
        if record.accept([node, *looked_up]):
            _replace(graph, [*looked_up, node], a)


def _argument(value: Value) -> Value:
    """What a value is looked up for in a constant table; else the value."""
    node = value.producer
    return node.operand(0) if node.op_type == "ByteTable" and node.operand(1).tensor is not None else value


def _replace(graph: Graph, nodes: Sequence[Node], x: Value) -> None:
    node = nodes[-1]
    floats = [_floats(node, index, x) for index in _OPERANDS]
    with np.errstate(all="ignore"):
        table = _steps(node, _Y_SCALE, node.output).quantize(_OPS[node.op_type](*floats))
    look_up(graph, nodes, NAME, x, table)


def _floats(node: Node, index: int, x: Value) -> Array:
    """What an operand is in float32 for each byte x, in the order of their bits."""
    operand = node.operand(index)
    found = every_byte(x.desc.dtype) if operand is x else operand.producer.operand(1).array.reshape(-1)
    return _steps(node, index + 1, operand).dequantize(found)


def _steps(node: Node, scale: int, of: Value) -> Steps:
    zero = node.input(scale + 1)
    zeros = np.zeros((), of.desc.dtype.numpy) if zero is None else zero.array.reshape(())
    return Steps(node.operand(scale).array.reshape(()), zeros)

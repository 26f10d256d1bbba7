"""Constants, and the variables that are constants once a graph is frozen."""

from __future__ import annotations

from atcpy.ir import Tensor, Value
from atcpy.parsers.tensorflow.op import Op, maps
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TensorProto
from atcpy.parsers.tensorflow.tensors import read_tensor


@maps("Const")
def constant(op: Op) -> Value:
    """A constant"""
    proto = op.attr("value")
    if not isinstance(proto, TensorProto):
        raise op.refuse("a constant without a value")
    return _constant(op, read_tensor(proto, op.where))


@maps("VariableV2", "Variable", "VarHandleOp")
def variable(op: Op) -> Value:
    """A constant, from the checkpoint"""
    return _constant(op, op.bodies.variable(op.node, op.where))


@maps("ReadVariableOp")
def read_variable(op: Op) -> Value:
    """The content of the variable"""
    return op.input(0)


def _constant(op: Op, tensor: Tensor) -> Value:
    value = op.graph.add_const(tensor, op.node.name)
    value.producer.sources = (op.node.name,)
    return value

"""Constants, and the variables that are constants once a graph is frozen."""

from __future__ import annotations

from atcpy.ir import DType, Tensor, Value
from atcpy.parsers.tensorflow.op import Op, maps
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TensorProto
from atcpy.parsers.tensorflow.tensors import read_tensor

_PARTS = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}


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


@maps("VariableShape")
def variable_shape(op: Op) -> Value:
    """The shape of the variable"""
    return op.cast(op.add("Shape", op.input(0)), op.dtype_attr("out_type"))


@maps("VarIsInitializedOp", "IsVariableInitialized")
def is_initialized(op: Op) -> Value:
    """True: what comes from a checkpoint has a value"""
    return op.const(True, DType.BOOL)


@maps("DisableCopyOnRead")
def disable_copy_on_read(op: Op) -> list[Value | None]:
    """Nothing: it says how a variable is read"""
    return []


@maps(
    "Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
    "ScatterUpdate", "ScatterAdd", "ResourceScatterUpdate", "ResourceScatterAdd", "ResourceScatterNdUpdate",
)  # fmt: skip
def assign(op: Op) -> Value:
    """Refused: a package has no variables that it could write"""
    what = f'the model writes the variable "{op.input(0).name}"'
    raise op.refuse(what, "take outputs that do not depend on it, or return the new value and feed it: --out_nodes")


def _constant(op: Op, tensor: Tensor) -> Value:
    if tensor.dtype in _PARTS:
        dtype = _PARTS[tensor.dtype]
        return op.complex_of(op.const(tensor.array.real, dtype), op.const(tensor.array.imag, dtype))
    value = op.graph.add_const(tensor, op.node.name)
    value.producer.sources = (op.node.name,)
    return value

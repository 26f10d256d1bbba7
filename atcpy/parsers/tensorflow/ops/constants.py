"""Constants, and the variables that are constants once a graph is frozen."""

from __future__ import annotations

from atcpy.ir import DType, Tensor, Value
from atcpy.parsers.tensorflow.op import COMPLEX_PARTS, OpBuilder, maps, maps_all
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TensorProto
from atcpy.parsers.tensorflow.tensors import read_tensor


@maps("Const")
def constant(b: OpBuilder) -> Value:
    """A constant"""
    proto = b.attr("value")
    if not isinstance(proto, TensorProto):
        raise b.unsupported("a constant without a value")
    return _constant(b, read_tensor(proto, b.where))


@maps("VariableV2", "Variable", "VarHandleOp")
def variable(b: OpBuilder) -> Value:
    """A constant, from the checkpoint"""
    return _constant(b, b.bodies.variable(b.node, b.where))


maps_all(
    {
        "ReadVariableOp": ("The content of the variable", lambda b: b.input(0)),
        "VariableShape": (
            "The shape of the variable",
            lambda b: b.cast(b.op("Shape", b.input(0)), b.dtype_attr("out_type")),
        ),
        "VarIsInitializedOp IsVariableInitialized": (
            "True: what comes from a checkpoint has a value",
            lambda b: b.const(True, DType.BOOL),
        ),
        "DisableCopyOnRead": ("Nothing: it says how a variable is read", lambda b: []),
    }
)


@maps(
    "Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
    "ScatterUpdate", "ScatterAdd", "ResourceScatterUpdate", "ResourceScatterAdd", "ResourceScatterNdUpdate",
)  # fmt: skip
def assign(b: OpBuilder) -> Value:
    """Refused: a package has no variables that it could write"""
    what = f'the model writes the variable "{b.input(0).name}"'
    raise b.unsupported(what, "take outputs that do not depend on it, or return the new value and feed it: --out_nodes")


def _constant(b: OpBuilder, tensor: Tensor) -> Value:
    if tensor.dtype in COMPLEX_PARTS:
        dtype = COMPLEX_PARTS[tensor.dtype]
        return b.complex_of(b.const(tensor.array.real, dtype), b.const(tensor.array.imag, dtype))
    value = b.graph.add_const(tensor, b.node.name)
    value.producer.sources = (b.node.name,)
    return value

"""Users' own operators: a decorated class becomes an OpDef like any other."""

from atcpy.ops.custom.operator import CustomOp
from atcpy.ops.custom.registry import (
    CustomOps,
    custom_op_at,
    custom_op_of,
    custom_ops_in,
    find_custom_op,
    forget_all,
    keep_for_file,
    load_custom_ops,
    parameter_names,
    register_operator,
)
from atcpy.ops.custom.types import OpContext, TensorType

__all__ = [
    "CustomOp",
    "CustomOps",
    "OpContext",
    "TensorType",
    "custom_op_at",
    "custom_op_of",
    "custom_ops_in",
    "find_custom_op",
    "forget_all",
    "keep_for_file",
    "load_custom_ops",
    "parameter_names",
    "register_operator",
]

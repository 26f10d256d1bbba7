"""Users' own operators: a decorated class becomes an OpDef like any other."""

from typing import TYPE_CHECKING, Any

from atcpy.ops.custom.base import Operator
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
    registered_class,
)
from atcpy.ops.custom.types import OpContext, TensorType

__all__ = [
    "CustomOp",
    "CustomOps",
    "OpContext",
    "Operator",
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
    "registered_class",
]

if not TYPE_CHECKING:  # the names of users' classes are known when they have run

    def __getattr__(name: str) -> Any:
        cls = registered_class(name)
        if cls is None:
            raise AttributeError(
                f"module '{__name__}' has no attribute '{name}', and no operator of that name is registered"
            )
        return cls

"""The op records, one family a module. A module that is not imported here is unknown."""

from atcpy.ops import conv, elementwise, matmul, pool, random, reduce, softmax, structural
from atcpy.ops.opdef import KernelCall, Known, Layout, OpDef, all_opdefs, find_opdef, register_operator

__all__ = [
    "KernelCall",
    "Known",
    "Layout",
    "OpDef",
    "all_opdefs",
    "conv",
    "elementwise",
    "find_opdef",
    "matmul",
    "pool",
    "random",
    "reduce",
    "register_operator",
    "softmax",
    "structural",
]

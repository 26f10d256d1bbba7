"""The op records, one family a module. A module that is not imported here is unknown."""

from atcpy.ops import concat, conv, conv_transpose, elementwise, expand, gather, matmul, pad, pool, random, reduce, reshape, shape, slice, softmax, structural, transpose
from atcpy.ops.opdef import KernelCall, Known, Layout, OpDef, all_opdefs, find_opdef, register_operator

__all__ = [
    "KernelCall",
    "Known",
    "Layout",
    "OpDef",
    "all_opdefs",
    "concat",
    "conv",
    "conv_transpose",
    "elementwise",
    "expand",
    "find_opdef",
    "gather",
    "matmul",
    "pad",
    "pool",
    "random",
    "reduce",
    "register_operator",
    "reshape",
    "shape",
    "slice",
    "softmax",
    "structural",
    "transpose",
]

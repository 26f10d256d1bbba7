"""The op records, one family a module. A module that is not imported here is unknown."""

from atcpy.ops import (
    attention,
    binary,
    cast,
    clip,
    concat,
    conv,
    conv_transpose,
    elementwise,
    expand,
    flex_attention,
    gather,
    matmul,
    ml,
    norm,
    optional,
    pad,
    pool,
    qgemm,
    quantize,
    random,
    recurrent,
    reduce,
    reshape,
    resize,
    shape,
    slice,
    softmax,
    spectral,
    structural,
    transpose,
    trilu,
    where,
)
from atcpy.ops.opdef import KernelCall, Known, Layout, OpDef, all_opdefs, find_opdef, register_operator

__all__ = ["KernelCall", "Known", "Layout", "OpDef", "all_opdefs", "find_opdef", "register_operator"]

"""The op records, in families. A module that its family's `__init__` does not import is unknown."""

from atcpy.ops import (
    attention,
    collectives,
    contrib,
    conv,
    core,
    elementwise,
    image,
    matmul,
    ml,
    move,
    norm,
    optional,
    quant,
    random,
    recurrent,
    reduce,
    signal,
)
from atcpy.ops.core.opdef import (
    KernelCall,
    Known,
    Layout,
    OpDef,
    Trait,
    all_opdefs,
    find_opdef,
    has_trait,
    is_view,
    op_types,
    register_operator,
)

__all__ = [
    "KernelCall",
    "Known",
    "Layout",
    "OpDef",
    "Trait",
    "all_opdefs",
    "find_opdef",
    "has_trait",
    "is_view",
    "op_types",
    "register_operator",
]

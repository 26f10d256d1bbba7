"""The stage split: engine placement, clusters, the cut."""

from atcpy.passes.split import (
    assign_engines,
    attention_parts,
    cluster,
    conv_scale,
    cut,
    insert_cast,
    known_shapes,
    matmul_operands,
    strength_reduction,
)

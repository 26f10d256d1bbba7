"""The stage optimize: on each piece fusion and formats, on the whole what is left over."""

from atcpy.passes.optimize import (
    attention_tokens,
    byte_table,
    cancel_transdata,
    choose_formats,
    conv_activation,
    graph_kernel,
    matmul_epilogue,
    merge,
    norm_of_sum,
    plain_outputs,
)

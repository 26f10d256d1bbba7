"""Clean-up: nodes that do nothing, that repeat others, or that one node can do."""

from atcpy.passes.prepare.clean_up import (
    cast_chain,
    drop_expand,
    gather_unsqueeze,
    known_sizes,
    merge_chains,
    merge_equal,
    merge_joins,
    merge_pads,
    merge_slices,
    pad_window,
    remove_dead,
    remove_identity,
    split_slices,
)

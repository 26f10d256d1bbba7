"""Attention, its masks, rotary embeddings and caches."""

from atcpy.passes.prepare.attention import (
    cos_sin_cache,
    grouped_query,
    head_layout,
    kv_cache,
    last_axis,
    qkv,
    rotary_embedding,
    scaled_dot_product,
    score_masks,
    triangular_mask,
)

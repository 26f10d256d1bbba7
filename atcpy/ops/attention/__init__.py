"""Attention and rotary embeddings."""

from atcpy.ops.attention import attention, flex_attention, rotary

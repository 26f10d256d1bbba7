"""Attention, its masks, rotary embeddings and caches."""

"""Inference of types and shapes, constant folding, and expansion of ops that no engine runs."""

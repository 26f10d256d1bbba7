"""Aggregation of collectives."""

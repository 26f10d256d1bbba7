"""Passes of the stage compile: kernels, memory, tasks."""

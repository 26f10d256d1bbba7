"""The stage compile: kernels, memory, tasks."""

from atcpy.passes.compile import emit_tasks, homes, lower, notask, plan_memory, uses

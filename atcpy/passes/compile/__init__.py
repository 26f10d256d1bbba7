"""The stage compile: kernels, memory, tasks."""

from atcpy.passes.compile import emit_tasks, lower, plan_memory

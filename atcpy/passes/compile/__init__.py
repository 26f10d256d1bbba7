"""The stage compile: kernels, memory, tasks."""

from atcpy.passes.compile import (
    access_intervals,
    assign_streams,
    buffer_assignment,
    emit_tasks,
    in_place_concat,
    lower,
    plan_memory,
)

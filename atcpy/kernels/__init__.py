"""The C kernels: their table, their executor, and the records that tell them what to do."""

"""Stage 4, compile: kernels, weights, memory and tasks."""

from atcpy.ir import CompiledModel, Graph
from atcpy.options import CompileOptions
from atcpy.passes.compile.emit_tasks import Identity, emit

__all__ = ["compile_graph"]


def compile_graph(graph: Graph, identity: Identity, options: CompileOptions) -> CompiledModel:
    """Everything that the package holds."""
    return emit(graph, identity, reuse_memory=options.reuse_memory)

"""Stage 4, compile: kernels, weights, memory and tasks."""

import mmap
from dataclasses import replace

from atcpy.errors import Unsupported, Where
from atcpy.ir import CompiledModel, DType, Graph, Port, Task
from atcpy.kernels import _kernels
from atcpy.kernels.table import pack_compiled_task
from atcpy.passes.compile.emit_tasks import Identity, WeightLayout, emit, keep_unknown
from atcpy.passes.pass_manager import PassManager

__all__ = ["compile_graph", "keep_unknown"]


def compile_graph(
    graph: Graph, identity: Identity, manager: PassManager, layout: WeightLayout | None = None
) -> CompiledModel:
    """Return everything that the package holds. What would not run is refused here, not when it is loaded. Packages of
    several graphs give a `layout`, in which these share their constants.
    """
    manager.deadline.check("compile")
    compiled = emit(graph, identity, manager, WeightLayout() if layout is None else layout)
    _check_types(compiled)
    weights_bytes = max((weight.offset + weight.nbytes for weight in compiled.weights), default=0)
    ports = _nbytes(compiled.inputs) + _nbytes(compiled.outputs)
    limit = manager.options.limits.memory()
    needed = compiled.memory.arena_bytes + weights_bytes + sum(ports)
    limit.check(needed, "running the model")
    manager.deadline.check("compile")
    scratch = _check_tasks(compiled, weights_bytes)
    limit.check(needed + scratch, "running the model, with the scratch of its kernels,")
    return replace(compiled, memory=replace(compiled.memory, scratch_bytes=scratch))


def _nbytes(ports: tuple[Port, ...]) -> list[int]:
    return [port.desc.nbytes for port in ports]


def _check_types(compiled: CompiledModel) -> None:
    """The memory that tasks work on holds elements of whole bytes, and of 2 and 4 bits packed; no text, no 6 bits."""
    for task in compiled.tasks:
        for slot in (*task.src, *task.dst):
            if slot is not None and not _has_bytes(slot.desc.dtype):
                raise _without_bytes(slot.desc.dtype, _where(compiled, task))
    for port in (*compiled.inputs, *compiled.outputs):
        if not _has_bytes(port.desc.dtype):
            raise _without_bytes(port.desc.dtype, Where(graph=compiled.graph.name, value=port.name))


def _has_bytes(dtype: DType) -> bool:
    return dtype.bits >= 8 or dtype.bits in (2, 4)


def _without_bytes(dtype: DType, where: Where) -> Unsupported:
    return Unsupported("EZ3003", f"tensors of {dtype.long} cannot be computed yet", where=where)


def _where(compiled: CompiledModel, task: Task) -> Where:
    name = task.sources[0] if task.sources else task.node
    return Where(graph=compiled.graph.name, node=name, op=task.op_type)


def _check_tasks(compiled: CompiledModel, weights_bytes: int) -> int:
    """Every task as the loader will check it, against memory of the right size that is never touched. Returns the bytes
    of scratch that a thread needs.
    """
    records = b"".join(pack_compiled_task(task) for task in compiled.tasks)
    weights = memoryview(mmap.mmap(-1, max(weights_bytes, 1)))
    ports = _nbytes(compiled.inputs), _nbytes(compiled.outputs)
    try:
        return _kernels.Plan(records, weights, compiled.memory.arena_bytes, *ports, 1).scratch_bytes()
    except _kernels.Refused as refused:
        reason, number = refused.args
        where = _where(compiled, compiled.tasks[number])
        raise Unsupported("E14001", f"its parameters cannot be compiled: {reason}", where=where) from refused

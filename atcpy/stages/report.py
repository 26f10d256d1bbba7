"""What a conversion tells: the records behind the summary and `convert --json`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from atcpy.errors import AtcWarning
from atcpy.ir import (
    CompiledCluster,
    CompiledModel,
    Engine,
    PlacedValue,
    PlacementStrategy,
    Port,
    Source,
    plans_of,
)
from atcpy.ir.decisions import AllReducePlan, PassCount, Precision
from atcpy.ir.graph import Graph, walk
from atcpy.kernels.guard_text import guard_texts
from atcpy.kernels.record import HOST_FAMILY, STREAM_ACTIVE
from atcpy.kernels.symbolic_program import largest_arena_bytes
from atcpy.om.weight_files import WeightFile
from atcpy.ops import is_view
from atcpy.ops.elementwise import graph_kernel
from atcpy.options import IterationsPerLoop


@dataclass(frozen=True, slots=True)
class OpCount:
    """How often an op runs on an engine."""

    op: str
    count: int


@dataclass(frozen=True, slots=True)
class PortInfo:
    """An input or output; a name stands for an open dim, None for a shape of which nothing is known."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True)
class Memory:
    """Sizes in bytes: the arena, its lower bound, its size without reuse, the weights, and the scratch of kernels, for
    each thread and this CPU. Where shapes are unknown, the arena is the largest of the plans, or None if runs place
    the blocks, and the bounds and the scratch are None.

    strategies: those of the planner, with the arena that each needs; a package does not record them. above_bound: the
    values that end above the lower bound.
    """

    arena: int | None
    lower_bound: int | None
    unshared: int | None
    weights: int
    scratch: int | None
    strategies: tuple[PlacementStrategy, ...] = ()
    above_bound: tuple[PlacedValue, ...] = ()


@dataclass(frozen=True, slots=True)
class StageTime:
    """Seconds that a stage took."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TransDataCount:
    """Format changes that were inserted, and how many of them went again."""

    inserted: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class StreamCount:
    """Sections whose branches may run beside each other, and the streams of the widest."""

    sections: int
    streams: int


@dataclass(frozen=True, slots=True)
class WeightFiles:
    """Files beside the package that hold weights, and their bytes."""

    count: int
    bytes: int


def count_files(files: Collection[WeightFile]) -> WeightFiles:
    """Count files with weights."""
    return WeightFiles(len(files), sum(file.nbytes for file in files))


def count_streams(tasks: Iterable[tuple[str, int]]) -> StreamCount:
    """Count by the kernel and the stream of each task; collectives, which the host runs, have one of their own."""
    listed = [task for task in tasks if task[0] != HOST_FAMILY]
    sections = sum(1 for kernel, _ in listed if kernel == STREAM_ACTIVE)
    return StreamCount(sections, 1 + max((stream for _, stream in listed), default=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertReport:
    """The result of a conversion; attributes are the keys of `convert --json`'s result."""

    output: str | None
    bytes: int
    sha256: str
    source: Source
    soc: str
    inputs: tuple[PortInfo, ...]
    outputs: tuple[PortInfo, ...]
    nodes_before: int
    task_count: int
    engines: dict[str, int]
    host_cpu_ops: tuple[OpCount, ...]
    passes: tuple[PassCount, ...]
    precision: Precision = field(default_factory=Precision)
    memory: Memory
    transdata: TransDataCount
    gears: tuple[str, ...] = ()
    stages: tuple[StageTime, ...]
    unknown_shapes: bool = False  # there are plans for all sizes, or the graph is compiled for the shapes that it meets
    plans: tuple[tuple[int, ...], ...] = ()  # tasks of each variant of each cluster, where dims are open
    guards: int = 0  # inequalities that sizes must keep for the first variants; `inspect --plans` lists all
    states: dict[str, str] = field(
        default_factory=dict
    )  # outputs that a session may keep, and the inputs that they become
    unplanned: str = ""  # why there are none
    custom_ops: tuple[str, ...] = ()  # users' operators that the package needs to run
    allreduce: AllReducePlan | None = None
    streams: StreamCount = field(default_factory=lambda: StreamCount(0, 1))
    weight_files: WeightFiles = field(default_factory=lambda: WeightFiles(0, 0))
    signed_by: str | None = None  # the fingerprint of the key
    iterations: IterationsPerLoop | None = None  # of the model, in one run of the package
    warnings: tuple[AtcWarning, ...] = ()


def count_engines(graph: Graph) -> dict[str, int]:
    """Count nodes by engine, in the engines' order; HOST_CPU is always listed. A graph kernel counts as one node: the
    nodes fused into it do not run.
    """
    counts = {engine.value: 0 for engine in Engine}
    fused: set[Graph] = set()
    for node in walk(graph):
        if node.op_type == graph_kernel.NAME:
            fused.update(node.subgraphs)  # which come later
        if not node.is_structural and node.engine is not None and node.graph not in fused:
            counts[node.engine.value] += 1
    return {name: count for name, count in counts.items() if count or name == Engine.HOST_CPU.value}


def count_host_ops(graph: Graph) -> tuple[OpCount, ...]:
    """Ops that run on HOST_CPU, most frequent first."""
    counts: dict[str, int] = {}
    for node in walk(graph):
        if node.engine is Engine.HOST_CPU and not is_view(node):
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return tuple(OpCount(op, count) for op, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def port_info(port: Port) -> PortInfo:
    """A port as people read it."""
    shape = port.desc.shape
    dims = None if shape is None else tuple(dim if isinstance(dim, int) else dim.name for dim in shape)
    return PortInfo(port.name, port.desc.dtype.long, dims)


def count_guards(clusters: Iterable[CompiledCluster]) -> int:
    """Count the guards of the variants that serve most sizes, without bound states."""
    plans = [plan for cluster in clusters if not cluster.states for plan in cluster.variants[0].plans]
    return sum(len(guard_texts(plan.program, [symbol.name for symbol in plan.symbols])) for plan in plans)


def memory_of(compiled: CompiledModel) -> Memory:
    """Return the sizes of a model's memory."""
    if compiled.has_unknown_shapes:
        arena = largest_arena_bytes(plan.program for plan in plans_of(compiled.clusters))
        return Memory(arena, None, None, _weights_bytes(compiled), None)
    memory = compiled.memory
    weights = _weights_bytes(compiled)
    return Memory(
        memory.arena_bytes,
        memory.lower_bound,
        memory.unshared_bytes,
        weights,
        memory.scratch_bytes,
        memory.strategies,
        memory.above_bound,
    )


def _weights_bytes(compiled: CompiledModel) -> int:
    """Bytes of the distinct constants, as stored."""
    return sum({weight.offset: weight.nbytes for weight in compiled.weights}.values())

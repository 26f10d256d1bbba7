"""Emission of the CompiledModel: weights, buffers and the task list of a graph whose formats are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from atcpy.ir import (
    CompiledModel,
    DType,
    Engine,
    Format,
    FormatKind,
    Graph,
    MemoryPlan,
    Node,
    Port,
    Region,
    Slot,
    Source,
    Task,
    Value,
    Weight,
    walk,
)
from atcpy.ir.decisions import ALLREDUCE_FUSION
from atcpy.kernels.table import HOST_FAMILY, pack_params
from atcpy.ops import is_view
from atcpy.options import Stage
from atcpy.passes.compile.assign_streams import assign_streams
from atcpy.passes.compile.buffer_assignment import BufferAssignment, LoweredGraph
from atcpy.passes.compile.lower import Launch, lower
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.phase import Phase

WEIGHTS_START = 512  # GE's kWeightsStartOffset
# GE rounds each constant up to 512 bytes; one cache line keeps many small ones from swelling the file.
WEIGHTS_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Identity:
    """The facts about a compilation that its package records."""

    soc: str
    cmdline: str
    source: Source
    version: str


def emit(graph: Graph, identity: Identity, manager: PassManager) -> CompiledModel:
    """Lower a graph whose formats are chosen, run the passes of the stage, plan its memory and list its tasks."""
    roots = _view_roots(graph)
    _copy_shared_outputs(graph, roots)
    launches = lower(graph)
    weights = _lay_out_weights(node for node in graph.nodes if node.op_type == "Const")
    buffers = BufferAssignment(graph, launches, weights, roots)
    lowered = LoweredGraph([*launches], buffers, manager.options.compile)
    manager.run(graph, *Phase.of(Stage.COMPILE), argument=lowered)
    memory = buffers.plan(reuse=manager.options.compile.reuse_memory)
    position = {node: index for index, node in enumerate(graph.nodes)}
    launched = (launch for launch in lowered.launches if launch is not None)
    tasks = assign_streams([_task(launch, position[launch.node], buffers) for launch in launched])
    _count_fused_copies(graph, tasks)
    return _compiled_model(graph, identity, weights, memory, tasks)


def keep_unknown(graph: Graph, identity: Identity) -> CompiledModel:
    """Keep a graph with unknown shapes as it is: the runtime compiles it for the shapes that it meets."""
    weights = _lay_out_weights(node for node in walk(graph) if node.op_type == "Const")
    return _compiled_model(graph, identity, weights, MemoryPlan(0, 0, 0), has_unknown_shapes=True)


def _compiled_model(
    graph: Graph,
    identity: Identity,
    weights: Mapping[Value, Weight],
    memory: MemoryPlan,
    tasks: tuple[Task, ...] = (),
    *,
    has_unknown_shapes: bool = False,
) -> CompiledModel:
    _set_port_formats(graph)
    return CompiledModel(
        graph=graph,
        inputs=tuple(Port(node.output.name, node.output.desc) for node in graph.inputs),
        outputs=_outputs(graph),
        tasks=tasks,
        weights=tuple(weights.values()),
        memory=memory,
        soc=identity.soc,
        cmdline=identity.cmdline,
        source=identity.source,
        version=identity.version,
        has_unknown_shapes=has_unknown_shapes,
    )


def _set_port_formats(graph: Graph) -> None:
    """Label the inputs with the formats of --input_format, for readers of the package; no data moves."""
    for node in graph.inputs:
        name = node.attrs.get("format")
        if isinstance(name, str):
            form = Format(FormatKind[name])
            node.output.desc = replace(node.output.desc, format=form, origin_format=form)


def _outputs(graph: Graph) -> tuple[Port, ...]:
    """The outputs under their names in the model, however passes have renamed the values."""
    names = graph.net_output.attrs.get("names")
    assert isinstance(names, tuple) and len(names) == len(graph.outputs)
    return tuple(Port(name, value.desc) for name, value in zip(names, graph.outputs, strict=True))


def _view_roots(graph: Graph) -> dict[Value, Value]:
    """Map each view to the value whose memory it shows, through chains of views."""
    roots: dict[Value, Value] = {}
    for node in graph.nodes:
        if is_view(node):
            roots[node.output] = roots.get(node.operand(0), node.operand(0))
    return roots


def _copy_shared_outputs(graph: Graph, roots: dict[Value, Value]) -> None:
    """Give each output memory of its own: a TensorMove copies what is an input, a constant, a view of another size or
    an output already.
    """
    taken: set[Value] = set()
    net_output = graph.net_output
    for index, value in enumerate(net_output.operands):
        root = roots.get(value, value)
        shared = root in taken or root.producer.is_source
        if shared or root.desc.nbytes != value.desc.nbytes:
            move = graph.append("TensorMove", [value], name=f"{value.name}_copy", before=net_output)
            move.output.desc = value.desc
            move.passes, move.engine = ("OutputCopyPass",), Engine.VECTOR
            graph.set_input(net_output, index, move.output)
        else:
            taken.add(root)


def _lay_out_weights(nodes: Iterable[Node]) -> dict[Value, Weight]:
    """Offsets of constants in graph order; equal ones share their bytes."""
    placed: dict[tuple[bytes, object, object], Weight] = {}
    weights: dict[Value, Weight] = {}
    offset = WEIGHTS_START
    for node in nodes:
        tensor = node.output.tensor
        if tensor is None or tensor.dtype is DType.STRING:
            continue
        desc = node.output.desc
        key = (tensor.digest, desc.format, desc.storage_shape)
        twin = placed.get(key)
        if twin is None or not twin.tensor.equals(tensor):  # an attacker can make digests collide
            twin = placed[key] = Weight(node.output.name, tensor, desc, offset, desc.nbytes)
            offset += -(-desc.nbytes // WEIGHTS_ALIGNMENT) * WEIGHTS_ALIGNMENT
        weights[node.output] = Weight(node.output.name, tensor, desc, twin.offset, twin.nbytes)
    return weights


def _task(launch: Launch, op_index: int, buffers: BufferAssignment) -> Task:
    node, call = launch.node, launch.call
    assert node.engine is not None
    on_host = call.family == HOST_FAMILY
    src, dst = buffers.slots(launch)
    return Task(
        node=node.name,
        op_index=op_index,
        op_type=node.op_type,
        engine=node.engine,
        kernel=call.family,
        src=src,
        dst=dst,
        params=b"" if on_host else pack_params(call.family, call.params),
        sources=node.sources,
        passes=node.passes,
    )


def _count_fused_copies(graph: Graph, tasks: Sequence[Task]) -> None:
    """Record how many copies remain around joined collectives. One copy of each input and of each output is counted
    apart: it binds the caller's arrays, whose addresses are not ours to choose.
    """
    plan = graph.decisions.allreduce
    if plan is None:
        return
    copies = [task for task in tasks if task.kernel == "strided_copy" and ALLREDUCE_FUSION in task.passes]
    ports = sum(1 for task in copies if _slots_in(task.src, Region.INPUT) or _slots_in(task.dst, Region.OUTPUT))
    graph.decisions.allreduce = replace(plan, fused_copies=len(copies) - ports, port_copies=ports)


def _slots_in(slots: Sequence[Slot | None], region: Region) -> bool:
    return any(slot is not None and slot.region is region for slot in slots)

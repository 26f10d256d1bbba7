"""Emission of the CompiledModel: weights, buffers and the task list of a graph whose formats are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from atcpy.ir import (
    CompiledModel,
    DType,
    Engine,
    Format,
    FormatKind,
    Graph,
    MemoryPlan,
    Node,
    PlannedCluster,
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
from atcpy.kernels.record import HOST_FAMILY
from atcpy.kernels.symbolic_program import BlockSize
from atcpy.kernels.table import pack_params, slot_patches, split_symbolic
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


def emit(graph: Graph, identity: Identity, manager: PassManager, layout: WeightLayout) -> CompiledModel:
    """Lower a graph whose formats are chosen, run the passes of the stage, plan its memory and list its tasks. Its
    constants are added to `layout`.
    """
    launches, roots = _lower(graph)
    weights = layout.add(_constants(graph))
    buffers, lowered = _assign_buffers(graph, launches, weights, roots, manager)
    memory = buffers.plan(reuse=manager.options.compile.reuse_memory)
    position = {node: index for index, node in enumerate(graph.nodes)}
    launched = (launch for launch in lowered if launch is not None)
    tasks = assign_streams([_task(launch, position[launch.node], buffers) for launch in launched])
    _count_fused_copies(graph, tasks)
    return _compiled_model(graph, identity, weights, memory, tasks)


@dataclass(frozen=True, slots=True)
class SymbolicTasks:
    """The tasks of a graph whose sizes are symbolic, each arena operand relative to its block, and these blocks."""

    tasks: tuple[Task, ...]
    blocks: tuple[BlockSize, ...]


def emit_symbolic(graph: Graph, kept: Mapping[str, int], weights: WeightLayout, manager: PassManager) -> SymbolicTasks:
    """List the tasks of a graph whose sizes are symbolic. `kept` are the nodes of the graph that the package keeps, by
    name; `weights` gets the constants that the tasks read.
    """
    launches, roots = _lower(graph)
    launches = _without_unread_shapes(launches, graph, roots)
    of_graph = weights.add(_constants(graph))
    buffers, lowered = _assign_buffers(graph, launches, of_graph, roots, manager)
    blocks = buffers.number_blocks()
    before = list(accumulate((launch is not None for launch in lowered), initial=0))  # tasks before each launch
    tasks = [_symbolic_task(launch, kept, buffers) for launch in lowered if launch is not None]
    sizes = []
    for block in blocks:
        first = min(before[block.first], len(tasks) - 1)
        sizes.append(BlockSize(block.nbytes, first, max(before[block.last + 1] - 1, first)))
    return SymbolicTasks(tuple(tasks), tuple(sizes))


def _without_unread_shapes(launches: list[Launch], graph: Graph, roots: Mapping[Value, Value]) -> list[Launch]:
    """Leave out ShapeValues that no kernel reads: they gave the compiler the shape of a result."""
    read = {roots.get(value, value) for launch in launches for value in launch.call.src if value is not None}
    read.update(roots.get(value, value) for value in graph.outputs)
    return [launch for launch in launches if launch.node.op_type != "ShapeValue" or launch.node.output in read]


def _symbolic_task(launch: Launch, kept: Mapping[str, int], buffers: BufferAssignment) -> Task:
    params, patches = split_symbolic(launch.call.family, launch.call.params)
    node = launch.node
    index = next((kept[name] for name in (*node.sources, node.name) if name in kept), 0)
    task = _task(replace(launch, call=replace(launch.call, params=params)), index, buffers)
    return replace(task, patches=(*patches, *slot_patches((*task.src, *task.dst))))


def _lower(graph: Graph) -> tuple[list[Launch], dict[Value, Value]]:
    """The launches of a graph, and the value whose memory each view shows."""
    roots = _view_roots(graph)
    _copy_shared_outputs(graph, roots)
    return lower(graph), roots


def _assign_buffers(
    graph: Graph,
    launches: Sequence[Launch],
    weights: dict[Value, Weight],
    roots: dict[Value, Value],
    manager: PassManager,
) -> tuple[BufferAssignment, list[Launch | None]]:
    """The buffers of all values after the passes of the stage, and the launches that these left."""
    buffers = BufferAssignment(graph, launches, weights, roots)
    lowered = LoweredGraph([*launches], buffers, manager.options.compile)
    manager.run(graph, *Phase.of(Stage.COMPILE), argument=lowered)
    return buffers, lowered.launches


def _constants(graph: Graph) -> Iterable[Node]:
    return (node for node in graph.nodes if node.op_type == "Const")


def keep_unknown(
    graph: Graph, identity: Identity, weights: WeightLayout, clusters: Sequence[PlannedCluster[Task]] = ()
) -> CompiledModel:
    """Keep a graph with unknown shapes, and the plans of its clusters; `weights` has the constants of both. The runtime
    compiles what no plan serves.
    """
    of_graph = weights.share(node for node in walk(graph) if node.op_type == "Const")
    compiled = _compiled_model(graph, identity, of_graph, MemoryPlan(0, 0, 0), has_unknown_shapes=True)
    return replace(compiled, weights=weights.all, clusters=tuple(clusters))


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


def output_names(graph: Graph) -> tuple[str, ...]:
    """Return the names of the outputs in the model, however passes have renamed the values."""
    names = graph.net_output.attrs.get("names")
    if names is None:  # a body's go by the values
        return tuple(value.name for value in graph.outputs)
    assert isinstance(names, tuple) and len(names) == len(graph.outputs)
    return names


def _outputs(graph: Graph) -> tuple[Port, ...]:
    return tuple(Port(name, value.desc) for name, value in zip(output_names(graph), graph.outputs, strict=True))


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


class WeightLayout:
    """Offsets of constants in the order in which they are added; equal ones share their bytes."""

    def __init__(self) -> None:
        self.all: list[Weight] = []
        self._placed: dict[tuple[bytes, object, object], Weight] = {}
        self._offset = WEIGHTS_START

    def add(self, nodes: Iterable[Node]) -> dict[Value, Weight]:
        """Lay out the constants of a graph; return their ranges."""
        weights: dict[Value, Weight] = {}
        for node in nodes:
            tensor = node.output.tensor
            if tensor is None or tensor.dtype is DType.STRING:
                continue
            desc = node.output.desc
            key = (tensor.digest, desc.format, desc.storage_shape)
            twin = self._placed.get(key)
            if twin is None or not twin.tensor.equals(tensor):  # an attacker can make digests collide
                twin = self._placed[key] = Weight(node.output.name, tensor, desc, self._offset, desc.nbytes)
                self._offset += -(-desc.nbytes // WEIGHTS_ALIGNMENT) * WEIGHTS_ALIGNMENT
            weights[node.output] = Weight(node.output.name, tensor, desc, twin.offset, twin.nbytes)
        self.all += weights.values()
        return weights

    def share(self, nodes: Iterable[Node]) -> dict[Value, Weight]:
        """Lay out the constants of a graph that no kernel runs as it is: those that are there in some format, as plans
        have them, stay in that format.
        """
        placed = {weight.tensor.digest: weight for weight in self._placed.values()}
        shared: dict[Value, Weight] = {}
        others: list[Node] = []
        for node in nodes:
            tensor = node.output.tensor
            twin = None if tensor is None else placed.get(tensor.digest)
            if tensor is not None and twin is not None and twin.tensor.equals(tensor):
                shared[node.output] = replace(twin, name=node.output.name)
            else:
                others.append(node)
        self.all += shared.values()
        return shared | self.add(others)

    def size(self) -> tuple[int, int, int]:
        """What `shrink` goes back to."""
        return len(self.all), len(self._placed), self._offset

    def shrink(self, size: tuple[int, int, int]) -> None:
        """Remove what was added since the layout had this `size`."""
        weights, placed, self._offset = size
        del self.all[weights:]
        while len(self._placed) > placed:
            self._placed.popitem()


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

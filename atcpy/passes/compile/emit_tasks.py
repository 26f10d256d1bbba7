"""Emission of the CompiledModel: weights, buffers and the task list of a graph whose formats are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final

from atcpy.ir import (
    CompiledCluster,
    CompiledModel,
    DType,
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
from atcpy.kernels.record import HOST_FAMILY, STREAM_ACTIVE
from atcpy.kernels.symbolic_program import BlockSize
from atcpy.kernels.table import pack_params, slot_patches, split_symbolic
from atcpy.ops import makes_nothing
from atcpy.ops.core.plan_loop import flattened_graphs
from atcpy.options import Stage
from atcpy.passes.compile.assign_streams import assign_streams
from atcpy.passes.compile.buffer_assignment import Buffer, BufferAssignment, LoweredGraph
from atcpy.passes.compile.flatten import FlatGraph, flatten
from atcpy.passes.compile.form_streams import dissolve_sections, form_streams, racing_sections
from atcpy.passes.compile.lower import Border, Launch
from atcpy.passes.compile.order_collectives import order_collectives
from atcpy.passes.compile.topo_sorting import sort_topologically
from atcpy.passes.compile.verify_schedule import verify_schedule
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.phase import Phase

WEIGHTS_START = 512  # GE's kWeightsStartOffset
# GE rounds each constant up to 512 bytes; one cache line keeps many small ones from swelling the file.
WEIGHTS_ALIGNMENT = 64
ALWAYS_VERIFY = False  # tests verify the schedule of every package that they make


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
    compile_options = manager.options.compile
    sort_topologically(graph, compile_options.topo_sorting)
    flat = flatten(graph)
    weights = layout.add(_constants(graph))
    overlaps = not compile_options.single_stream
    launches: Sequence[Launch] = flat.launches
    if overlaps:
        network = manager.options.prepare.allreduce.network
        launches = form_streams(order_collectives(launches, flat.roots, network), flat.roots)
    buffers, lowered = _assign_buffers(graph, launches, weights, flat.roots, manager, overlaps=overlaps)
    memory = buffers.plan(lowered, reuse=compile_options.reuse_memory)
    listed = _tasks(graph, lowered, buffers)
    if racing := racing_sections(listed):  # passes that let values share memory know one order of launches only
        dissolve_sections(graph, lowered, racing)
        listed = _tasks(graph, lowered, buffers)
    tasks = assign_streams(listed) if overlaps else tuple(listed)
    if manager.options.verify_ir or ALWAYS_VERIFY:
        verify_schedule(tasks, [_buffers_of(launch, buffers) for launch, _ in _with_owners(lowered)])
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
    sort_topologically(graph, manager.options.compile.topo_sorting)
    flat = flatten(graph)
    launches = _without_unread_shapes(flat, graph)
    of_graph = weights.add(_constants(graph))
    buffers, lowered = _assign_buffers(graph, launches, of_graph, flat.roots, manager)
    blocks = buffers.number_blocks()
    is_task = [launch is not None and launch.border is None for launch in lowered]
    before = list(accumulate(is_task, initial=0))  # tasks before each launch
    tasks = [_symbolic_task(launch, owner, kept, buffers) for launch, owner in _with_owners(lowered)]
    sizes = []
    for block in blocks:
        first = min(before[block.first], len(tasks) - 1)
        sizes.append(BlockSize(block.nbytes, first, max(before[block.last + 1] - 1, first)))
    return SymbolicTasks(tuple(tasks), tuple(sizes))


def _without_unread_shapes(flat: FlatGraph, graph: Graph) -> list[Launch]:
    """Leave out ShapeValues that no kernel reads: they gave the compiler the shape of a result."""
    roots = flat.roots
    read = {roots.get(value, value) for launch in flat.launches for value in launch.call.src if value is not None}
    read.update(roots.get(value, value) for value in graph.outputs)
    return [launch for launch in flat.launches if launch.node.op_type != "ShapeValue" or launch.node.output in read]


def _with_owners(launches: Sequence[Launch | None]) -> Iterator[tuple[Launch, Node]]:
    """Yield the launches that are tasks, each with its node, or that in whose bodies it is. If and Loop get the numbers
    of the tasks that they run.
    """
    tasks: list[tuple[Launch, Node]] = []
    outer: list[tuple[int, list[int]]] = []  # If and Loop around a launch: their task, and the first of each body
    for launch in launches:
        if launch is None:
            continue
        if launch.border is None:
            tasks.append((launch, tasks[outer[0][0]][1] if outer else launch.node))
            if launch.call.family in _CONTROL:
                outer.append((len(tasks) - 1, [len(tasks)]))
            continue
        number, begins = outer[-1]
        begins.append(len(tasks))
        if launch.border is Border.END:
            outer.pop()
            begin, owner = tasks[number]
            counts = (end - first for first, end in pairwise(begins))
            params = dict(zip(_CONTROL[begin.call.family], counts, strict=True))
            tasks[number] = replace(begin, call=replace(begin.call, params={**begin.call.params, **params})), owner
    return iter(tasks)


# The families of control flow, and the arguments that count the tasks of each body.
_CONTROL: Final = {"if": ("then_tasks", "else_tasks"), "loop": ("body_tasks",), STREAM_ACTIVE: ("body_tasks",)}


def _symbolic_task(launch: Launch, owner: Node, kept: Mapping[str, int], buffers: BufferAssignment) -> Task:
    params, patches = split_symbolic(launch.call.family, launch.call.params)
    names = (*launch.node.sources, launch.node.name, *owner.sources, owner.name)
    index = next((kept[name] for name in names if name in kept), 0)
    task = _task(replace(launch, call=replace(launch.call, params=params)), index, buffers)
    return replace(task, patches=(*patches, *slot_patches((*task.src, *task.dst))))


def _assign_buffers(
    graph: Graph,
    launches: Sequence[Launch],
    weights: dict[Value, Weight],
    roots: dict[Value, Value],
    manager: PassManager,
    *,
    overlaps: bool = False,
) -> tuple[BufferAssignment, list[Launch | None]]:
    """The buffers of all values after the passes of the stage, and the launches that these left."""
    options = manager.options.compile
    buffers = BufferAssignment(graph, launches, weights, roots, overlaps=overlaps, unshared=options.unshared)
    lowered = LoweredGraph([*launches], buffers, options)
    manager.run(graph, *Phase.of(Stage.COMPILE), argument=lowered)
    return buffers, lowered.launches


def _constants(graph: Graph) -> Iterable[Node]:
    """All but those that only nodes read of which nothing runs. A lowering adds further ones, which have no users."""
    for node in (node for part in flattened_graphs(graph) for node in part.nodes_of("Const")):
        if not node.output.use_count or not all(map(makes_nothing, node.output.users)):
            yield node


def keep_unknown(
    graph: Graph, identity: Identity, weights: WeightLayout, clusters: Sequence[CompiledCluster] = ()
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


def _buffers_of(launch: Launch, buffers: BufferAssignment) -> list[Buffer | None]:
    """The buffers of a launch's operands, sources before results."""
    found = (None if value is None else buffers.find(value) for value in (*launch.call.src, *launch.call.dst))
    return [None if located is None else located[0] for located in found]


def _tasks(graph: Graph, launches: Sequence[Launch | None], buffers: BufferAssignment) -> list[Task]:
    position = {node: index for index, node in enumerate(graph.nodes)}
    return [_task(launch, position[launch.node], buffers) for launch, _ in _with_owners(launches)]


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
        stream=launch.stream,
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

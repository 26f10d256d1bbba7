"""Where every value lies, and the task list: the graph becomes a CompiledModel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from atcpy.ir import (
    CompiledModel,
    DType,
    Engine,
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
from atcpy.kernels.table import HOST_FAMILY, pack_params
from atcpy.ops import find_opdef, is_view
from atcpy.passes.compile.lower import Launch, lower
from atcpy.passes.compile.plan_memory import Block, align, plan_memory

WEIGHTS_START = 512  # GE's kWeightsStartOffset
# GE rounds each constant up to 512 bytes; one cache line keeps many small ones from swelling the file.
WEIGHTS_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Identity:
    """What the package says of its making."""

    soc: str
    cmdline: str
    source: Source
    version: str


def emit(graph: Graph, identity: Identity, *, reuse_memory: bool) -> CompiledModel:
    """Lowers a graph whose formats are chosen, plans its memory and lists its tasks."""
    roots = _view_roots(graph)
    _copy_shared_outputs(graph, roots)
    launches = lower(graph)
    weights = _lay_out_weights(node for node in graph.nodes if node.op_type == "Const")
    homes = _Homes(graph, launches, weights, roots)
    memory = homes.plan(reuse=reuse_memory)
    tasks = tuple(_task(launch, homes) for launch in launches)
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
    )


def keep_unknown(graph: Graph, identity: Identity) -> CompiledModel:
    """A graph whose shapes are not all known: it is kept as it is, for the runtime to compile."""
    weights = _lay_out_weights(node for node in walk(graph) if node.op_type == "Const")
    return CompiledModel(
        graph=graph,
        inputs=tuple(Port(node.output.name, node.output.desc) for node in graph.inputs),
        outputs=_outputs(graph),
        tasks=(),
        weights=tuple(weights.values()),
        memory=MemoryPlan(0, 0, 0),
        soc=identity.soc,
        cmdline=identity.cmdline,
        source=identity.source,
        version=identity.version,
        has_unknown_shapes=True,
    )


def _outputs(graph: Graph) -> tuple[Port, ...]:
    """The outputs under the names that the model gave them, whatever the passes made of the values."""
    names = graph.net_output.attrs.get("names")
    assert isinstance(names, tuple) and len(names) == len(graph.outputs)
    return tuple(Port(name, value.desc) for name, value in zip(names, graph.outputs, strict=True))


def _view_roots(graph: Graph) -> dict[Value, Value]:
    """The values that are views, and those whose memory they show through a chain of views."""
    roots: dict[Value, Value] = {}
    for node in graph.nodes:
        if is_view(node):
            roots[node.output] = roots.get(node.operand(0), node.operand(0))
    return roots


def _copy_shared_outputs(graph: Graph, roots: dict[Value, Value]) -> None:
    """An output gets memory of its own: where it is an input, a constant, a view of another size or
    an output already, a TensorMove makes it.
    """
    taken: set[Value] = set()
    net_output = graph.net_output
    for place, value in enumerate(net_output.operands):
        root = roots.get(value, value)
        shared = root in taken or root.producer.op_type in {"Data", "Const"}
        if shared or root.desc.nbytes != value.desc.nbytes:
            move = graph.insert_before(net_output, "TensorMove", [value], name=f"{value.name}_copy")
            move.output.desc = value.desc
            move.passes, move.engine = ("OutputCopyPass",), Engine.VECTOR
            graph.set_input(net_output, place, move.output)
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
        if twin is None or not twin.tensor.equals(tensor):  # digests may collide in a model that was made to
            twin = placed[key] = Weight(node.output.name, tensor, desc, offset, desc.nbytes)
            offset += -(-desc.nbytes // WEIGHTS_ALIGNMENT) * WEIGHTS_ALIGNMENT
        weights[node.output] = Weight(node.output.name, tensor, desc, twin.offset, twin.nbytes)
    return weights


class _Homes:
    """Which memory each value has: the home of a view is that of what it views."""

    def __init__(
        self, graph: Graph, launches: Sequence[Launch], weights: dict[Value, Weight], roots: dict[Value, Value]
    ) -> None:
        self._weights = weights
        self._roots = roots
        self._inputs = {node.output: index for index, node in enumerate(graph.inputs)}
        self._outputs = {self._root(value): index for index, value in enumerate(graph.outputs)}
        self._blocks: dict[Value, Block] = {}
        self._all: list[Block] = []
        self._live(launches)

    def _root(self, value: Value) -> Value:
        return self._roots.get(value, value)

    def plan(self, *, reuse: bool) -> MemoryPlan:
        """Places the blocks."""
        return plan_memory(self._all, reuse=reuse)

    def slot(self, value: Value | None) -> Slot | None:
        """Where an operand lies."""
        if value is None:
            return None
        root, desc = self._root(value), value.desc
        if root in self._weights:
            return Slot(Region.WEIGHTS, self._weights[root].offset, desc.nbytes, desc)
        if root in self._inputs:
            return Slot(Region.INPUT, 0, desc.nbytes, desc, self._inputs[root])
        if root in self._outputs:
            return Slot(Region.OUTPUT, 0, desc.nbytes, desc, self._outputs[root])
        if root not in self._blocks and desc.nbytes == 0:
            return Slot(Region.ARENA, 0, 0, desc)  # nothing to write, so no launch makes it
        return Slot(Region.ARENA, self._blocks[root].offset, desc.nbytes, desc)

    def _live(self, launches: Sequence[Launch]) -> None:
        """Life times: from the first launch that writes a value to the last that uses it or a view of it."""
        last_use: dict[Value, int] = {}
        for number, launch in enumerate(launches):
            for value in (*launch.call.src, *launch.call.dst):  # several launches may write one value
                if value is not None:
                    last_use[self._root(value)] = number
        for number, launch in enumerate(launches):
            for value in launch.call.dst:
                if value in self._outputs or value in self._blocks:
                    continue
                block = self._in_place(launch, value, number, last_use)
                if block is None:
                    block = Block(align(value.desc.nbytes), number, number)
                    self._all.append(block)
                block.last = max(block.last, last_use[value])
                self._blocks[value] = block

    def _in_place(self, launch: Launch, value: Value, number: int, last_use: dict[Value, int]) -> Block | None:
        """The block of an input that ends here and that the kernel may write its result over."""
        opdef = find_opdef(launch.node)
        if opdef is None or len(launch.call.dst) != 1 or launch.node.outputs != [value]:
            return None
        for place in opdef.inplace:
            source = launch.node.input(place)
            if source is None or source.desc.memory_shape != value.desc.memory_shape:
                continue
            root = self._root(source)
            block = self._blocks.get(root)
            alone = sum(1 for operand in launch.call.src if operand is not None and self._root(operand) is root) == 1
            same_item = source.desc.dtype.bits == value.desc.dtype.bits
            if block is not None and alone and same_item and last_use[root] == number and block.last == number:
                return block
        return None


def _task(launch: Launch, homes: _Homes) -> Task:
    node, call = launch.node, launch.call
    assert node.engine is not None
    on_host = call.family == HOST_FAMILY
    dst = [homes.slot(value) for value in call.dst]
    return Task(
        node=node.name,
        op_type=node.op_type,
        engine=node.engine,
        kernel=call.family,
        src=tuple(homes.slot(value) for value in call.src),
        dst=tuple(slot for slot in dst if slot is not None),
        params=b"" if on_host else pack_params(call.family, call.params),
        sources=node.sources,
        passes=node.passes,
    )

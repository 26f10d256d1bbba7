"""Buffer assignment: each value gets a block of the arena, a port, a constant, or a range of another buffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from atcpy.ir import Graph, MemoryPlan, Node, PlacedValue, Region, Slot, Value, Weight
from atcpy.ops import find_opdef
from atcpy.options import CompileOptions
from atcpy.passes.compile.form_streams import Section, launch_sections
from atcpy.passes.compile.lower import Launch, overwritten
from atcpy.passes.compile.memory_bound import Block, align
from atcpy.passes.compile.plan_memory import plan_memory


def names_of(node: Node) -> frozenset[str]:
    """What users may call a node: by itself, by the nodes of the model that are in it, or by its type."""
    opdef = find_opdef(node)
    types = {node.op_type} if opdef is None else {node.op_type, opdef.type_in_ge(node)}
    return frozenset({node.name, *node.sources, *types})


@dataclass(eq=False, slots=True)
class Buffer:
    """`size` bytes of a region that hold a value, and later the values that kernels write over it in place.

    offset: of a constant, in the weights. index: of a port.
    block: the buffer's range of the arena, unless it lies within the buffer `outer` at `outer_offset`.
    values: the values that it holds, each with the launch that writes it first.
    is_unshared: it holds one value, and shares no memory with others at any time.
    """

    region: Region
    size: int
    offset: int = 0
    index: int = 0
    block: Block | None = None
    outer: Buffer | None = None
    outer_offset: int = 0
    has_inner: bool = False
    values: list[tuple[int, Value]] = field(default_factory=list)
    is_unshared: bool = False


@dataclass(slots=True)
class LoweredGraph:
    """What the passes of the stage compile rewrite: launches and the buffers of their operands. A removed launch is
    None, so that lifetimes, which count launches, stay valid.
    """

    launches: list[Launch | None]
    buffers: BufferAssignment
    options: CompileOptions


class BufferAssignment:
    """The buffer of each value; a view has the buffer of the value that it views."""

    def __init__(
        self,
        graph: Graph,
        launches: Sequence[Launch],
        weights: dict[Value, Weight],
        roots: dict[Value, Value],
        *,
        overlaps: bool = False,
        unshared: Set[str] = frozenset(),
    ) -> None:
        """`overlaps`: collectives run beside the launches behind them. `unshared`: names of nodes and types whose
        results share no memory.
        """
        self._roots = roots
        self._unshared = unshared
        self._buffers: dict[Value, Buffer] = {}
        for index, value in enumerate(graph.outputs):
            self._buffers[self._root(value)] = Buffer(Region.OUTPUT, value.desc.nbytes, index=index)
        for index, node in enumerate(graph.inputs):
            self._buffers[node.output] = Buffer(Region.INPUT, node.output.desc.nbytes, index=index)
        for value, weight in weights.items():
            self._buffers[value] = Buffer(Region.WEIGHTS, weight.nbytes, offset=weight.offset)
        self._arena: list[tuple[Buffer, Block]] = []
        self._is_numbered = False  # blocks are placed when their sizes are known; until then operands have numbers
        self._numbers: dict[int, int] = {}  # of blocks, by identity
        self._assign(launches, self._waits(launches) if overlaps else {})

    def _root(self, value: Value) -> Value:
        return self._roots.get(value, value)

    def plan(self, launches: Sequence[Launch | None], *, reuse: bool) -> MemoryPlan:
        """Give each block of the arena its offset; `launches` are those that are left."""
        sections = list(launch_sections(launches))
        for number, section in enumerate(sections):
            self._note_streams(number, section, launches)
        plan = plan_memory(self.blocks(), [section.numbers for section in sections], reuse=reuse)
        return replace(plan, above_bound=tuple(self._above(plan.lower_bound))) if reuse else plan

    def _above(self, bound: int) -> Iterator[PlacedValue]:
        """Yield the first value of each block that ends above a bound."""
        for buffer, block in self._arena:
            if buffer.outer is None and block.offset + block.nbytes > bound:
                yield PlacedValue(buffer.values[0][1].name, block.offset, block.nbytes)

    def _note_streams(self, number: int, section: Section, launches: Sequence[Launch | None]) -> None:
        """Note in which stream of a section blocks begin and end. One that several streams use is live in all of it."""
        streams: dict[Block, set[int]] = {}
        for launch in launches[section.first : section.end]:
            for value in () if launch is None else (*launch.call.src, *launch.call.dst):
                found = None if value is None else self.find(value)
                if launch is not None and found is not None and found[0].block is not None:
                    streams.setdefault(found[0].block, set()).add(launch.stream)
        for block, used_in in streams.items():
            begins, ends = block.first in section.numbers, block.last in section.numbers
            if len(used_in) > 1:
                block.first = section.first if begins else block.first
                block.last = section.end if ends else block.last
                continue
            [stream] = used_in
            block.begins_in = (number, stream) if begins else block.begins_in
            block.ends_in = (number, stream) if ends else block.ends_in

    def number_blocks(self) -> list[Block]:
        """Leave the blocks to whoever knows their sizes: operands name their block, and an offset in it."""
        blocks = self.blocks()
        self._is_numbered, self._numbers = True, {id(block): number for number, block in enumerate(blocks)}
        for block in blocks:
            block.offset = 0
        return blocks

    def blocks(self) -> list[Block]:
        """Return the blocks of the arena."""
        return [block for buffer, block in self._arena if buffer.outer is None]

    def find(self, value: Value) -> tuple[Buffer, int] | None:
        """Return the outermost buffer that holds a value and the value's offset in it; None for a value without
        elements that no launch writes.
        """
        buffer = self._buffers.get(self._roots.get(value, value))
        if buffer is None:
            return None
        offset = 0
        while buffer.outer is not None:
            offset += buffer.outer_offset
            buffer = buffer.outer
        return buffer, offset

    def split(self, buffer: Buffer, number: int) -> Buffer | None:
        """Move the values written after launch `number` to a new buffer and return it; None if there are none, or
        the buffer cannot be split.
        """
        later = [entry for entry in buffer.values if entry[0] > number]
        if buffer.block is None or buffer.has_inner or not later:
            return None
        first = later[0][0]
        block = Block(buffer.block.nbytes, first, buffer.block.last)
        rest = Buffer(buffer.region, buffer.size, block=block, values=later)
        self._arena.append((rest, block))
        buffer.block.last = first
        del buffer.values[-len(later) :]
        self._buffers.update((value, rest) for _, value in later)
        return rest

    def unsplit(self, buffer: Buffer, rest: Buffer) -> None:
        """Undo the last `split`."""
        assert buffer.block is not None and rest.block is not None
        self._arena.pop()
        buffer.block.last = rest.block.last
        buffer.values += rest.values
        self._buffers.update((value, buffer) for _, value in rest.values)

    def slots(self, launch: Launch) -> tuple[tuple[Slot | None, ...], tuple[Slot, ...]]:
        """Return the memory of a launch's operands."""
        src = tuple(None if value is None else self._slot(value) for value in launch.call.src)
        dst = tuple(self._slot(value) for value in launch.call.dst)
        if launch.run is None:
            return src, dst
        read, written, nbytes = launch.run
        assert src[0] is not None
        return (
            (replace(src[0], offset=src[0].offset + read, nbytes=nbytes),),
            (replace(dst[0], offset=dst[0].offset + written, nbytes=nbytes),),
        )

    def _slot(self, value: Value) -> Slot:
        found, desc = self.find(value), value.desc
        if found is None:
            assert desc.nbytes == 0, f"no launch writes {value.name}"
            return Slot(Region.WEIGHTS if self._is_numbered else Region.ARENA, 0, 0, desc)
        buffer, offset = found
        start = buffer.offset if buffer.block is None else buffer.block.offset
        index = buffer.index if buffer.block is None else self._numbers.get(id(buffer.block), 0)
        return Slot(buffer.region, start + offset, desc.nbytes, desc, index)

    def _assign(self, launches: Sequence[Launch], waits: Mapping[int, int]) -> None:
        """Assign buffers to what launches write. A value lives from the first launch that writes it to the last that
        uses it or a view of it. `waits` maps launches that do not end before the next one to that which waits for them.
        """
        last_use: dict[Value, int] = {}
        for number, launch in enumerate(launches):
            for value in (*launch.call.src, *launch.call.dst):  # several launches may write one value
                if value is not None:
                    last_use[self._root(value)] = number
        for value, end in self._used_by_several(launches):
            last_use[value] = max(last_use[value], end)
        for number, launch in enumerate(launches):
            for value in launch.call.dst:
                root = self._root(value)
                if root in self._buffers:
                    continue
                is_unshared = bool(self._unshared) and not self._unshared.isdisjoint(names_of(launch.node))
                buffer = None if is_unshared else self._in_place(launch, value, number, last_use)
                if is_unshared:
                    block = Block(align(root.desc.nbytes), 0, len(launches) - 1)
                    buffer = Buffer(Region.ARENA, root.desc.nbytes, block=block, is_unshared=True)
                    self._arena.append((buffer, block))
                elif buffer is None:
                    block = Block(align(root.desc.nbytes), number, number)
                    buffer = Buffer(Region.ARENA, root.desc.nbytes, block=block)
                    self._arena.append((buffer, block))
                assert buffer.block is not None
                buffer.block.last = max(buffer.block.last, last_use[root])
                self._buffers[root] = buffer
                buffer.values.append((number, root))
            if number in waits:
                self._use_until(waits[number], launch, last_use)

    def _use_until(self, end: int, launch: Launch, last_use: dict[Value, int]) -> None:
        """Let the operands of a launch live until launch `end`."""
        for value in (*launch.call.src, *launch.call.dst):
            root = None if value is None else self._root(value)
            buffer = None if root is None else self._buffers.get(root)
            if root is not None and buffer is not None and buffer.block is not None:
                last_use[root] = max(last_use[root], end)
                buffer.block.last = max(buffer.block.last, end)

    def _waits(self, launches: Sequence[Launch]) -> dict[int, int]:
        """Map each collective to the launch that waits for it: the first that reads its result, or that of a later one,
        since collectives run in order; the last launch if there is none.
        """
        first_use: dict[Value, int] = {}
        for number, launch in enumerate(launches):
            if not launch.is_collective:
                for value in launch.call.src:
                    if value is not None:
                        first_use.setdefault(self._root(value), number)
        waits: dict[int, int] = {}
        waiting = len(launches) - 1
        for number, launch in reversed(list(enumerate(launches))):
            if launch.is_collective:
                users = (first_use.get(self._root(value), waiting) for value in launch.call.dst)
                waiting = waits[number] = min(waiting, *users)
        return waits

    def _used_by_several(self, launches: Sequence[Launch]) -> Iterator[tuple[Value, int]]:
        """Yield values that several streams of a section read, in whatever order, and the section's end."""
        for section in launch_sections(launches):
            streams: dict[Value, set[int]] = {}
            for launch in launches[section.first : section.end]:
                for value in launch.call.src:
                    if value is not None:
                        streams.setdefault(self._root(value), set()).add(launch.stream)
            yield from ((value, section.end) for value, used_in in streams.items() if len(used_in) > 1)

    def _in_place(self, launch: Launch, value: Value, number: int, last_use: dict[Value, int]) -> Buffer | None:
        """Return the buffer of an input that is last used here and that the kernel may overwrite with its result."""
        for source in overwritten(launch, value):
            root = self._root(source)
            buffer = self._buffers.get(root)
            alone = sum(1 for operand in launch.call.src if operand is not None and self._root(operand) is root) == 1
            if (
                buffer is not None
                and buffer.block is not None
                and not buffer.is_unshared
                and last_use[root] == number == buffer.block.last
                and alone
            ):
                return buffer
        return None

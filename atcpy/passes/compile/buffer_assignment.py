"""Where every value lies: in a block of the arena, a port or the constants, or within what another value has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from atcpy.ir import Graph, MemoryPlan, Region, Slot, Value, Weight
from atcpy.ops import find_opdef
from atcpy.options import CompileOptions, OoLevel, PassSwitches
from atcpy.passes.compile.lower import Launch
from atcpy.passes.compile.plan_memory import Block, align, plan_memory


@dataclass(eq=False, slots=True)
class Home:
    """Memory of a value, and of those that are written over it: `size` bytes of a region. In the arena they are a
    `block`, or lie within another home, from its byte `at` on. `written` says by which launch each value is first.
    """

    region: Region
    size: int
    offset: int = 0  # in the constants
    index: int = 0  # of the port
    block: Block | None = None
    outer: Home | None = None
    at: int = 0
    has_inner: bool = False
    written: list[tuple[int, Value]] = field(default_factory=list)


@dataclass(slots=True)
class Lowered:
    """What the passes of the stage compile change: the launches, None for those that are left out, and the homes of
    the values. Life times count the launches, those left out included.
    """

    launches: list[Launch | None]
    homes: Homes
    options: CompileOptions

    @property
    def level(self) -> OoLevel:
        """The level of the optimisation."""
        return self.options.level

    @property
    def switches(self) -> PassSwitches:
        """Which passes are on."""
        return self.options.switches


class Homes:
    """Which memory each value has: the home of a view is that of what it views."""

    def __init__(
        self, graph: Graph, launches: Sequence[Launch], weights: dict[Value, Weight], roots: dict[Value, Value]
    ) -> None:
        self._roots = roots
        self._homes: dict[Value, Home] = {}
        for index, value in enumerate(graph.outputs):
            self._homes[self._root(value)] = Home(Region.OUTPUT, value.desc.nbytes, index=index)
        for index, node in enumerate(graph.inputs):
            self._homes[node.output] = Home(Region.INPUT, node.output.desc.nbytes, index=index)
        for value, weight in weights.items():
            self._homes[value] = Home(Region.WEIGHTS, weight.nbytes, offset=weight.offset)
        self._all: list[tuple[Home, Block]] = []
        self._live(launches)

    def _root(self, value: Value) -> Value:
        return self._roots.get(value, value)

    def plan(self, *, reuse: bool) -> MemoryPlan:
        """Places the blocks."""
        return plan_memory(self.blocks(), reuse=reuse)

    def blocks(self) -> list[Block]:
        """The blocks of the arena."""
        return [block for home, block in self._all if home.outer is None]

    def find(self, value: Value) -> tuple[Home, int] | None:
        """The home of a value that lies within no other, and the byte of it where the value begins; None for a value
        without elements that nobody makes.
        """
        home = self._homes.get(self._root(value))
        if home is None:
            return None
        at = 0
        while home.outer is not None:
            at += home.at
            home = home.outer
        return home, at

    def separate(self, home: Home, number: int) -> Home | None:
        """Gives what is written over a home after launch `number` one of its own."""
        later = [entry for entry in home.written if entry[0] > number]
        if home.block is None or home.has_inner or not later:
            return None
        first = later[0][0]
        block = Block(home.block.nbytes, first, home.block.last)
        apart = Home(home.region, home.size, block=block, written=later)
        self._all.append((apart, block))
        home.block.last = first
        del home.written[-len(later) :]
        self._homes.update((value, apart) for _, value in later)
        return apart

    def rejoin(self, home: Home, apart: Home) -> None:
        """Takes the last `separate` back."""
        assert home.block is not None and apart.block is not None
        self._all.pop()
        home.block.last = apart.block.last
        home.written += apart.written
        self._homes.update((value, home) for _, value in apart.written)

    def slots(self, launch: Launch) -> tuple[tuple[Slot | None, ...], tuple[Slot, ...]]:
        """Where the operands of a launch lie."""
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
            assert desc.nbytes == 0, f"nobody makes {value.name}"
            return Slot(Region.ARENA, 0, 0, desc)
        home, at = found
        start = home.offset if home.block is None else home.block.offset
        return Slot(home.region, start + at, desc.nbytes, desc, home.index)

    def _live(self, launches: Sequence[Launch]) -> None:
        """Life times: from the first launch that writes a value to the last that uses it or a view of it."""
        last_use: dict[Value, int] = {}
        for number, launch in enumerate(launches):
            for value in (*launch.call.src, *launch.call.dst):  # several launches may write one value
                if value is not None:
                    last_use[self._root(value)] = number
        for number, launch in enumerate(launches):
            for value in launch.call.dst:
                if value in self._homes:
                    continue
                home = self._in_place(launch, value, number, last_use)
                if home is None:
                    block = Block(align(value.desc.nbytes), number, number)
                    home = Home(Region.ARENA, value.desc.nbytes, block=block)
                    self._all.append((home, block))
                assert home.block is not None
                home.block.last = max(home.block.last, last_use[value])
                self._homes[value] = home
                home.written.append((number, value))

    def _in_place(self, launch: Launch, value: Value, number: int, last_use: dict[Value, int]) -> Home | None:
        """The home of an input that ends here and that the kernel may write its result over."""
        opdef = find_opdef(launch.node)
        if opdef is None or len(launch.call.dst) != 1 or launch.node.outputs != [value]:
            return None
        for place in opdef.inplace:
            source = launch.node.input(place)
            if source is None or source.desc.memory_shape != value.desc.memory_shape:
                continue
            root = self._root(source)
            home = self._homes.get(root)
            alone = sum(1 for operand in launch.call.src if operand is not None and self._root(operand) is root) == 1
            same_item = source.desc.dtype.bits == value.desc.dtype.bits
            ends = home is not None and home.block is not None and last_use[root] == number == home.block.last
            if ends and alone and same_item:
                return home
        return None

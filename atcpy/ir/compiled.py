"""What compile hands to the package writer: tasks, memory, weights; no decisions are left."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from atcpy.ir.desc import TensorDesc
from atcpy.ir.engine import Engine
from atcpy.ir.graph import Graph
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Tensor
from atcpy.options import GearKind


class Region(IntEnum):
    """Where the bytes of a task's operand lie; numbers as in kernels/csrc/core/task.h."""

    NONE = 0
    ARENA = 1
    WEIGHTS = 2
    INPUT = 3
    OUTPUT = 4


@dataclass(frozen=True, slots=True)
class Slot:
    """An operand: `nbytes` bytes at `offset` of the arena or the weights, or of the graph's
    input or output number `index`.
    """

    region: Region
    offset: int
    nbytes: int
    desc: TensorDesc
    index: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """One launch of one kernel. `kernel` is the family; the row is bound at load, to the CPU that
    is there. A task of the family `host` runs through the ONNX reference evaluator.

    node, op_index: the node that it runs, and that node's position in the graph.
    patches: arguments that depend on symbols, by their offset in bytes in the record.
    """

    node: str
    op_index: int
    op_type: str
    engine: Engine
    kernel: str
    src: tuple[Slot | None, ...]
    dst: tuple[Slot, ...]
    params: bytes
    sources: tuple[str, ...]
    passes: tuple[str, ...]
    stream: int = 0
    event_wait: int = 0
    event_record: int = 0
    patches: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant in the weights: its bytes are `tensor` packed into the format of `desc`."""

    name: str
    tensor: Tensor
    desc: TensorDesc
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output of the whole model."""

    name: str
    desc: TensorDesc


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes of the arena; the lower bound is the largest sum of live blocks over the tasks, and
    `unshared_bytes` what the values would take without reuse.
    """

    arena_bytes: int
    lower_bound: int
    unshared_bytes: int


@dataclass(frozen=True, slots=True)
class Source:
    """Where the model came from: its hash, not its path."""

    sha256: str
    framework: str
    opsets: tuple[tuple[str, int], ...]
    producer: str


@dataclass(frozen=True, slots=True)
class SymbolicDim:
    """A symbol of a symbolic plan: the size of an axis of an input."""

    name: str
    input_index: int
    axis: int


@dataclass(frozen=True, slots=True)
class SymbolicPlan:
    """Tasks whose arguments depend on symbols, and the program that computes these; docs/dynamic-shapes.md."""

    symbols: tuple[SymbolicDim, ...]
    tasks: tuple[Task, ...]
    program: bytes


@dataclass(frozen=True, slots=True)
class Gear:
    """One of the listed sizes of the open dims: the model compiled for them, on its own. Its tasks are `task_count` of
    those of the model, after the tasks of the gears before it.
    """

    sizes: tuple[int, ...]
    inputs: tuple[StaticShape, ...]
    outputs: tuple[StaticShape, ...]
    task_count: int
    arena_bytes: int

    @property
    def text(self) -> str:
        """Its sizes, as the option lists them."""
        return ",".join(map(str, self.sizes))


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """Everything that a package holds. With unknown shapes there are no tasks, but plans for all sizes, or the reason
    why they are `unplanned`: then the graph, as it is before the split, is compiled for the shapes that it meets. With
    gears the graph is a Case of the gears' graphs (`ir/gears.py`), and the tasks are those of all gears.
    """

    graph: Graph
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    tasks: tuple[Task, ...]
    weights: Sequence[Weight]
    memory: MemoryPlan
    soc: str
    cmdline: str
    source: Source
    version: str
    has_unknown_shapes: bool = False
    plans: tuple[SymbolicPlan, ...] = ()
    unplanned: str = ""
    gear_kind: GearKind | None = None
    gears: tuple[Gear, ...] = ()

"""What compile hands to the package writer: tasks, memory, weights; no decisions are left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:  # what runs plans needs the records, and few of their parts
    from atcpy.ir.desc import TensorDesc
    from atcpy.ir.dtype import DType
    from atcpy.ir.engine import Engine
    from atcpy.ir.graph import Graph
    from atcpy.ir.region import Region
    from atcpy.ir.shape import StaticShape
    from atcpy.ir.tensor import Tensor
    from atcpy.sizes import GearKind


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
class PlacementStrategy:
    """A way to place the blocks of the arena, and what the arena takes with it; None if it was not tried, since another
    one had met the lower bound, or there are too many blocks.
    """

    name: str
    arena_bytes: int | None


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A value in the arena; `nbytes` are those of its block."""

    name: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes of the arena; the lower bound is the largest sum of live blocks over the tasks, and
    `unshared_bytes` what the values would take without reuse. `scratch_bytes` is what kernels need besides, for each
    thread: of the CPU that compiles, so that no package has it.

    strategies: those of the planner, of which the smallest was taken. above_bound: values that no strategy could place
    below the lower bound.
    """

    arena_bytes: int
    lower_bound: int
    unshared_bytes: int
    scratch_bytes: int = 0
    strategies: tuple[PlacementStrategy, ...] = ()
    above_bound: tuple[PlacedValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Where the model came from: its hash, not its path."""

    sha256: str
    framework: str
    opsets: tuple[tuple[str, int], ...]
    producer: str


TasksT = TypeVar("TasksT", bound=Sequence[object])  # of `Task`, or the records that a package has


@dataclass(frozen=True, slots=True)
class Variable:
    """A tensor that plans of a cluster exchange. A dim of -1 varies."""

    name: str
    dtype: DType
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of a symbolic plan: the size of axis `index` of a variable, or its element `index` if `is_element`."""

    name: str
    variable: int
    index: int
    is_element: bool = False


@dataclass(frozen=True, slots=True)
class CountedOutput:
    """Output `output` of a plan has memory for the largest that it can be. Its size along `axes` is the one element of
    output `count`; the result lies at the beginning of the memory.
    """

    output: int
    count: int
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SymbolicPlan(Generic[TasksT]):
    """Tasks whose arguments depend on symbols, and the program that computes these; docs/dynamic-shapes.md.

    inputs: the variables of the cluster that its inputs are. outputs: the variables that it adds.
    """

    symbols: tuple[Symbol, ...]
    tasks: TasksT
    program: bytes
    inputs: tuple[int, ...]
    outputs: tuple[Variable, ...]
    counted: tuple[CountedOutput, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterVariant(Generic[TasksT]):
    """Plans that run one after the other. The variables are the inputs of the cluster and then the outputs of the
    plans, in order; `outputs` are those that are the cluster's.

    condition: a variable of integers, all of which are 0 after a run whose inputs the variant serves. Results of other
    runs are not those of the cluster.
    """

    plans: tuple[SymbolicPlan[TasksT], ...]
    outputs: tuple[int, ...]
    condition: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """A cache: output `output` of the model is input `input` with new rows along `axis`. Where there are several
    `parts`, neighbours along axis 0, each is a port of its own.
    """

    input: int
    output: int
    axis: int
    parts: int


@dataclass(frozen=True, slots=True)
class PlannedCluster(Generic[TasksT]):
    """The plans of a cluster: step number `step` of a graph. Variants serve different sizes, the first that can is
    taken.

    graph: its number in `with_bodies`; 0 is the model itself.
    is_whole: it is all of the model, with its inputs and outputs.

    states: caches that the plans get with room for more rows, and write the new ones into. Their ports are the last
    outputs of a plan, the dims of each the rows that are in use after the run; the capacity is the size of a further
    variable after the inputs. Inputs and outputs that are states are left out of the plans.
    """

    graph: int
    step: int
    inputs: tuple[Variable, ...]
    variants: tuple[ClusterVariant[TasksT], ...]
    is_whole: bool = False
    states: tuple[State, ...] = ()


# As it is compiled; those of a package have their tasks as records.
CompiledCluster = PlannedCluster[tuple[Task, ...]]


def plans_of(clusters: Iterable[PlannedCluster[TasksT]]) -> Iterator[SymbolicPlan[TasksT]]:
    """Return the plans of clusters in the order in which a package has them."""
    return (plan for cluster in clusters for variant in cluster.variants for plan in variant.plans)


def states_by_name(
    clusters: Iterable[PlannedCluster[TasksT]], inputs: Sequence[str], outputs: Sequence[str]
) -> dict[str, str]:
    """Return which outputs have plans as states of which inputs."""
    return {outputs[state.output]: inputs[state.input] for cluster in clusters for state in cluster.states}


def task_counts(clusters: Iterable[PlannedCluster[TasksT]]) -> tuple[tuple[int, ...], ...]:
    """Return how many tasks each variant of each cluster has, without bound states."""
    return tuple(
        tuple(sum(len(plan.tasks) for plan in variant.plans) for variant in cluster.variants)
        for cluster in clusters
        if not cluster.states
    )


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
    """Everything that a package holds. With unknown shapes there are no tasks, but the graph as it is before the split,
    and plans of its clusters for all sizes. `unplanned` says why a cluster has none: it is compiled for the shapes that
    it meets. With gears the graph is a Case of the gears' graphs
    (`ir/gears.py`), and the tasks are those of all gears.
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
    clusters: tuple[CompiledCluster, ...] = ()
    unplanned: str = ""
    gear_kind: GearKind | None = None
    gears: tuple[Gear, ...] = ()
    checks_status: bool = False  # runs check what nodes compute

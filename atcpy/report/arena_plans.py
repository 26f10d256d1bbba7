"""The memory plans of a package: of fixed sizes, of one of its gears, or of open dims for the sizes of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from atcpy.errors import UsageError, Where
from atcpy.ir import ClusterVariant, Graph, Node, PlannedCluster, SymbolicPlan
from atcpy.kernels import _kernels
from atcpy.om.package import Package
from atcpy.om.task_record import TaskRecords
from atcpy.report.memory_plan import ArenaPlan, read_arena_plan
from atcpy.runtime.distributed.world import SingleRank
from atcpy.runtime.loader import bind_gears, bind_package
from atcpy.runtime.plan import ExecutionPlan
from atcpy.runtime.symbolic import PlanContext
from atcpy.runtime.workers import Workers

Shapes = Mapping[str, Sequence[int]]
NamedPlan = tuple[str, Sequence[Node], SymbolicPlan[TaskRecords]]


def fixed_arena_plan(package: Package, whole: Graph, graph: Graph, gear: int) -> ArenaPlan:
    """Return the plan of a package whose sizes are fixed, or of one of its gears, whose graph is `graph`. Raises
    PackageCorrupt (P0005) if the loader refuses it.
    """
    bound: ExecutionPlan
    if package.gears:
        bound = bind_gears(package, lambda: whole, workers=Workers(1), world=SingleRank())[package.gears[gear].inputs]
    else:
        bound = bind_package(package, lambda: whole, workers=Workers(1), world=SingleRank())
    name = f"gear {package.gears[gear].text}" if package.gears else ""
    return read_arena_plan(name, bound.plan, bound.arena_bytes, list(graph.nodes))


def open_arena_plans(package: Package, plans: Iterable[NamedPlan], shapes: Shapes) -> list[ArenaPlan]:
    """Return the plans that a run with inputs of these shapes takes, one after the other; `plans` are those of the
    package. Raises UsageError (E10013, E10057) for sizes that no plan serves, or that data decide.
    """
    whole = next((cluster for cluster in package.clusters if cluster.is_whole and not cluster.states), None)
    if whole is None:
        what = "--shape: the package has no plan of the whole model: it is compiled, in part, for the sizes of a run"
        raise UsageError("E10057", what, where=Where(option="shape"), hint="--plans lists the plans that it has")
    named = {id(plan): (name, nodes) for name, nodes, plan in plans}
    context = PlanContext(package, Workers(1), SingleRank())
    for variant in whole.variants:
        completed = _complete(whole, variant, context, shapes)
        if completed is None:
            continue
        found = []
        for plan, (bound, arena_bytes) in zip(variant.plans, completed, strict=True):
            name, nodes = named[id(plan)]
            found.append(read_arena_plan(name, bound, arena_bytes, nodes))
        return found
    listed = ";".join(f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items())
    what = f"--shape: no plan of the package serves {listed}: a run compiles the model for it"
    raise UsageError("E10013", what, where=Where(option="shape"), hint="--plans lists the sizes that plans serve")


def _complete(
    cluster: PlannedCluster[TaskRecords], variant: ClusterVariant[TaskRecords], context: PlanContext, shapes: Shapes
) -> list[tuple[_kernels.Plan, int]] | None:
    """The plans of a variant with the bytes of their arenas; None if it serves other sizes."""
    variables: list[Sequence[int] | None] = [shapes[variable.name] for variable in cluster.inputs]
    completed: list[tuple[_kernels.Plan, int]] = []
    for plan in variant.plans:
        sizes: list[int] = []
        for symbol in plan.symbols:
            shape = variables[symbol.variable]
            if symbol.is_element or shape is None:
                what = f"--shape: {symbol.name} is not a size of an input: data decide it in a run"
                raise UsageError("E10057", what, where=Where(option="shape"), hint="drop it: --plans shows the plans")
            sizes.append(shape[symbol.index])
        try:
            instance = context.load(plan).instantiate(sizes)
        except (_kernels.Refused, ValueError):
            instance = None
        if instance is None:
            return None
        bound, _, results, arena_bytes = instance
        completed.append((bound, arena_bytes))
        counted = {item.output for item in plan.counted}  # a run cuts them to the size that they turn out to have
        variables += [None if index in counted else shape for index, shape in enumerate(results)]
    return completed

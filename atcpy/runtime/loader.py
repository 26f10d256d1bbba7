"""Stage 5, load: a package, or a model compiled in this process, becomes a plan bound to the kernels of this CPU.

MODEL_DEF is parsed only if a task runs on the host, if shapes are unknown, or when somebody asks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from atcpy.errors import CODES, CustomOpError, PackageCorrupt, ResourceLimit, Where
from atcpy.ir.shape import MAX_BYTES, StaticShape
from atcpy.kernels import _kernels
from atcpy.om import numbers
from atcpy.om.container import Verify
from atcpy.om.inout import TensorInfo
from atcpy.om.package import Package, parse_package, read_package
from atcpy.om.task_record import TaskRecords
from atcpy.runtime.distributed.world import World
from atcpy.runtime.plan import ExecutionPlan, PlanPort, segments_of
from atcpy.runtime.workers import Workers

if TYPE_CHECKING:
    from atcpy.ir import CompiledModel, Graph, Node, Port
    from atcpy.om.signature import PublicKey
    from atcpy.runtime.weights import WeightStore


def open_package(
    source: str | os.PathLike[str] | bytes, *, verify: Verify, mmap: bool, signers: Sequence[PublicKey] = ()
) -> Package:
    """Reads and checks a package. PackageCorrupt for anything that is not as it should be."""
    if isinstance(source, bytes):
        return parse_package(source, verify=verify, signers=signers)
    return read_package(source, mmap=mmap, verify=verify, signers=signers)


def missing_custom_ops(package: Package) -> list[CustomOpError]:
    """C0003 for each of users' operators that the package needs and nobody registered."""
    if not package.custom_ops:
        return []
    from atcpy.ops.custom import find_custom_op

    return [
        CustomOpError(
            "C0003",
            f"the package needs the custom operator {domain}::{name}, which is not loaded",
            where=Where(file=package.container.source, op=name),
            hint="name the module that registers it: --custom-ops my_ops.py, or InferenceSession(custom_ops=…)",
        )
        for domain, name in package.custom_ops
        if find_custom_op(domain, name) is None
    ]


def bind_package(package: Package, find_graph: Callable[[], Graph], *, workers: Workers, world: World) -> ExecutionPlan:
    """The plan of a package whose shapes are known; `find_graph` reads its graph, if something runs on the host."""
    source = package.container.source
    inputs = tuple(_port(port, source) for port in package.inputs)
    outputs = tuple(_port(port, source) for port in package.outputs)
    nodes = cache(lambda: tuple(find_graph().nodes))
    return _bind_tasks(package, package.tasks, package.arena_bytes, inputs, outputs, nodes, workers, world)


def bind_gears(
    package: Package, find_graph: Callable[[], Graph], *, workers: Workers, world: World
) -> dict[tuple[StaticShape, ...], ExecutionPlan]:
    """The plan of each gear by the shapes of the inputs; `find_graph` as above. All share their arenas."""
    plans: dict[tuple[StaticShape, ...], ExecutionPlan] = {}
    for number, gear in enumerate(package.gears):
        inputs, outputs = _ports_of(package.inputs, gear.inputs), _ports_of(package.outputs, gear.outputs)
        nodes = cache(partial(_nodes_of_gear, find_graph, number))
        tasks = package.tasks_of(number)
        first = next(iter(plans.values()), None)
        plan = _bind_tasks(package, tasks, gear.arena_bytes, inputs, outputs, nodes, workers, world, first)
        plans[gear.inputs] = plan
    return plans


def _nodes_of_gear(find_graph: Callable[[], Graph], number: int) -> Sequence[Node]:
    from atcpy.ir.gears import branches

    return tuple(branches(find_graph())[number].nodes)


def _ports_of(infos: Sequence[TensorInfo], shapes: Sequence[StaticShape]) -> tuple[PlanPort, ...]:
    ports: list[PlanPort] = []
    for info, shape in zip(infos, shapes, strict=True):
        dtype = numbers.DTYPE_OF_GE.get(info.dtype)
        if dtype is None or (port := PlanPort(info.name, dtype, shape)).nbytes > MAX_BYTES:
            raise PackageCorrupt("P0005", f"{info.name} has no type and shape that can be run")
        ports.append(port)
    return tuple(ports)


def _bind_tasks(
    package: Package,
    tasks: TaskRecords,
    arena_bytes: int,
    inputs: tuple[PlanPort, ...],
    outputs: tuple[PlanPort, ...],
    nodes: Callable[[], Sequence[Node]],
    workers: Workers,
    world: World,
    sharing: ExecutionPlan | None = None,
) -> ExecutionPlan:
    source = package.container.source
    try:
        arenas_of = None if sharing is None else sharing.plan
        plan = _bind(tasks, package.weights, arena_bytes, inputs, outputs, workers, arenas_of)
    except _kernels.Refused as refused:
        reason, number = refused.args
        where = Where(file=source, node=f"task {number}" if number >= 0 else "")
        what = f"the plan is refused: {reason}"
        raise PackageCorrupt("P0005", what, where=where, hint=CODES["P0005"].help) from refused
    return ExecutionPlan(
        plan, tasks, segments_of(tasks, plan.joins()), package.weights, arena_bytes, inputs, outputs, nodes, world
    )


def bind_compiled(compiled: CompiledModel, store: WeightStore, *, workers: Workers, world: World) -> ExecutionPlan:
    """The plan of a model that never was in a file; its constants lie in the session's store."""
    from atcpy.kernels.table import pack_compiled_task

    nodes = tuple(compiled.graph.nodes)
    memory, offsets = store.pack(compiled.weights)
    tasks = TaskRecords(b"".join(pack_compiled_task(task, offsets.__getitem__) for task in compiled.tasks))
    inputs, outputs = (tuple(map(_compiled_port, ports)) for ports in (compiled.inputs, compiled.outputs))
    plan = _bind(tasks, memory, compiled.memory.arena_bytes, inputs, outputs, workers)
    arena_bytes = compiled.memory.arena_bytes
    return ExecutionPlan(
        plan, tasks, segments_of(tasks, plan.joins()), memory, arena_bytes, inputs, outputs, lambda: nodes, world
    )


def _bind(
    tasks: TaskRecords,
    memory: memoryview,
    arena_bytes: int,
    inputs: Sequence[PlanPort],
    outputs: Sequence[PlanPort],
    workers: Workers,
    arenas_of: _kernels.Plan | None = None,
) -> _kernels.Plan:
    sizes = [port.nbytes for port in inputs], [port.nbytes for port in outputs]
    try:
        return _kernels.Plan(
            tasks.records, memory, arena_bytes, *sizes, workers.threads, arenas_of=arenas_of, workers=workers.group
        )
    except MemoryError as error:
        raise ResourceLimit("R0001", f"no memory for {len(tasks)} tasks") from error


def _compiled_port(port: Port) -> PlanPort:
    return PlanPort(port.name, port.desc.dtype, port.desc.static_shape)


def _port(info: TensorInfo, source: str) -> PlanPort:
    dtype = numbers.DTYPE_OF_GE.get(info.dtype)
    if dtype is None or any(dim < 0 for dim in info.dims):
        raise PackageCorrupt("P0005", f"{info.name} has no type and shape that can be run", where=Where(file=source))
    port = PlanPort(info.name, dtype, info.dims)
    if port.nbytes != info.nbytes:
        raise PackageCorrupt("P0005", f"{info.name} has {info.nbytes} bytes for {list(info.dims)}")
    return port

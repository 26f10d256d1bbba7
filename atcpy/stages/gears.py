"""Compiling for gears: the model once for each listed size of its open dims, all with one set of constants.

Each gear goes through the ordinary stages from the prepared graph on, so that it runs as a package of its shapes does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from atcpy.errors import Unsupported, UsageError, Where
from atcpy.ir import CompiledModel, Gear, Graph, Port, Sym, TensorDesc
from atcpy.ir.clone import clone
from atcpy.ir.gears import add_suffix, case_graph
from atcpy.ir.shape import StaticShape, format_shape
from atcpy.options import ANY_SIZE, GearKind, Gears
from atcpy.passes.compile.emit_tasks import Identity, WeightLayout
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.split.known_shapes import is_known
from atcpy.stages.compile import compile_graph
from atcpy.stages.optimize import optimize
from atcpy.stages.prepare import prepare
from atcpy.stages.split import split

_Shapes = Mapping[str, StaticShape]


def compile_gears(
    graph: Graph, listed: Iterable[str], gears: Gears, identity: Identity, manager: PassManager
) -> CompiledModel:
    """Compile a prepared graph for each gear. `listed` are the inputs of --input_shape, whose open dims the gears
    complete in that order.

    Raises UsageError where a gear contradicts the model, Unsupported where a shape still depends on values.
    """
    layout, quiet = WeightLayout(), PassManager(manager.options, manager.passes, manager.deadline)
    shapes = {node.output.name: node.output.desc.shape or () for node in graph.inputs}
    open_shapes = {name: tuple(dim if isinstance(dim, int) else ANY_SIZE for dim in shapes[name]) for name in listed}
    compiled: list[CompiledModel] = []
    for number, completed in enumerate(gears.shapes(list(open_shapes.values()))):
        copy = _with_shapes(graph, dict(zip(open_shapes, completed, strict=True)), number)
        if number == 0:
            copy.decisions = graph.decisions  # those that the package tells
        whole = _optimized(copy, quiet if number else manager, number)
        compiled.append(compile_graph(whole, identity, manager, layout))
    records = tuple(_gear(graph, gears, number, model) for number, model in enumerate(compiled))
    case = case_graph(graph, gears.kind, records, [model.graph for model in compiled])
    names = [port.name for port in compiled[0].outputs]
    return replace(
        compiled[0],
        graph=case,
        inputs=tuple(Port(node.output.name, node.output.desc) for node in case.inputs),
        outputs=tuple(Port(name, value.desc) for name, value in zip(names, case.outputs, strict=True)),
        tasks=tuple(task for model in compiled for task in model.tasks),
        weights=tuple(layout.all),
        memory=max((model.memory for model in compiled), key=lambda memory: memory.arena_bytes),
        gear_kind=gears.kind,
        gears=records,
    )


def _with_shapes(graph: Graph, shapes: _Shapes, gear: int) -> Graph:
    """A copy of a graph whose inputs have these shapes."""
    copy = clone(graph)
    sizes: dict[Sym, int] = {}
    for data in copy.inputs:
        data.attrs.pop("default", None)  # stays in the graph of all gears
        name, desc = data.output.name, data.output.desc
        if desc.is_static or desc.shape is None:
            continue
        for dim, size in zip(desc.shape, shapes[name], strict=True):
            if isinstance(dim, Sym) and sizes.setdefault(dim, size) != size:
                what = f'--dynamic_dims: gear {gear} has {sizes[dim]} and {size} for "{dim}", which the model calls one'
                raise UsageError("E10050", what, where=Where(option="dynamic_dims", value=name))
        data.output.desc = TensorDesc.plain(desc.dtype, shapes[name])
    return copy


def _optimized(graph: Graph, manager: PassManager, gear: int) -> Graph:
    """Take a gear's graph through the stages before compile."""
    prepare(graph, manager)
    if not is_known(graph):
        raise _not_known(graph)
    whole = optimize(split(graph, manager), manager)
    add_suffix(whole, gear)
    return whole


def _not_known(graph: Graph) -> Unsupported:
    """The error for a graph that is no single plan though the shapes of its inputs are known."""
    open_values = (value for node in graph.nodes for value in node.outputs if not value.desc.is_static)
    first = next(open_values, None)
    why = "it has control flow, sequences or text"
    if first is not None:
        why = f'"{first.name}" {format_shape(first.desc.shape)} depends on values'
    hint = "convert without gears: such a package takes any shape"
    where = None if first is None else first.producer.where
    return Unsupported("E10055", f"gears of this model are not supported: {why}", where=where, hint=hint)


def _gear(graph: Graph, gears: Gears, number: int, model: CompiledModel) -> Gear:
    """The record of a compiled gear; its sizes are in the order of the model's inputs."""
    inputs = tuple(port.desc.static_shape for port in model.inputs)
    sizes = gears.rows[number]
    if gears.kind is GearKind.DIMS:
        pairs = zip((node.output.desc.shape or () for node in graph.inputs), inputs, strict=True)
        sizes = tuple(
            size for dims, shape in pairs for dim, size in zip(dims, shape, strict=True) if isinstance(dim, Sym)
        )
    outputs = tuple(port.desc.static_shape for port in model.outputs)
    return Gear(sizes, inputs, outputs, len(model.tasks), model.memory.arena_bytes)

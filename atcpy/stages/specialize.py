"""Compiling a graph at run time, for the shapes that it meets: the stages from prepare to compile once more."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy import __version__
from atcpy.ir import CompiledModel, Graph, Source, Tensor, TensorDesc
from atcpy.ir.clone import clone
from atcpy.ir.specialization import Specialization
from atcpy.ir.tensor import Array
from atcpy.options import ConvertOptions
from atcpy.passes.compile.emit_tasks import Identity
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.split.known_shapes import cut_known
from atcpy.stages.compile import compile_graph
from atcpy.stages.optimize import optimize
from atcpy.stages.prepare import prepare
from atcpy.stages.split import split

_NO_SOURCE = Source("", "onnx", (), "")


def specialize(graph: Graph, inputs: Sequence[TensorDesc | Array], options: ConvertOptions) -> Specialization:
    """The graph compiled for inputs of these types; an array is an input whose elements are constant.

    Raises ModelInvalid if the shapes do not fit, as the same model with these shapes would.
    """
    manager = PassManager(options, deadline=options.limits.deadline())
    copy = clone(graph)
    for data, source in zip(copy.inputs, inputs, strict=True):
        if isinstance(source, TensorDesc):
            data.output.desc = source
        else:
            const = copy.add_const(Tensor.of(source.copy()), data.output.name)
            copy.replace_uses(data.output, const)
    prepare(copy, manager)
    cut = cut_known(copy)
    known = None if cut.known is None else _compile(cut.known, manager)
    return Specialization(known, cut.counted, cut.eager, cut.constants, cut.outputs, cut.rest)


def _compile(graph: Graph, manager: PassManager) -> CompiledModel:
    whole = optimize(split(graph, manager), manager)
    return compile_graph(whole, Identity(manager.options.soc, "", _NO_SOURCE, __version__), manager)

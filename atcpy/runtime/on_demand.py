"""The compiler as a session finds it: imported when a graph is met that no plan of the package serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from atcpy.errors import Unsupported, Where
from atcpy.ir.shape import format_shape

if TYPE_CHECKING:
    from atcpy.ir import CompiledModel, Graph, TensorDesc
    from atcpy.ir.specialization import Specialization, Specialize
    from atcpy.ir.tensor import Array
    from atcpy.runtime.plan import ExecutionPlan

Bind: TypeAlias = "Callable[[CompiledModel], ExecutionPlan]"
# Imports the compiler, with the options that a package records. Raises ImportError where it is not installed.
FindCompiler: TypeAlias = "Callable[[str], Specialize]"


@dataclass(slots=True)
class ShapeCache:
    """What all graphs of a session share: how graphs are compiled, how many variants of each are kept, and how often
    one was found.
    """

    specialize: Specialize
    bind: Bind
    size: int
    hits: int = 0
    misses: int = 0
    lock: Lock = field(default_factory=Lock)


def compile_on_demand(find: FindCompiler | None, find_cmdline: Callable[[], str]) -> Specialize:
    """Return a function that compiles with the recorded options; it calls both functions when it is first needed.

    It raises Unsupported (E10055) where the compiler is not installed.
    """

    @cache
    def compiler() -> Specialize:
        if find is None:
            raise ImportError("this process has no compiler")
        return find(find_cmdline())

    def specialize(graph: Graph, types: Sequence[TensorDesc | Array]) -> Specialization:
        try:
            run = compiler()
        except ImportError as error:
            raise _not_installed(graph, types, error) from error
        return run(graph, types)

    return specialize


def _not_installed(graph: Graph, types: Sequence[TensorDesc | Array], error: ImportError) -> Unsupported:
    met = ", ".join(
        f"{data.output.name} {format_shape(kind.shape)}" for data, kind in zip(graph.inputs, types, strict=True)
    )
    named = ", ".join(
        f"{data.output.name} {_declared(data.output.desc, data.attrs.get('shape_range'))}" for data in graph.inputs
    )
    return Unsupported(
        "E10055",
        f"run: no plan of the package serves {met}, and the compiler that would make one is not installed: {error}",
        where=Where(graph=graph.name),
        hint=f"the model takes {named}: install atcpy, or convert the model for these sizes with --input_shape",
    )


def _declared(desc: TensorDesc, ranges: object) -> str:
    """The shape of an input as the package declares it, an open dim with its range."""
    if desc.shape is None or not isinstance(ranges, tuple):
        return format_shape(desc.shape)
    pairs = zip(desc.shape, ranges[::2], ranges[1::2], strict=True)
    return "[" + ",".join(_dim(str(dim), low, high) for dim, low, high in pairs) + "]"


def _dim(dim: str, low: int, high: int) -> str:
    if low == high:
        return dim
    return f"{dim}: {low} and more" if high < 0 else f"{dim}: {low} to {high}"

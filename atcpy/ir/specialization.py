"""A graph compiled for the types that its inputs have in one run: what the runtime asks the stages for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from atcpy.ir.compiled import CompiledModel
from atcpy.ir.desc import TensorDesc
from atcpy.ir.graph import Graph
from atcpy.ir.node import Node
from atcpy.ir.shape import Shape
from atcpy.ir.tensor import Array, Tensor


@dataclass(frozen=True, slots=True)
class Rest:
    """What can be compiled only when earlier steps have run. `by_value` names the inputs whose elements,
    not only their shapes, decide the shapes in it; `outputs` are the indices of its outputs among the
    graph's.
    """

    graph: Graph
    by_value: frozenset[str]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """A result whose size depends on data and whose memory is planned for its maximum: its shape, with a symbol for
    that size, and the name of the output that holds the size.
    """

    shape: Shape
    count: str


@dataclass(frozen=True, slots=True)
class Specialization:
    """The steps of one run, values going by their names.

    known: everything whose shapes follow from the inputs' types, as one plan; None if that is nothing.
    counted: the outputs of `known` that are to be cut to the size that they turned out to have, by name.
    eager: the nodes to run after it one by one: control flow, sequences and texts, results whose size
        depends on data.
    constants: constants that eager nodes or outputs are.
    outputs: index and name of the graph's outputs that are there when these have run.
    rest: everything else, to be compiled for what came out; None if nothing is left.
    """

    known: CompiledModel | None
    counted: Mapping[str, Counted]
    eager: tuple[Node, ...]
    constants: Mapping[str, Tensor]
    outputs: tuple[tuple[int, str], ...]
    rest: Rest | None


# Compiles a graph for the types of its inputs, in order; an array stands where the input's elements
# are to be taken for constant.
Specialize = Callable[[Graph, Sequence[TensorDesc | Array]], Specialization]

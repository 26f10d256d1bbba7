"""Checks that each value has the type that its node gives: what a pass must leave as it found it."""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_

from atcpy.errors import ModelInvalid, ResourceLimit, Unsupported
from atcpy.ir import DType, Graph, Node, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ir.symbolic import is_symbolic
from atcpy.ops.core.infer import KnownValues, infer_node


class TypeCheck:
    """What is wrong with the types of a graph that passes change. Inference runs again where one did: most change
    nothing.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._parts = _parts(graph)
        self._problems = {*type_violations(graph)}

    def new_problems(self) -> list[str]:
        """Return what is wrong now and was not when this was asked last."""
        parts = _parts(self._graph)
        if len(parts) == len(self._parts) and all(map(is_, parts, self._parts)):
            return []
        found = list(type_violations(self._graph))
        new = [problem for problem in found if problem not in self._problems]
        self._parts, self._problems = parts, {*found}
        return new


def _parts(graph: Graph) -> list[object]:
    """All objects from which types are inferred, none of which changes itself, and the types."""
    parts: list[object] = []
    for node in graph.nodes:
        parts += (node, node.op_type, node.domain, *node.inputs, *node.attrs, *node.attrs.values())
        parts += [value.desc for value in node.outputs]
    return parts


def type_violations(graph: Graph) -> Iterator[str]:
    """Infer each node from its inputs again, and say where that is refused or gives another type. Symbols may differ,
    and so may sizes that depend on some: inference knows less than the pass that named a size.
    """
    known = KnownValues()
    for node in graph.nodes:
        if not node.is_structural and not node.has_subgraphs:
            yield from _violations(node, known)


def _violations(node: Node, known: KnownValues) -> Iterator[str]:
    declared = [value.desc for value in node.outputs]
    try:
        infer_node(node, known)
    except ModelInvalid as error:
        yield f"{node.op_type} {node.name}: {error.what}"
    except (ResourceLimit, Unsupported):
        pass
    for value, desc in zip(node.outputs, declared, strict=True):
        inferred, value.desc = value.desc, desc
        if not _agree(desc, inferred):
            yield f"{node.op_type} {node.name} gives {inferred} for {value.name}, which is {desc}"


def _agree(a: TensorDesc, b: TensorDesc) -> bool:
    if DType.UNDEFINED in (a.dtype, b.dtype):
        return True
    if a.dtype is not b.dtype:
        return False
    if a.shape is None or b.shape is None:
        return True
    return len(a.shape) == len(b.shape) and all(
        one == other for one, other in zip(a.shape, b.shape, strict=True) if _is_number(one) and _is_number(other)
    )


def _is_number(size: Dim) -> bool:
    return isinstance(size, int) and not is_symbolic(size)

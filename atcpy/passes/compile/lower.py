"""Kernel choice: each node becomes the launches that its op's record says. Views and borders become nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from atcpy.errors import InternalError
from atcpy.ir import Engine, Graph, Node
from atcpy.kernels.record import HOST_FAMILY
from atcpy.ops import KernelCall, find_opdef, is_view


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel call and its node. `run` restricts a copy to one contiguous range: first byte read, first byte
    written, number of bytes.
    """

    node: Node
    call: KernelCall
    run: tuple[int, int, int] | None = None


def lower(graph: Graph) -> list[Launch]:
    """Return the launches of a graph in order."""
    launches: list[Launch] = []
    for node in graph.nodes:
        if node.is_structural or is_view(node):
            continue
        if node.engine in (Engine.HOST_CPU, Engine.HCCL):
            launches.append(Launch(node, KernelCall(HOST_FAMILY, node.inputs, tuple(node.outputs), {})))
            continue
        launches.extend(Launch(node, call) for call in _calls(node))
    return launches


def _calls(node: Node) -> Iterable[KernelCall]:
    opdef = find_opdef(node)
    if opdef is not None and opdef.lower is not None:
        return opdef.lower(node)
    if opdef is not None and opdef.bound is not None:
        return opdef.bound.lower(node, node.outputs[-1])  # the element count, an output that `cut_known` added
    raise InternalError(f"{node.op_type} {node.name} is placed on {node.engine}, but has no kernel")

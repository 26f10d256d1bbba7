"""Kernel choice: each node becomes the launches that its op's record says, its constants stored in
the formats that the kernels want. Views and borders become nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from atcpy.errors import InternalError
from atcpy.formats import find_format
from atcpy.ir import Engine, Format, Graph, Node, Value
from atcpy.kernels.table import HOST_FAMILY
from atcpy.ops import KernelCall, find_opdef, is_view


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel call and the node that it belongs to. With a `run` it is a copy of one run of bytes, to which its
    operands are narrowed: the first one read, the first one written, how many.
    """

    node: Node
    call: KernelCall
    run: tuple[int, int, int] | None = None


def lower(graph: Graph) -> list[Launch]:
    """The launches of a graph in order."""
    launches: list[Launch] = []
    for node in graph.nodes:
        if node.op_type in {"Data", "Const", "NetOutput"} or is_view(node):
            continue
        if node.engine in (Engine.HOST_CPU, Engine.HCCL):
            launches.append(Launch(node, KernelCall(HOST_FAMILY, node.inputs, tuple(node.outputs), {})))
            continue
        for call in _calls(node):
            launches.append(Launch(node, _with_formats(graph, node, call)))
    return launches


def _calls(node: Node) -> Iterable[KernelCall]:
    opdef = find_opdef(node)
    if opdef is not None and opdef.lower is not None:
        return opdef.lower(node)
    if opdef is not None and opdef.bound is not None:
        return opdef.bound.lower(node, node.outputs[-1])  # the count, which the cut at known shapes added
    raise InternalError(f"{node.op_type} {node.name} is placed on {node.engine}, but has no kernel")


def _with_formats(graph: Graph, node: Node, call: KernelCall) -> KernelCall:
    src = list(call.src)
    for index, form in call.const_formats.items():
        value = src[index]
        if value is not None and value.desc.format != form:
            src[index] = _constant_in_format(graph, node, value, form)
    return KernelCall(call.family, tuple(src), call.dst, call.params)


def _constant_in_format(graph: Graph, node: Node, value: Value, form: Format) -> Value:
    tensor = value.tensor
    assert tensor is not None, f"{value.name} is not constant and cannot be stored as {form}"
    if value.use_count > 1:
        copy = graph.add_const(tensor, value.name, before=node)
        copy.producer.sources, copy.producer.passes = value.producer.sources, value.producer.passes
        copy.desc = value.desc
        for place, operand in enumerate(node.inputs):
            if operand is value:
                graph.set_input(node, place, copy)
        value = copy
    value.desc = value.desc.stored_as(form, find_format(form).storage_shape(value.desc.static_shape))
    return value

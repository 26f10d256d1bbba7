"""Kernel choice: each node becomes the launches that its op's record says. Views and borders become nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import NamedTuple

from atcpy.errors import InternalError
from atcpy.ir import Engine, Node, Value
from atcpy.ir.symbolic import same, same_shape
from atcpy.kernels.record import HOST_FAMILY
from atcpy.ops import KernelCall, find_opdef, is_view, makes_nothing
from atcpy.ops.core.opdef import ParamValue


class Border(Enum):
    """The end of launches that an If or a Loop runs, of its then_branch, or of its last body; or of a section."""

    ELSE = "else"
    END = "end"


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel call and its node. `run` restricts a copy to one contiguous range: first byte read, first byte
    written, number of bytes. A `border` launches nothing; the sources of its call live at least until there. `stream`
    is that within a section.
    """

    node: Node
    call: KernelCall
    run: tuple[int, int, int] | None = None
    border: Border | None = None
    stream: int = 0

    @property
    def is_collective(self) -> bool:
        """Whether ranks meet here."""
        return self.node.engine is Engine.HCCL


def lower_node(node: Node) -> Iterator[Launch]:
    """Yield the launches of a node without bodies."""
    if node.is_structural or is_view(node) or makes_nothing(node):
        return
    if node.engine in (Engine.HOST_CPU, Engine.HCCL):
        yield Launch(node, KernelCall(HOST_FAMILY, node.inputs, tuple(node.outputs), {}))
        return
    for call in _calls(node):
        yield Launch(node, call)


def _calls(node: Node) -> Iterable[KernelCall]:
    opdef = find_opdef(node)
    if opdef is not None and opdef.lower is not None:
        return opdef.lower(node)
    if opdef is not None and opdef.bound is not None:
        return opdef.bound.lower(node, node.outputs[-1])  # the element count, an output that `cut_known` added
    raise InternalError(f"{node.op_type} {node.name} is placed on {node.engine}, but has no kernel")


def overwritten(launch: Launch, value: Value) -> Iterator[Value]:
    """Yield the inputs over which the kernel may write its only result `value`, if nobody reads them later and no other
    operand has their memory.
    """
    opdef = find_opdef(launch.node)
    if opdef is None or len(launch.call.dst) != 1 or launch.node.outputs != [value]:
        return
    for index in opdef.inplace:
        source = launch.node.input(index)
        if (
            source is not None
            and same_shape(source.desc.memory_shape, value.desc.memory_shape)
            and source.desc.dtype.bits == value.desc.dtype.bits
        ):
            yield source


class Run(NamedTuple):
    """A contiguous copy: its first byte in each operand, and the number of bytes."""

    read: int
    written: int
    nbytes: int


def run_of(launch: Launch) -> Run | None:
    """Return the range that a copy or a fill writes, if it is contiguous."""
    call, params = launch.call, launch.call.params
    if launch.run is not None:
        return Run(*launch.run)
    if call.family != "strided_copy":
        return None
    read, written = ints_param(params, "src_strides"), ints_param(params, "dst_strides")
    if len(written) > 1 or any(stride != 1 for stride in (*(read if call.src else ()), *written)):
        return None
    item, offsets = _int_param(params, "item"), (_int_param(params, "src_offset"), _int_param(params, "dst_offset"))
    return Run(offsets[0] * item, offsets[1] * item, prod(ints_param(params, "dims")) * item)


def copies_whole(launch: Launch) -> bool:
    """Return whether a launch copies its source to its result as it is."""
    run = run_of(launch)
    if run is None or len(launch.call.src) != 1 or launch.call.src[0] is None:
        return False
    sizes = launch.call.src[0].desc.nbytes, launch.call.dst[0].desc.nbytes
    return same(run.read, 0) and same(run.written, 0) and all(same(size, run.nbytes) for size in sizes)


def _int_param(params: Mapping[str, ParamValue], name: str) -> int:
    value = params.get(name, 0)
    assert isinstance(value, int)
    return value


def ints_param(params: Mapping[str, ParamValue], name: str) -> Sequence[int]:
    """Return an argument that is a list of numbers."""
    value = params.get(name, ())
    assert isinstance(value, tuple | list)
    return value

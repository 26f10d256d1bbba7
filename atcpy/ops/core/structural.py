"""GE's structural ops: graph inputs, constants, outputs, borders, format changes and the start of streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.ir import Engine, Node, TensorDesc
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, Trait, always, register_operator
from atcpy.ops.core.strided import copy_bytes


def keep_desc(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Types were set when the node was created."""
    return [value.desc for value in node.outputs]


def same_as_input(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The output is of the input's type."""
    return [node.operand(0).desc.as_plain()]


def lower_transdata(node: Node) -> Iterable[KernelCall]:
    """One call that changes between plain [N, C, S…] and blocked [N, C1, S…, C0]."""
    src, dst = node.operand(0), node.output
    n, c, *spatial = src.desc.static_shape
    pixels = 1
    for dim in spatial:
        pixels *= dim
    blocked = dst if dst.desc.storage_shape is not None else src
    yield KernelCall(
        "transdata",
        (src,),
        (dst,),
        {
            "n": n,
            "c": c,
            "hw": pixels,
            "c0": blocked.desc.format.c0,
            "to_blocked": int(blocked is dst),
            "item": src.desc.dtype.bits // 8,
        },
    )


def lower_tensor_move(node: Node) -> Iterable[KernelCall]:
    """A copy, for an output that is an input, a constant or another output as well."""
    yield copy_bytes(node.operand(0), node.output)


for _name in ("Data", "Const", "NetOutput", "PlaceHolder", "End", "StreamActive"):
    register_operator(OpDef(name=_name, infer=keep_desc, engines={Engine.GE_LOCAL: always}))
for _name, _lower in (("TransData", lower_transdata), ("TensorMove", lower_tensor_move)):
    register_operator(OpDef(name=_name, infer=same_as_input, engines={Engine.VECTOR: always}, lower=_lower))
register_operator(OpDef(name="ReFormat", infer=same_as_input, engines={Engine.GE_LOCAL: always}, traits=Trait.VIEW))

"""Collectives: those of ONNX Runtime, which always mean all ranks, and those of GE in domains of their own."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.ops.collectives import ATTRS, WORLD, infer_broadcast
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib

DOMAINS = ("ge", "hccl")  # where models have the ops of GE, beside the standard's own domain


@contrib("AllReduce", "input", infer=infer_broadcast)
def all_reduce(e: Expansion) -> Value:
    """HcomAllReduce, the sum over all ranks."""
    return e.op("HcomAllReduce", e.operand("input"), group=WORLD, reduction="sum", kind="AllReduce")


@contrib("AllGather", "input", "group_size:i! axis:i")
def all_gather(e: Expansion) -> Value:
    """HcomAllGather along the outermost dim."""
    if e.node.int_attr("axis", 0):
        raise e.unsupported("gathering along another dim than the outermost", "Transpose before and behind it")
    return e.op("HcomAllGather", e.operand("input"), group=WORLD, rank_size=e.node.int_attr("group_size", 1))


def _hcom(e: Expansion) -> Value:
    """As GE has it."""
    return e.op(e.node.op_type, e.operand("x"), **e.node.attrs)


for _name, _attrs in ATTRS.items():
    for _domain in DOMAINS:
        contrib(_name, "x", _attrs, domain=_domain)(_hcom)

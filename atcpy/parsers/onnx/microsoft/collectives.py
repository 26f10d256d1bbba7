"""Collectives: those of ONNX Runtime, which always mean all ranks, and those of GE, under their own names."""

from __future__ import annotations

from atcpy.ops.collectives import REDUCTIONS, WORLD
from atcpy.parsers.onnx.microsoft.expansion import Expansion
from atcpy.parsers.onnx.microsoft.table import STANDARD, microsoft

DOMAINS = (STANDARD, "ge", "hccl")  # where models have the ops of GE


@microsoft("AllReduce", "input")
def all_reduce(e: Expansion) -> None:
    """HcomAllReduce, the sum over all ranks."""
    e.finish(e.op("HcomAllReduce", e.operand("input"), group=WORLD, reduction="sum", kind="AllReduce"))


@microsoft("AllGather", "input", "group_size:i! axis:i")
def all_gather(e: Expansion) -> None:
    """HcomAllGather along the outermost dim."""
    if e.node.int_attr("axis", 0):
        raise e.unsupported("gathering along another dim than the outermost", "Transpose before and behind it")
    e.finish(e.op("HcomAllGather", e.operand("input"), group=WORLD, rank_size=e.node.int_attr("group_size", 1)))


def _hcom(e: Expansion) -> None:
    """As GE has it."""
    reduction = e.node.str_attr("reduction", "sum")
    if reduction not in REDUCTIONS:
        raise e.invalid(f'reduction is "{reduction}", {", ".join(sorted(REDUCTIONS))} are possible')
    attrs = {"group": WORLD, **e.node.attrs}
    e.finish(e.op(e.node.op_type, e.operand("x"), **attrs))


for _domain in DOMAINS:
    microsoft("HcomAllReduce", "x", "reduction:s! group:s fusion:i fusion_id:i", domain=_domain)(_hcom)
    microsoft("HcomBroadcast", "x", "root_rank:i! group:s fusion:i fusion_id:i", domain=_domain)(_hcom)
    microsoft("HcomAllGather", "x", "rank_size:i! group:s", domain=_domain)(_hcom)
    microsoft("HcomReduceScatter", "x", "reduction:s! rank_size:i! group:s", domain=_domain)(_hcom)

"""Collectives, under the names that GE, Horovod and TensorFlow give them.

Keys and shared names tell partners apart in one process; here every rank runs the same graph, so that the order of the
nodes does.
"""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.ops.collectives import REDUCTIONS, WORLD
from atcpy.parsers.tensorflow.op import Op, maps

_HOROVOD = ("mean", "sum", "", "min", "max", "prod")  # by number; 2 is adasum
_MERGED = {"Add": "sum", "Mul": "prod", "Min": "min", "Max": "max"}


def _all_reduce(op: Op, reduction: str, **attrs: object) -> Value:
    if reduction not in REDUCTIONS:
        raise op.refuse(f'the reduction "{reduction}"', "sum, mean, prod, max and min are possible")
    given = {"group": WORLD, "kind": op.node.op, **attrs}
    return op.add("HcomAllReduce", op.input(0), reduction=reduction, **given)


def _given(op: Op, *names: str) -> dict[str, object]:
    """The attributes that the node has, texts as texts."""
    values = {name: op.attr(name) for name in names}
    return {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in values.items()
        if value is not None
    }


@maps("HcomAllReduce")
def hcom_all_reduce(op: Op) -> Value:
    """HcomAllReduce"""
    return _all_reduce(op, op.text_attr("reduction"), **_given(op, "group", "fusion", "fusion_id"))


@maps("HorovodAllreduce")
def horovod_all_reduce(op: Op) -> Value:
    """HcomAllReduce; adasum is refused"""
    number = op.int_attr("reduce_op") if op.attr("reduce_op") is not None else 1
    scales = {"prescale": op.attr("prescale_factor"), "postscale": op.attr("postscale_factor")}
    given = {name: scale for name, scale in scales.items() if scale is not None}
    known = 0 <= number < len(_HOROVOD) and _HOROVOD[number]
    return _all_reduce(op, known or ("adasum" if number == 2 else str(number)), **given)


@maps("CollectiveReduceV2", "CollectiveReduceV3", "CollectiveReduce")
def collective_reduce(op: Op) -> Value:
    """HcomAllReduce by `merge_op`; Add with the final Div is the mean"""
    merge = op.text_attr("reduction" if op.node.op == "CollectiveReduceV3" else "merge_op")
    reduction = _MERGED.get(merge, merge)
    if op.node.op != "CollectiveReduceV3" and op.text_attr("final_op") == "Div":
        if reduction != "sum":
            raise op.refuse(f"{merge} and a Div behind it")
        reduction = "mean"
    return _all_reduce(op, reduction)


@maps("NcclAllReduce")
def nccl_all_reduce(op: Op) -> Value:
    """HcomAllReduce"""
    return _all_reduce(op, op.text_attr("reduction"))


@maps("HcomBroadcast", "HorovodBroadcast")
def broadcast(op: Op) -> Value:
    """HcomBroadcast"""
    root = op.int_attr("root_rank")
    return op.add("HcomBroadcast", op.input(0), root_rank=root, **{"group": WORLD, **_given(op, "group")})


@maps("HcomAllGather", "HcomReduceScatter")
def shared_out(op: Op) -> Value:
    """The same of GE"""
    attrs = {"group": WORLD, "rank_size": op.int_attr("rank_size"), **_given(op, "group", "reduction")}
    return op.add(op.node.op, op.input(0), **attrs)

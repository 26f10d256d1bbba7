"""Collectives, under the names that GE, Horovod and TensorFlow give them.

Every rank runs the same graph, so that the order of its nodes tells partners: instance keys and shared names are not
needed for that. Who takes part, TensorFlow says by a group's key, which becomes the group `tf_group_KEY`, and its size,
which the run compares; Horovod by the number of a process set.
"""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Value
from atcpy.ops.collectives import REDUCTIONS, WORLD
from atcpy.parsers.tensorflow.op import OpBuilder, maps, refused

_HOROVOD = ("mean", "sum", "", "min", "max", "prod")  # by number; 2 is adasum
_MERGED = {"Add": "sum", "Mul": "prod", "Min": "min", "Max": "max"}
_KEYS = ("group_size", "group_key", "instance_key")


def _all_reduce(b: OpBuilder, values: Sequence[Value], reduction: str, **attrs: object) -> list[Value]:
    attrs = {"reduction": _checked(b, reduction), "kind": b.node.op, **attrs}
    return [b.op("HcomAllReduce", value, **attrs) for value in values]


def _checked(b: OpBuilder, reduction: str) -> str:
    if reduction not in REDUCTIONS:
        raise b.unsupported(f'the reduction "{reduction}"', "sum, mean, prod, max and min are possible")
    return reduction


def _given(b: OpBuilder, *names: str) -> dict[str, object]:
    """The attributes that the node has, texts as texts."""
    values = {name: value for name in names if (value := b.attr(name)) is not None}
    return {name: b.text_attr(name) if isinstance(value, bytes) else value for name, value in values.items()}


def _check_partners(b: OpBuilder, *keys: object) -> None:
    """E10055 for partners of one process: here they are other ranks, each of which runs the whole graph."""
    device = b.node.proto.device if b.node.proto is not None else ""
    first = b.bodies.devices.setdefault((b.node.op, *keys), device) if device else ""
    if first != device:
        hint = "export the graph of one device: each rank runs all of it"
        raise b.unsupported(f'partners in one graph, on "{first}" and "{device}"', hint)


# --- GE ----------------------------------------------------------------------------------------------------------


@maps("HcomAllReduce")
def hcom_all_reduce(b: OpBuilder) -> Value:
    """HcomAllReduce"""
    attrs = {"group": WORLD, **_given(b, "group", "fusion", "fusion_id")}
    return _all_reduce(b, [b.input(0)], b.text_attr("reduction"), **attrs)[0]


@maps("HcomBroadcast")
def hcom_broadcast(b: OpBuilder) -> Value:
    """HcomBroadcast"""
    root = b.int_attr("root_rank")
    return b.op("HcomBroadcast", b.input(0), root_rank=root, **{"group": WORLD, **_given(b, "group")})


@maps("HcomAllGather", "HcomReduceScatter")
def shared_out(b: OpBuilder) -> Value:
    """The same of GE"""
    attrs = {"group": WORLD, "rank_size": b.int_attr("rank_size"), **_given(b, "group", "reduction")}
    return b.op(b.node.op, b.input(0), **attrs)


# --- Horovod -----------------------------------------------------------------------------------------------------


@maps("HorovodAllreduce", "HorovodGroupedAllreduce")
def horovod_all_reduce(b: OpBuilder) -> list[Value]:
    """HcomAllReduce of each input; adasum is refused; the process set N is the group `process_set_N`"""
    number = b.int_attr("reduce_op") if b.attr("reduce_op") is not None else 1
    scales = {"prescale": b.attr("prescale_factor"), "postscale": b.attr("postscale_factor")}
    factors = {name: scale for name, scale in scales.items() if scale is not None}
    known = 0 <= number < len(_HOROVOD) and _HOROVOD[number]
    reduction = known or ("adasum" if number == 2 else str(number))
    return _all_reduce(b, [b.input(0), *b.inputs[1:]], reduction, group=_process_set(b), **factors)


@maps("HorovodBroadcast")
def horovod_broadcast(b: OpBuilder) -> Value:
    """HcomBroadcast, by all ranks"""
    group = _process_set(b)
    if group != WORLD:  # whose root is numbered among all ranks
        raise b.unsupported(f"a broadcast in the {group}")
    return b.op("HcomBroadcast", b.input(0), root_rank=b.int_attr("root_rank"), group=group)


def _process_set(b: OpBuilder) -> str:
    number = b.int_attr("process_set_id") if b.attr("process_set_id") is not None else 0
    return f"process_set_{number}" if number else WORLD


# --- TensorFlow --------------------------------------------------------------------------------------------------


@maps("CollectiveReduceV2", "CollectiveReduce")
def collective_reduce(b: OpBuilder) -> Value:
    """HcomAllReduce by `merge_op`; Add with the final Div is the mean; the group key K is the group `tf_group_K`"""
    return _all_reduce(b, [b.input(0)], _merge(b), **_members(b))[0]


@maps("CollectiveReduceScatterV2")
def collective_reduce_scatter(b: OpBuilder) -> Value:
    """HcomReduceScatter, as CollectiveReduceV2"""
    return b.op("HcomReduceScatter", b.input(0), reduction=_checked(b, _merge(b)), **_members(b))


@maps("CollectiveGatherV2", "CollectiveGather")
def collective_gather(b: OpBuilder) -> Value:
    """HcomAllGather; groups as in CollectiveReduceV2"""
    return b.op("HcomAllGather", b.input(0), **_members(b))


maps(
    "CollectiveBcastSend", "CollectiveBcastSendV2", "CollectiveBcastRecv", "CollectiveBcastRecvV2",
    note="Refused: the ranks would run different graphs",
)(refused("a broadcast whose ranks run different graphs", "HcomBroadcast is the same on all of them"))  # fmt: skip


@maps("NcclAllReduce")
def nccl_all_reduce(b: OpBuilder) -> Value:
    """HcomAllReduce by all ranks, each of which is one of the `num_devices`"""
    _check_partners(b, *_given(b, "shared_name").values())
    attrs = {"group": WORLD, "rank_size": b.int_attr("num_devices")}
    return _all_reduce(b, [b.input(0)], b.text_attr("reduction"), **attrs)[0]


def _merge(b: OpBuilder) -> str:
    merge, final = b.text_attr("merge_op"), b.text_attr("final_op")
    reduction = _MERGED.get(merge, merge)
    if final == "Id":
        return reduction
    if final != "Div":
        raise b.invalid(f'final_op is "{final}", Id and Div are possible')
    if reduction != "sum":
        raise b.unsupported(f"{merge} and a Div behind it")
    return "mean"


def _members(b: OpBuilder) -> dict[str, object]:
    """The group and how many ranks it has: inputs of the ops of the second version, attributes of the first."""
    if b.node.op.endswith("V2"):
        size, key, instance = (b.number(index, name) for index, name in enumerate(_KEYS, start=1))
    else:
        size, key, instance = (b.int_attr(name) for name in _KEYS)
    if size < 1:
        raise b.invalid(f"group_size is {size}")
    _check_partners(b, key, instance)
    return {"group": f"tf_group_{key}", "rank_size": size}

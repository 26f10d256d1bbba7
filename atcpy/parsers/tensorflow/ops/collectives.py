"""Collectives, under the names that GE, Horovod and TensorFlow give them.

Every rank runs the same graph, so that the order of its nodes tells partners: instance keys and shared names are not
needed for that. Who takes part, TensorFlow says by a group's key, which becomes the group `tf_group_KEY`, and its size,
which the run compares; Horovod by the number of a process set.
"""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import Value
from atcpy.ops.collectives import REDUCTIONS, WORLD
from atcpy.parsers.tensorflow.op import Op, maps

_HOROVOD = ("mean", "sum", "", "min", "max", "prod")  # by number; 2 is adasum
_MERGED = {"Add": "sum", "Mul": "prod", "Min": "min", "Max": "max"}
_KEYS = ("group_size", "group_key", "instance_key")


def _all_reduce(op: Op, values: Sequence[Value], reduction: str, **attrs: object) -> list[Value]:
    attrs = {"reduction": _checked(op, reduction), "kind": op.node.op, **attrs}
    return [op.add("HcomAllReduce", value, **attrs) for value in values]


def _checked(op: Op, reduction: str) -> str:
    if reduction not in REDUCTIONS:
        raise op.refuse(f'the reduction "{reduction}"', "sum, mean, prod, max and min are possible")
    return reduction


def _given(op: Op, *names: str) -> dict[str, object]:
    """The attributes that the node has, texts as texts."""
    values = {name: op.attr(name) for name in names}
    return {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in values.items()
        if value is not None
    }


def _check_partners(op: Op, *keys: object) -> None:
    """E10055 for partners of one process: here they are other ranks, each of which runs the whole graph."""
    device = op.node.proto.device if op.node.proto is not None else ""
    first = op.bodies.devices.setdefault((op.node.op, *keys), device) if device else ""
    if first != device:
        hint = "export the graph of one device: each rank runs all of it"
        raise op.refuse(f'partners in one graph, on "{first}" and "{device}"', hint)


# --- GE ----------------------------------------------------------------------------------------------------------


@maps("HcomAllReduce")
def hcom_all_reduce(op: Op) -> Value:
    """HcomAllReduce"""
    attrs = {"group": WORLD, **_given(op, "group", "fusion", "fusion_id")}
    return _all_reduce(op, [op.input(0)], op.text_attr("reduction"), **attrs)[0]


@maps("HcomBroadcast")
def hcom_broadcast(op: Op) -> Value:
    """HcomBroadcast"""
    root = op.int_attr("root_rank")
    return op.add("HcomBroadcast", op.input(0), root_rank=root, **{"group": WORLD, **_given(op, "group")})


@maps("HcomAllGather", "HcomReduceScatter")
def shared_out(op: Op) -> Value:
    """The same of GE"""
    attrs = {"group": WORLD, "rank_size": op.int_attr("rank_size"), **_given(op, "group", "reduction")}
    return op.add(op.node.op, op.input(0), **attrs)


# --- Horovod -----------------------------------------------------------------------------------------------------


@maps("HorovodAllreduce", "HorovodGroupedAllreduce")
def horovod_all_reduce(op: Op) -> list[Value]:
    """HcomAllReduce of each input; adasum is refused; the process set N is the group `process_set_N`"""
    number = op.int_attr("reduce_op") if op.attr("reduce_op") is not None else 1
    scales = {"prescale": op.attr("prescale_factor"), "postscale": op.attr("postscale_factor")}
    given = {name: scale for name, scale in scales.items() if scale is not None}
    known = 0 <= number < len(_HOROVOD) and _HOROVOD[number]
    reduction = known or ("adasum" if number == 2 else str(number))
    return _all_reduce(op, [op.input(0), *op.inputs[1:]], reduction, group=_process_set(op), **given)


@maps("HorovodBroadcast")
def horovod_broadcast(op: Op) -> Value:
    """HcomBroadcast, by all ranks"""
    group = _process_set(op)
    if group != WORLD:  # whose root is told by its number among all
        raise op.refuse(f"a broadcast in the {group}")
    return op.add("HcomBroadcast", op.input(0), root_rank=op.int_attr("root_rank"), group=group)


def _process_set(op: Op) -> str:
    number = op.int_attr("process_set_id") if op.attr("process_set_id") is not None else 0
    return f"process_set_{number}" if number else WORLD


# --- TensorFlow --------------------------------------------------------------------------------------------------


@maps("CollectiveReduceV2", "CollectiveReduce")
def collective_reduce(op: Op) -> Value:
    """HcomAllReduce by `merge_op`; Add with the final Div is the mean; the group key K is the group `tf_group_K`"""
    return _all_reduce(op, [op.input(0)], _merge(op), **_members(op))[0]


@maps("CollectiveReduceScatterV2")
def collective_reduce_scatter(op: Op) -> Value:
    """HcomReduceScatter, as CollectiveReduceV2"""
    return op.add("HcomReduceScatter", op.input(0), reduction=_checked(op, _merge(op)), **_members(op))


@maps("CollectiveGatherV2", "CollectiveGather")
def collective_gather(op: Op) -> Value:
    """HcomAllGather; groups as in CollectiveReduceV2"""
    return op.add("HcomAllGather", op.input(0), **_members(op))


@maps("CollectiveBcastSend", "CollectiveBcastSendV2", "CollectiveBcastRecv", "CollectiveBcastRecvV2")
def collective_broadcast(op: Op) -> Value:
    """Refused: the ranks would run different graphs"""
    raise op.refuse("a broadcast whose ranks run different graphs", "HcomBroadcast is the same on all of them")


@maps("NcclAllReduce")
def nccl_all_reduce(op: Op) -> Value:
    """HcomAllReduce by all ranks, each of which is one of the `num_devices`"""
    _check_partners(op, *_given(op, "shared_name").values())
    attrs = {"group": WORLD, "rank_size": op.int_attr("num_devices")}
    return _all_reduce(op, [op.input(0)], op.text_attr("reduction"), **attrs)[0]


def _merge(op: Op) -> str:
    merge, final = op.text_attr("merge_op"), op.text_attr("final_op")
    reduction = _MERGED.get(merge, merge)
    if final == "Id":
        return reduction
    if final != "Div":
        raise ModelInvalid("E13014", f'final_op is "{final}", Id and Div are possible', where=op.where)
    if reduction != "sum":
        raise op.refuse(f"{merge} and a Div behind it")
    return "mean"


def _members(op: Op) -> dict[str, object]:
    """The group and how many ranks it has: inputs of the ops of the second version, attributes of the first."""
    if op.node.op.endswith("V2"):
        size, key, instance = (_scalar(op, index) for index in (1, 2, 3))
    else:
        size, key, instance = (op.int_attr(name) for name in _KEYS)
    if size < 1:
        raise ModelInvalid("E13014", f"group_size is {size}", where=op.where)
    _check_partners(op, key, instance)
    return {"group": f"tf_group_{key}", "rank_size": size}


def _scalar(op: Op, index: int) -> int:
    numbers = op.ints(index)
    if len(numbers) != 1:
        raise ModelInvalid("E13014", f"input {index}, {_KEYS[index - 1]}, has {len(numbers)} elements", where=op.where)
    return numbers[0]

"""Collectives: ops in which all ranks of a group take part. The runtime runs them, between tasks of C.

`group` names the ranks; all of them are `hccl_world_group`. Every rank must come to the same collectives in the same
order: passes keep that order a function of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, TensorDesc
from atcpy.ir.shape import Shape
from atcpy.ops.core.opdef import Known, OpDef, Trait, register_operator
from atcpy.ops.core.signature import Signature

WORLD = "hccl_world_group"
REDUCTIONS = frozenset({"sum", "mean", "prod", "max", "min"})
COLLECTIVES = frozenset({"HcomAllReduce", "HcomAllGather", "HcomBroadcast", "HcomReduceScatter"})
_NUMBERS = frozenset(dtype for dtype in DType if dtype.is_float or dtype.is_int) - {DType.INT4, DType.UINT4}


def _supports(node: Node) -> Iterable[Reject]:
    for value in node.operands:
        if not value.desc.is_static:
            yield Reject("shape-unknown", node.name, value.name)
        elif value.desc.dtype not in _NUMBERS or value.desc.dtype.bits < 8:
            yield Reject("dtype", node.name, value.desc.dtype.long)


def _check_reduction(node: Node) -> None:
    reduction = node.str_attr("reduction", "sum")
    if reduction not in REDUCTIONS:
        what = f'reduction is "{reduction}", {", ".join(sorted(REDUCTIONS))} are possible'
        raise ModelInvalid("E13014", what, where=node)


def infer_all_reduce(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Each output is of the type of the input of its number."""
    _check_reduction(node)
    if len(node.outputs) != node.input_count:
        raise ModelInvalid("E13014", f"{node.input_count} inputs, {len(node.outputs)} outputs", where=node)
    return [value.desc.as_plain() for value in node.operands]


def infer_broadcast(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Each output is of the type of the input of its number, on every rank."""
    return [value.desc.as_plain() for value in node.operands]


def infer_all_gather(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The outermost dim is that of all ranks together."""
    desc, ranks = node.operand(0).desc, _ranks(node)
    return [TensorDesc.plain(desc.dtype, _with_first(desc.shape, lambda size: size * ranks))]


def infer_reduce_scatter(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The outermost dim is shared out among the ranks."""
    _check_reduction(node)
    desc, ranks = node.operand(0).desc, _ranks(node)
    first = desc.shape[0] if desc.shape else None
    if isinstance(first, int) and first % ranks:
        raise ModelInvalid("EZ8888", f"{first} rows for {ranks} ranks", where=node)
    return [TensorDesc.plain(desc.dtype, _with_first(desc.shape, lambda size: size // ranks))]


def _ranks(node: Node) -> int:
    ranks = node.int_attr("rank_size", 0)
    if ranks < 1:
        raise ModelInvalid("E13014", f"rank_size is {ranks}", where=node)
    return ranks


def _with_first(shape: Shape | None, change: Callable[[int], int]) -> Shape | None:
    if not shape or not isinstance(shape[0], int):
        return None
    return (change(shape[0]), *shape[1:])


ATTRS = {
    "HcomAllReduce": "reduction:s! group:s fusion:i fusion_id:i",
    "HcomAllGather": "rank_size:i! group:s",
    "HcomBroadcast": "root_rank:i! group:s fusion:i fusion_id:i",
    "HcomReduceScatter": "reduction:s! rank_size:i! group:s",
}
for _name, _infer in (
    ("HcomAllReduce", infer_all_reduce),
    ("HcomAllGather", infer_all_gather),
    ("HcomBroadcast", infer_broadcast),
    ("HcomReduceScatter", infer_reduce_scatter),
):
    register_operator(
        OpDef(
            name=_name,
            signature=Signature.of("x", ATTRS[_name]),
            infer=_infer,
            engines={Engine.HCCL: _supports},
            traits=Trait.RANDOM,  # what other ranks bring, nobody knows: never folded, never merged
            inplace=(0,) if _name == "HcomAllReduce" else (),
        )
    )

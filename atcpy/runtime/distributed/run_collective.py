"""Running the collectives of a package."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.ops.collectives import WORLD
from atcpy.runtime.distributed.world import World


def group_of(node: Node, world: World) -> str:
    """The group of a collective. A group of unknown members that is as large as the world is the group of all ranks."""
    group = node.str_attr("group", WORLD)
    is_all = world.ranks in (1, node.int_attr("rank_size", 0)) and not world.knows(group)
    return WORLD if is_all else group


def run_collective(
    node: Node, arrays: Sequence[Array | None], results: Sequence[Array] | None, world: World
) -> Sequence[Array]:
    """Run a collective of known shapes into the arrays `results`, and return those. A rank outside the group gets its
    own input, or zeros if that has another shape.

    Raises ModelInvalid if the package was made for another number of ranks, ResourceLimit if others do not arrive.
    """
    assert results is not None
    group = group_of(node, world)
    with world.during(node):
        for array, result in zip(arrays, results, strict=True):
            assert array is not None
            if world.is_in(group):
                _run(node, array, result, group, world)
            elif array.shape == result.shape:
                _copy(array, result)
            else:
                result[...] = 0
    return results


def _run(node: Node, array: Array, result: Array, group: str, world: World) -> None:
    reduction = node.str_attr("reduction", "sum")
    match node.op_type:
        case "HcomAllReduce":
            _all_reduce(node, array, result, group, world)
        case "HcomBroadcast":
            root = node.int_attr("root_rank", 0)
            if not 0 <= root < world.size(group):
                raise ModelInvalid("D0001", f"root_rank is {root} of {world.size(group)} ranks", where=node)
            _copy(array, result)
            world.broadcast(result, root, group)
        case "HcomAllGather":
            _check_size(node, world.size(group))
            world.all_gather(array, result, group)
        case _:
            _check_size(node, world.size(group))
            world.reduce_scatter(array, result, "sum" if reduction == "mean" else reduction, group)
            _scale(result, 1 / world.size(group) if reduction == "mean" else 1.0)


def _all_reduce(node: Node, array: Array, result: Array, group: str, world: World) -> None:
    if world.ranks > 1:  # a single rank returns its input
        _check_size(node, world.size(group))
    reduction = node.str_attr("reduction", "sum")
    _copy(array, result)
    _scale(result, node.float_attr("prescale", 1.0))
    world.all_reduce(result, "sum" if reduction == "mean" else reduction, group)
    mean = 1 / world.size(group) if reduction == "mean" else 1.0
    _scale(result, mean * node.float_attr("postscale", 1.0))


def _copy(array: Array, result: Array) -> None:
    if array.ctypes.data != result.ctypes.data:
        result[...] = array


def _scale(array: Array, factor: float) -> None:
    if factor != 1.0:
        np.multiply(array, factor, out=array, casting="unsafe")


def _check_size(node: Node, size: int) -> None:
    expected = node.int_attr("rank_size", size)
    if expected != size:
        raise ModelInvalid("D0001", f"it is for {expected} ranks, {size} are running", where=node)

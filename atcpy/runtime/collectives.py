"""Collectives between the ranks that run one package: what a rank needs of the others, and one rank alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.ops.collectives import WORLD


class World(Protocol):
    """The ranks. Arrays are contiguous; every member of a group calls the same functions in the same order."""

    @property
    def rank(self) -> int:
        """The number of this rank among all."""

    @property
    def ranks(self) -> int:
        """How many ranks there are."""

    def size(self, group: str) -> int:
        """How many ranks a group has."""

    def knows(self, group: str) -> bool:
        """Has anybody said which ranks a group has?"""

    def is_in(self, group: str) -> bool:
        """Is this rank one of a group? UsageError (EI0004) if nobody knows."""

    def during(self, node: Node) -> AbstractContextManager[object]:
        """Says which node this rank is at while it waits for others."""

    def exchange(self, number: int) -> list[int]:
        """The numbers of 64 bits that the ranks bring, in their order."""

    def all_reduce(self, array: Array, reduction: str, group: str) -> None:
        """Puts the sum, prod, max or min over the ranks into `array`, on each of them."""

    def all_gather(self, array: Array, whole: Array, group: str) -> None:
        """Puts the arrays of all ranks into `whole`, in their order."""

    def broadcast(self, array: Array, root: int, group: str) -> None:
        """Puts the array of the rank `root` into `array`."""

    def reduce_scatter(self, array: Array, part: Array, reduction: str, group: str) -> None:
        """Puts this rank's part of the reduction over the ranks into `part`."""


@dataclass(frozen=True, slots=True)
class Alone:
    """A world of one rank."""

    rank: int = 0
    ranks: int = 1

    def size(self, group: str) -> int:
        """One."""
        return 1

    def knows(self, group: str) -> bool:
        """It is all that any group can have."""
        return True

    def is_in(self, group: str) -> bool:
        """It is in every group."""
        return True

    def during(self, node: Node) -> AbstractContextManager[object]:
        """Nobody waits."""
        return nullcontext()

    def exchange(self, number: int) -> list[int]:
        """The number."""
        return [number]

    def all_reduce(self, array: Array, reduction: str, group: str) -> None:
        """The reduction of one array is that array."""

    def all_gather(self, array: Array, whole: Array, group: str) -> None:
        """The arrays of all ranks are this one."""
        whole[...] = array.reshape(whole.shape)

    def broadcast(self, array: Array, root: int, group: str) -> None:
        """The array is there."""

    def reduce_scatter(self, array: Array, part: Array, reduction: str, group: str) -> None:
        """This rank's part is all of it."""
        part[...] = array.reshape(part.shape)


def group_of(node: Node, world: World) -> str:
    """The group of a collective. If nobody said which ranks it has, and they are as many as there are, it is all."""
    group = node.str_attr("group", WORLD)
    is_all = world.ranks in (1, node.int_attr("rank_size", 0)) and not world.knows(group)
    return WORLD if is_all else group


def run_collective(
    node: Node, arrays: Sequence[Array | None], room: Sequence[Array] | None, world: World
) -> Sequence[Array]:
    """The outputs of a collective of known shapes, in the arrays `room`. A rank outside the group gets its own input,
    and zeros where that does not fit.

    Raises ModelInvalid if the package was made for another number of ranks, ResourceLimit if others do not come.
    """
    assert room is not None
    group = group_of(node, world)
    with world.during(node):
        for array, result in zip(arrays, room, strict=True):
            assert array is not None
            if world.is_in(group):
                _run(node, array, result, group, world)
            elif array.shape == result.shape:
                _copy(array, result)
            else:
                result[...] = 0
    return room


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
    if world.ranks > 1:  # alone, it gives what it gets
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
    wanted = node.int_attr("rank_size", size)
    if wanted != size:
        raise ModelInvalid("D0001", f"it is for {wanted} ranks, {size} are running", where=node)

"""Checks what the ranks of a run must have in common."""

from __future__ import annotations

from collections.abc import Iterator

import xxhash

from atcpy.errors import ModelInvalid
from atcpy.ir import Graph, Node
from atcpy.ir.graph import walk
from atcpy.ops.collectives import COLLECTIVES
from atcpy.runtime.distributed.run_collective import group_of
from atcpy.runtime.distributed.world import World


def collectives_of(graph: Graph) -> Iterator[Node]:
    """The collectives of a graph and of its bodies, in order."""
    return (node for node in walk(graph) if node.op_type in COLLECTIVES)


def fingerprint(graph: Graph, package: bytes) -> int:
    """Hash the collectives, their order, sizes, types and groups, and the package's own checksum to 64 bits."""
    digest = xxhash.xxh64(package)
    for node in collectives_of(graph):
        types = [(value.desc.dtype.long, value.desc.shape) for value in (*node.operands, *node.outputs)]
        digest.update(repr((node.op_type, sorted(node.attrs.items()), types)).encode())
    return digest.intdigest()


def agree(graph: Graph, package: bytes, world: World) -> None:
    """Check on all ranks that they run the same package. Raises ModelInvalid (D0002) if one of them runs another, and
    UsageError (EI0004) for groups whose members were not given.
    """
    found = world.exchange(fingerprint(graph, package))
    others = [str(rank) for rank, number in enumerate(found) if number != found[0]]
    if others:
        who = f"rank {others[0]} runs" if len(others) == 1 else f"ranks {', '.join(others)} run"
        raise ModelInvalid("D0002", f"{who} another package than rank 0", hint="give all of them the same file")
    for node in collectives_of(graph):
        world.is_in(group_of(node, world))

"""What the ranks of a run must have in common, and the error of the one that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import xxhash

from atcpy.errors import AtcError, ModelInvalid, UsageError, Where, raise_os_error
from atcpy.ir import Graph, Node
from atcpy.ir.graph import walk
from atcpy.ops.collectives import COLLECTIVES, WORLD
from atcpy.runtime.collectives import World

NO_GROUPS: Mapping[str, tuple[int, ...]] = MappingProxyType({})


class RankFailed(Exception):
    """The first rank that failed, or -1 if nobody knows which, and why; the others were ended."""

    def __init__(self, rank: int, ranks: int, error: BaseException) -> None:
        super().__init__(rank, ranks, error)
        self.rank = rank
        self.ranks = ranks
        self.error = error

    @property
    def is_common(self) -> bool:
        """Did all ranks find it out together?"""
        return isinstance(self.error, AtcError) and self.error.code == "D0002"

    @property
    def _who(self) -> str:
        if self.is_common:
            return ""
        return f"rank {self.rank} of {self.ranks}: " if self.rank >= 0 else f"one of {self.ranks} ranks: "

    @property
    def what(self) -> str:
        """Which rank, and why, without the place."""
        if isinstance(self.error, AtcError):
            return self._who + self.error.problems[0].what
        return self._who + f"{type(self.error).__name__}: {self.error}".partition("\n")[0]

    def __str__(self) -> str:
        place = str(self.error.problems[0].where) if isinstance(self.error, AtcError) else ""
        if not place:
            return "atcpy: " + self.what
        return f"atcpy: {self._who}{place}: " + self.what.removeprefix(self._who)


def collectives_of(graph: Graph) -> Iterator[Node]:
    """The collectives of a graph and of its bodies, in order."""
    return (node for node in walk(graph) if node.op_type in COLLECTIVES)


def fingerprint(graph: Graph, package: bytes) -> int:
    """64 bits of the collectives, their order, sizes, types and groups, and of the package's own checksum."""
    digest = xxhash.xxh64(package)
    for node in collectives_of(graph):
        types = [(value.desc.dtype.long, value.desc.shape) for value in (*node.operands, *node.outputs)]
        digest.update(repr((node.op_type, sorted(node.attrs.items()), types)).encode())
    return digest.intdigest()


def agree(graph: Graph, package: bytes, world: World) -> None:
    """Raises, on all ranks, ModelInvalid (D0002) if one of them runs another package; UsageError (EI0004) for groups
    that nobody described.
    """
    found = world.exchange(fingerprint(graph, package))
    others = [str(rank) for rank, number in enumerate(found) if number != found[0]]
    if others:
        who = f"rank {others[0]} runs" if len(others) == 1 else f"ranks {', '.join(others)} run"
        raise ModelInvalid("D0002", f"{who} another package than rank 0", hint="give all of them the same file")
    for node in collectives_of(graph):
        world.is_in(node.str_attr("group", WORLD))


def unknown_group(name: str, known: Sequence[str]) -> UsageError:
    """EI0004 for a group that no table describes."""
    hint = f"--groups FILE, which says it; there are {', '.join(known)}"
    return UsageError("EI0004", f'no table says which ranks the group "{name}" has', hint=hint)


def read_groups(path: str, ranks: int) -> dict[str, tuple[int, ...]]:
    """The ranks of each group of a JSON file. UsageError (EI0004) if it is not as it must be."""
    try:
        table = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise_os_error(error, path)
    except ValueError as error:
        raise UsageError("EI0004", f"{path} is not JSON: {error}", where=Where(file=path)) from error
    if not isinstance(table, dict):
        raise UsageError("EI0004", f"{path} is no object of names and ranks", where=Where(file=path))
    for name, members in table.items():
        reason = _group_fault(name, members, ranks)
        if reason:
            raise UsageError("EI0004", f'group "{name}" {reason}', where=Where(file=path))
    return {name: tuple(members) for name, members in table.items()}


def _group_fault(name: str, members: object, ranks: int) -> str:
    if not isinstance(members, list) or not members or any(type(member) is not int for member in members):
        return "is no list of ranks"
    if len(set(members)) < len(members):
        return "has a rank twice"
    if min(members) < 0 or max(members) >= ranks:
        return f"has rank {max(members) if max(members) >= ranks else min(members)}, there are 0 to {ranks - 1}"
    if name == WORLD and members != list(range(ranks)):
        return f"is that of all ranks, 0 to {ranks - 1}"
    return ""

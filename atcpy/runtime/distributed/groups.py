"""The groups of collectives: reads the file that lists their members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from atcpy.errors import UsageError, Where, raise_os_error
from atcpy.files import parse_json, read_text
from atcpy.ops.collectives import WORLD

NO_GROUPS: Mapping[str, tuple[int, ...]] = MappingProxyType({})


def unknown_group(name: str, known: Sequence[str]) -> UsageError:
    """The error EI0004 for a group that no table describes."""
    hint = f"--groups FILE, which says it; there are {', '.join(known)}"
    return UsageError("EI0004", f'no table says which ranks the group "{name}" has', hint=hint)


def read_groups(path: str, ranks: int) -> dict[str, tuple[int, ...]]:
    """Read the members of each group from a JSON file. Raises UsageError (EI0004) if it is malformed."""
    try:
        table = parse_json(read_text(path))
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

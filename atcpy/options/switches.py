"""Which passes run, by options and by files."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from atcpy.config_files import config_lines, members_of, parse_config, read_text_file
from atcpy.errors import UsageError, Where
from atcpy.options.readers import pairs_of, read_bool, read_int, read_on_off, text_of
from atcpy.options.records import FusionGroup, PassSwitches


def read_switches(option: str, value: object) -> PassSwitches:
    """`Pass:on;Pass:off`, or a mapping of pass to bool."""
    if isinstance(value, PassSwitches):
        return value
    if isinstance(value, Mapping):
        return PassSwitches(named={str(name): read_bool(option, on) for name, on in value.items()})
    pairs = pairs_of(option, value, "Pass:on or Pass:off")
    return PassSwitches(
        named={name: read_on_off(option, name, word, Where(option=option), "E10001") for name, word in pairs}
    )


def read_limits(option: str, value: object) -> dict[str, int]:
    """`Pass:7;Other:0`, or a mapping of pass to number."""
    pairs = value.items() if isinstance(value, Mapping) else pairs_of(option, value, "Pass:NUMBER")
    return {str(name): read_int(option, count, 0, 2**31) for name, count in pairs}


@dataclass(frozen=True, slots=True)
class SwitchFile:
    """A fusion switch file: what it says, and its digest, which is what the package records of it."""

    switches: PassSwitches
    sha256: str


def read_switch_file(option: str, value: object) -> SwitchFile:
    """A fusion switch file in either of ATC's forms: `Pass:off` lines, or JSON with the keys Switch and Priority."""
    path = str(value) if isinstance(value, os.PathLike) else text_of(option, value)
    text, sha256 = read_text_file(path)
    switches = _json_switches(option, path, text) if text.lstrip().startswith("{") else _plain(option, path, text)
    return SwitchFile(switches, sha256)


def _plain(option: str, path: str, text: str) -> PassSwitches:
    named: dict[str, bool] = {}
    groups: dict[FusionGroup, bool] = {}
    for number, line in config_lines(text):
        name, _, word = line.rpartition(":")
        where = Where(file=path, line=number)
        if not name.strip():
            raise UsageError("E20003", f'{path}:{number}: "{line}" is not Pass:on or Pass:off', where=where)
        on = read_on_off(option, name.strip(), word.strip(), where, "E20003")
        if name.strip() == "ALL":
            groups = dict.fromkeys(FusionGroup, on)
        else:
            named[name.strip()] = on
    return PassSwitches(named=named, groups=groups)


_PRIORITIES = {"Top": range(1000), "Main": range(1000, 2000), "Down": range(2000, 3000)}


def _json_switches(option: str, path: str, text: str) -> PassSwitches:
    where = Where(file=path)
    root = members_of(path, "the file", parse_config(path, text), ("Switch", "Priority"))
    switch = members_of(path, "Switch", root.get("Switch", {}), tuple(group.value for group in FusionGroup))
    named: dict[str, bool] = {}
    groups: dict[FusionGroup, bool] = {}
    for group in FusionGroup:
        for name, word in members_of(path, group.value, switch.get(group.value, {}), None).items():
            on = read_on_off(option, name, word, where, "E20003")
            if name == "ALL":
                groups[group] = on
            else:
                named[name] = on
    return PassSwitches(named=named, groups=groups, priorities=_priorities(path, root.get("Priority", {})))


def _priorities(path: str, record: object) -> dict[str, int]:
    """The numbers of the key Priority: texts, within the thousand of their part, each pass once."""
    graph = FusionGroup.GRAPH.value
    parts = members_of(path, "Priority", record, (graph,)).get(graph, {})
    members_of(path, graph, parts, tuple(_PRIORITIES))
    numbers: dict[str, int] = {}
    for part, bounds in _PRIORITIES.items():
        for name, text in members_of(path, part, parts.get(part, {}), None).items():
            where = Where(file=path)
            if not (isinstance(text, str) and text.isdecimal() and len(text) < 5 and int(text) in bounds):
                what = f'{path}: {part}: {name}: "{text}" is no text of a number {bounds[0]}..{bounds[-1]}'
                raise UsageError("E20003", what, where=where)
            if name in numbers:
                raise UsageError("E20003", f"{path}: {part}: {name} has a priority already", where=where)
            numbers[name] = int(text)
    return numbers


def switch_text(switches: PassSwitches) -> str:
    """The canonical spelling of switches of passes."""
    return ";".join(f"{name}:{'on' if on else 'off'}" for name, on in sorted(switches.named.items()))

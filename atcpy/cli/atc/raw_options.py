"""The file of --raw_ge_options: options by GE's names, for the flags of ATC that mean the same.

    {"compile options": {"global": {"ge.oo.level": "O1"}, "session": {…}, "graph": {…}}}

Options of a graph override those of a session, and these the global ones; flags of the command line override all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from atcpy.atc_flags import FLAG_BY_NAME, FlagKind, read_flags
from atcpy.config_files import members_of, parse_config, read_text_file
from atcpy.errors import AtcWarning, Unsupported, UsageError, Where
from atcpy.ge.options import option_name

ROOT, SCOPES = "compile options", ("global", "session", "graph")
FLAG, IGNORE = "raw_ge_options", "raw_ge_options_ignore_unsupported"
# What a conversion is of and where it goes: only the command line says that.
_NEVER = frozenset(
    {"mode", "model", "weight", "om", "framework", "singleop", "output", "json", "check_report", "soc_version"}
)


def with_raw_options(values: Mapping[str, str]) -> tuple[dict[str, str], list[AtcWarning]]:
    """The flags of a command line, with those of its file of options; and a warning for each option that is ignored.

    Raises UsageError for a file that is none, Unsupported (E10055) for options without a flag, unless they are ignored.
    """
    if FLAG not in values:
        if IGNORE in values:
            raise UsageError("E10057", f"--{IGNORE} is used only with --{FLAG}", where=Where(option=IGNORE))
        return dict(values), []
    is_lenient = values.get(IGNORE) == "true"
    found: dict[str, str] = {}
    warnings: list[AtcWarning] = []
    for key, text in _read(Path(values[FLAG])).items():
        name = option_name(key)
        if (
            name in _NEVER
            or name in (FLAG, IGNORE)
            or name not in FLAG_BY_NAME
            or FLAG_BY_NAME[name].kind is FlagKind.BOOL
        ):
            what, where = f'--{FLAG}: the option "{key}" is not supported', Where(file=values[FLAG])
            if not is_lenient:
                raise Unsupported("E10055", what, where=where, hint=f"drop it, or ignore such options: --{IGNORE}")
            warnings.append(AtcWarning("W0012", what, where))
        else:
            found |= read_flags({name: text})
    given = {name: value for name, value in values.items() if name not in (FLAG, IGNORE)}
    return {**found, **given}, warnings


def _read(path: Path) -> dict[str, str]:
    """The options of a file by GE's names."""
    name = str(path)
    root = members_of(name, "the file", parse_config(name, read_text_file(path)[0]), (ROOT,))
    scopes = members_of(name, ROOT, root.get(ROOT), SCOPES)
    merged: dict[str, str] = {}
    for scope in SCOPES:
        for key, value in members_of(name, scope, scopes.get(scope, {}), None).items():
            if not isinstance(value, str):
                raise UsageError("E20003", f'{name}: the value of "{key}" is no text', where=Where(file=name))
            merged[key] = value
    return merged

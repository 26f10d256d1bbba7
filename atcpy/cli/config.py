"""Settings that are not on the command line: of the environment and of configuration files.

A setting is taken from the first of these that has it:

    the command line
    ATCPY_SOC, ATCPY_THREADS and so on (`VARIABLES`)
    the file of --config, else atcpy.toml, else [tool.atcpy] of pyproject.toml, in the nearest folder upward
    $XDG_CONFIG_HOME/atcpy/atcpy.toml of the user
    the default

A file has options of all commands at its top, and those of one command in a table of its name. [verify.tolerance] alone
has what is no option (`tolerances.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from atcpy.errors import UsageError, Where, did_you_mean, raise_os_error
from atcpy.files import read_file

NAME = "atcpy.toml"
VARIABLES = ("soc", "threads", "memory_limit", "timeout", "color")
# Those of one run. A file is read without being named: it runs no code, signs nothing and chooses no file to write.
_REFUSED = frozenset({"custom_ops", "sign", "config", "help", "model", "output", "output_dir", "npz_out"})
_in_effect: ContextVar[Sequence[Setting]] = ContextVar("settings", default=())


@contextmanager
def in_effect(settings: Sequence[Setting]) -> Iterator[None]:
    """Let `settings_in_effect` return these within the block."""
    token = _in_effect.set(settings)
    try:
        yield
    finally:
        _in_effect.reset(token)


def settings_in_effect() -> Sequence[Setting]:
    """The settings of the command that runs, strongest first."""
    return _in_effect.get()


class Setting(NamedTuple):
    """A value of an option, of one command or of all that have it, and where it comes from."""

    command: str
    option: str
    value: object
    source: str


def read_settings(parser: Any, arguments: Sequence[str]) -> list[Setting]:
    """The settings of environment and files, strongest first. Raises UsageError for a file that cannot be read, and for
    a key or a value that is no option's.
    """
    settings = list(_of_environment())
    if files := list(_files(arguments)):
        known = {name: _options(command) for name, command in parser.commands.items()}
        for path in files:
            settings += _of_file(path, known)
    return settings


def default_map(settings: Iterable[Setting], parser: Any) -> dict[str, dict[str, Any]]:
    """What the parser takes in place of the defaults, by command and parameter."""
    defaults: dict[str, dict[str, Any]] = {}
    for setting in settings:
        for name in [setting.command] if setting.command else parser.commands:
            parameter = _options(parser.commands[name]).get(setting.option)
            if parameter is not None:
                # Sessions read ATCPY_THREADS themselves, also those of programs.
                value = None if setting.source == "ATCPY_THREADS" else _fitted(setting, parameter)
                defaults.setdefault(name, {}).setdefault(parameter.name, value)
    return defaults


def _options(command: Any) -> dict[str, Any]:
    """The options of a command by each of their names."""
    return {
        name.lstrip("-").replace("-", "_"): parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in parameter.opts
        if name.startswith("--")
    }


def _of_environment() -> Iterator[Setting]:
    for option in VARIABLES:
        variable = f"ATCPY_{option.upper()}"
        if value := os.environ.get(variable):
            yield Setting("", option, value, variable)


def _files(arguments: Sequence[str]) -> Iterator[Path]:
    """The files to read, strongest first."""
    named = _named_file(arguments)
    if named is not None:
        yield Path(named)
    elif (found := _nearest_file(Path.cwd())) is not None:
        _require_own(found)
        yield found
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    own = Path(home, "atcpy", NAME)
    if own.is_file():
        yield own


def _named_file(arguments: Sequence[str]) -> str | None:
    """The value of --config, but of `doctor`, where it is a flag."""
    named = None
    if arguments[:1] != ["doctor"]:
        for number, argument in enumerate(arguments):
            option, equals, value = argument.partition("=")
            if option == "--config":
                named = value if equals else (*arguments[number + 1 : number + 2], None)[0]
    return named


def _require_own(path: Path) -> None:
    """Raise UsageError (E20003) for a file of another user, who could choose what commands do."""
    if path.stat().st_uid not in (0, os.getuid()):
        raise refuse(path, "it belongs to another user", f"if it is right: --config {path}")


def _nearest_file(folder: Path) -> Path | None:
    for parent in (folder, *folder.parents):
        if (parent / NAME).is_file():
            return parent / NAME
        project = parent / "pyproject.toml"
        if project.is_file() and _table_of_project(project) is not None:
            return project
    return None


def _table_of_project(path: Path) -> object:
    content = _read(path)
    if b"atcpy" not in content:  # most projects; parsing takes longer
        return None
    return _parse(path, content).get("tool", {}).get("atcpy")


def _of_file(path: Path, known: Mapping[str, Mapping[str, Any]]) -> Iterator[Setting]:
    table = _table_of_project(path) if path.name == "pyproject.toml" else _parse(path, _read(path))
    if not isinstance(table, dict):
        raise refuse(path, "tool.atcpy is no table", "")
    of_all = {option for options in known.values() for option in options}
    commands = [name for name, value in table.items() if isinstance(value, dict) and name in known]
    for name in commands:  # before what the file says of all commands, which is weaker
        for key, value in table[name].items():
            if (name, key) == ("verify", "tolerance"):
                yield from _tolerances(path, value)
                continue
            yield Setting(name, _known(path, key, known[name], f"[{name}] "), value, str(path))
    for key, value in table.items():
        if key not in commands:
            yield Setting("", _known(path, key, of_all, ""), value, str(path))


def _tolerances(path: Path, table: object) -> Iterator[Setting]:
    from atcpy.cli.tolerances import read_tolerances

    return read_tolerances(str(path), table)


def _known(path: Path, key: str, options: Iterable[str], table: str) -> str:
    option = key.replace("-", "_")
    names = [name for name in options if name not in _REFUSED]
    if option in _REFUSED:
        raise refuse(path, f"{table}{key} is for the command line only", f"--{key}")
    if option not in names:
        raise refuse(path, f"{table}{key}: there is no such option", did_you_mean(option, names))
    return option


def _fitted(setting: Setting, parameter: Any) -> Any:
    """The value as the parser of the command line takes it. Raises UsageError if it is of another type."""
    value = setting.value
    if parameter.is_flag or parameter.secondary_opts:
        if isinstance(value, bool):
            return value
        raise refuse(setting.source, f"{setting.option}: {value!r} is not true or false", "")
    if parameter.multiple or parameter.nargs != 1:
        items = value if isinstance(value, list) else [value]
    elif isinstance(value, list):
        return ",".join(_text(setting, item) for item in value)
    else:
        return _text(setting, value)
    return [_text(setting, item) for item in items]


def _text(setting: Setting, value: object) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise refuse(setting.source, f"{setting.option}: {value!r} is not a text or a number", "")


def _read(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise_os_error(error, str(path))


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise refuse(path, f"it is no TOML: {error}", "") from error


def refuse(path: str | Path, what: str, hint: str) -> UsageError:
    """The error for what a file has that no setting can be."""
    return UsageError("E20003", f"{path}: {what}", where=Where(file=str(path)), hint=hint)

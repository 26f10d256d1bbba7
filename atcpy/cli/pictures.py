"""Files of settings of dynamic AIPP: JSON, one object of ATC's fields, or a list of one for each picture."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from atcpy.cli.arrays import split_assignment
from atcpy.errors import UsageError, Where, raise_os_error
from atcpy.files import parse_json, read_text
from atcpy.verify.inputs import session_ports

if TYPE_CHECKING:
    from atcpy import InferenceSession


def read_aipp_settings(texts: Sequence[str], session: "InferenceSession") -> dict[str, object]:
    """Read `[NAME=]FILE` texts of --aipp: the settings by input. Without a name they are for the only input that takes
    pictures with settings of their own.
    """
    if not texts:
        return {}
    from atcpy.runtime.picture_inputs import picture_inputs

    dynamic = {name for name, found in picture_inputs(session.model.graph.inputs).items() if found.is_dynamic}
    ports = [port for port in session_ports(session) if port.name in dynamic]
    if not ports:
        raise UsageError("E10404", "--aipp: the package has no input with dynamic AIPP", where=Where(option="aipp"))
    settings: dict[str, object] = {}
    for text in texts:
        port, path = split_assignment("aipp", text, ports)
        if port.name in settings:
            what = f'--aipp: input "{port.name}" has settings already'
            raise UsageError("E10056", what, where=Where(option="aipp", value=port.name), hint="give them once")
        settings[port.name] = _read(path)
    return settings


def _read(path: str) -> object:
    try:
        read: object = parse_json(read_text(path))
    except OSError as error:
        raise_os_error(error, path)
    except ValueError as error:  # UnicodeDecodeError is one
        raise UsageError("E13005", f"{path} is no JSON: {error}", where=Where(file=path)) from error
    return read

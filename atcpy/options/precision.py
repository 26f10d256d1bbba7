"""Options of precision, whose files and records `atcpy.precision_options` has."""

from collections.abc import Callable, Mapping
from typing import Any

from atcpy.errors import Where
from atcpy.options.readers import Reader, read_choice, read_names
from atcpy.precision_options import PrecisionMode, check_type_name, refuse_hifloat8


def mode_of(modes: Mapping[str, PrecisionMode]) -> Reader:
    """A reader of a precision mode by one of these names."""

    def read_mode(option: str, value: object) -> Any:
        refuse_hifloat8(option, value)
        return read_choice(option, value, modes)

    return read_mode


def mode_text(modes: Mapping[str, PrecisionMode]) -> Callable[[PrecisionMode], str]:
    """The canonical spelling of a precision mode, by these names."""
    return {mode: name for name, mode in modes.items()}.__getitem__


def read_keep(option: str, value: object) -> tuple[str, ...]:
    """Nodes or types of nodes that keep float32; repeatable."""
    items = value if isinstance(value, list | tuple) else [value]
    names = tuple(dict.fromkeys(name for item in items for name in read_names(option, item)))
    for name in names:
        check_type_name(option, name, Where(option=option))
    return names

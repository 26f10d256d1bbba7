"""`--iterations_per_loop` and the states that an iteration hands to the next."""

from collections.abc import Iterable, Mapping
from typing import Any

from atcpy.errors import UsageError, Where
from atcpy.options.gears import GEAR_OPTIONS
from atcpy.options.readers import read_names, text_of
from atcpy.options.records import IterationsPerLoop


def read_states(option: str, value: object) -> dict[str, str]:
    """`h2=h;c2=c`, or a dict: an input for each output."""
    where = Where(option=option)
    pairs: Iterable[tuple[object, object]]
    if isinstance(value, Mapping):
        pairs = value.items()
    else:
        parts = read_names(option, value, ";")
        if bad := next((part for part in parts if "=" not in part), None):
            what = f'--{option}: "{bad}" is no pair of an output and an input'
            raise UsageError("E10001", what, where=where, hint="OUT=IN")
        pairs = (part.split("=", 1) for part in parts)  # type: ignore[misc]
    states: dict[str, str] = {}
    for output, input_ in pairs:
        new, old = text_of(option, output), text_of(option, input_)
        if new in states:
            raise UsageError("E10001", f'--{option}: output "{new}" is bound twice', where=where)
        if old in states.values():
            raise UsageError("E10001", f'--{option}: two outputs are bound to input "{old}"', where=where)
        states[new] = old
    return states


def loop_of(value: Mapping[str, Any]) -> IterationsPerLoop | None:
    """What one run repeats. Raises UsageError for options that do not go together."""
    count = value["iterations_per_loop"]
    if count == 1:
        if option := next((name for name in ("state", "stepped") if value[name]), None):
            what = f"--{option}: one run of the package is one run of the model"
            raise UsageError("E10001", what, where=Where(option=option), hint="--iterations_per_loop N")
        return None
    if gears := next((name for name in GEAR_OPTIONS if value[name]), None):
        what = f"--iterations_per_loop and --{gears} cannot be used together"
        hint = "leave the iterations to run --iterations"
        raise UsageError("E10001", what, where=Where(option="iterations_per_loop"), hint=hint)
    return IterationsPerLoop(count, value["state"], value["stepped"])

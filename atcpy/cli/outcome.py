"""What a command found, or what of an exception its user is told."""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.errors import AtcError, AtcWarning, InternalError, ResourceLimit, raise_os_error


@dataclass(frozen=True)
class Outcome:
    """What a command found: `result` for `--json`, `lines` for people; `error` where it also failed, and `verdict`
    what stderr says of it where the lines already tell each cause.
    """

    result: object
    lines: Sequence[str] = ()
    error: AtcError | InternalError | None = None
    warnings: Sequence[AtcWarning] = ()
    verdict: str = ""


def as_known_error(error: BaseException) -> AtcError | InternalError:
    """What a user is told about any exception."""
    if isinstance(error, AtcError | InternalError):
        return error
    if isinstance(error, MemoryError):
        hint = "raise --memory-limit, or make the shapes smaller"
        return ResourceLimit("R0001", "the memory is used up", hint=hint)
    if isinstance(error, OSError):
        try:
            raise_os_error(error, str(error.filename or "a file"))
        except AtcError as known:
            return known
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" (in {last[0].name}, line {last[0].lineno})" if last else ""
    return InternalError(f"{type(error).__name__}: {error}{place}")

"""The inputs and outputs of a session by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from atcpy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from atcpy.runtime.session import NodeArg


def find_port(ports: Sequence[NodeArg], name: str, caller: str, kind: Literal["input", "output"]) -> int:
    """The index of the port of a name. Raises UsageError (E13025, or E13031 for outputs) if there is none."""
    names = [port.name for port in ports]
    if name not in names:
        code = "E13025" if kind == "input" else "E13031"
        hint = did_you_mean(name, names) or f"the {kind}s are {', '.join(names)}"
        raise UsageError(code, f'{caller}: no {kind} "{name}"', hint=hint)
    return names.index(name)

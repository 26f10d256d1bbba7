"""Arguments of onnxruntime's session: `sess_options` and `providers`, as far as they mean something here."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from atcpy.errors import UsageError

PROVIDER = "CPUExecutionProvider"


class SessionOptions(Protocol):
    """`onnxruntime.SessionOptions`, or any object with its number of threads; 0 is the default of the session."""

    intra_op_num_threads: int


@dataclass(frozen=True)
class ModelMetadata:
    """What a package says of its model, by onnxruntime's names. A package keeps no text that the author of the model
    wrote: those are empty. `custom_metadata_map` has what atcpy recorded.
    """

    producer_name: str
    graph_name: str
    custom_metadata_map: dict[str, str]
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0


def threads_of(options: SessionOptions | None, threads: int | None) -> int | None:
    """The number of threads that options or the argument `threads` ask for. Raises UsageError if they differ."""
    number = getattr(options, "intra_op_num_threads", 0)
    if not isinstance(number, int) or isinstance(number, bool):
        raise UsageError("E10014", f"sess_options: intra_op_num_threads is {number!r}, no whole number")
    if number and threads is not None and number != threads:
        what = f"threads is {threads}, and intra_op_num_threads of sess_options {number}"
        raise UsageError("E10047", what, hint="give one of the two")
    return number or threads


def check_providers(providers: Sequence[str | tuple[str, dict[Any, Any]]] | None) -> None:
    """Warn of each provider but that of the CPU, as onnxruntime does of those that it has not: the CPU runs all."""
    if isinstance(providers, str) or not isinstance(providers, Sequence | None):
        raise UsageError("E10003", f"providers: {providers!r} is no list of names")
    for provider in providers or ():
        name = provider[0] if isinstance(provider, tuple) and provider else provider
        if not isinstance(name, str):
            raise UsageError("E10003", f"providers: {provider!r} is no name of a provider")
        if name != PROVIDER:
            what = f"Specified provider '{name}' is not in available provider names. Available providers: '{PROVIDER}'"
            warnings.warn(what, UserWarning, stacklevel=3)

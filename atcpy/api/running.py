"""A command that runs in a program: what it would show goes to the logger `atcpy`, and nothing to the terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from atcpy.cli.console import Progress
from atcpy.cli.invocation import Invocation
from atcpy.errors import AtcWarning

LOGGER = logging.getLogger("atcpy")


class LoggedProgress(Progress):
    """Each step as a message of level INFO."""

    def __init__(self) -> None:
        super().__init__(verbosity=0, quiet=True)

    def step(self, text: str, *, shown: str = "") -> None:
        """Log what begins."""
        LOGGER.info("%s", text)


class LoggedInvocation(Invocation):
    """The invocation of a command by a program. `common` are options that all commands have."""

    def __init__(self, name: str, common: Mapping[str, Any]) -> None:
        super().__init__(name, quiet=True, progress=LoggedProgress())
        self.common = {key: value for key, value in common.items() if value is not None}

    def say(self, line: str, level: int = 1) -> None:
        """Log a line that the command prints, or that it prints with -v."""
        LOGGER.log(logging.DEBUG if level else logging.WARNING, "%s", line)


def log_warnings(warnings: Iterable[AtcWarning]) -> None:
    """Log what a command warns of."""
    for warning in warnings:
        LOGGER.warning("%s", warning)


def text_of(lines: Sequence[str]) -> str:
    """Lines as a text without control characters, which names of a model may have."""
    from atcpy.errors import escape

    return "\n".join(map(escape, lines))

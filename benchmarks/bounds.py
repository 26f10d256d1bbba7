"""How scripts end that hold models to bounds: figures in a file, how many models are within, the exit status."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

EXIT_MISSED: Final = 1


class Bounded(Protocol):
    """The figures of a model, in a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def misses(self) -> Any:
        """What is beyond a bound, if anything is."""


def end_with_bounds(rows: Sequence[Bounded], json_file: Path | None) -> None:
    """Write the figures, print how many models are within the bounds, and end with status 1 if one is not."""
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    within = sum(not row.misses for row in rows)
    print(f"\nwithin both bounds: {within} of {len(rows)}")
    if within < len(rows):
        raise SystemExit(EXIT_MISSED)

"""The outcome of a command."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from atcpy.errors import AtcError, AtcWarning, InternalError
from atcpy.errors.record import warning_from_record


@dataclass(frozen=True)
class Outcome:
    """What a command returns: `result` for `--json`, `lines` for people; `error` if it also failed, and `verdict`,
    which stderr shows in its place if the lines already name each cause.
    """

    result: object
    lines: Sequence[str] = ()
    error: AtcError | InternalError | None = None
    warnings: Sequence[AtcWarning] = ()
    verdict: str = ""

    def to_record(self) -> dict[str, Any]:
        """What of an outcome without an error another process needs, as JSON."""
        warnings = [asdict(warning) for warning in self.warnings]
        return {"result": self.result, "lines": list(self.lines), "warnings": warnings}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The outcome of such a record."""
        warnings = [warning_from_record(each) for each in record["warnings"]]
        return cls(record["result"], record["lines"], warnings=warnings)

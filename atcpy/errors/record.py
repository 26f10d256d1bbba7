"""An error as JSON has it, which one process sends another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from atcpy.errors import (
    AtcError,
    AtcWarning,
    CustomOpError,
    InternalError,
    ModelInvalid,
    PackageCorrupt,
    ResourceLimit,
    Unsupported,
    UsageError,
    VerifyFailed,
    Where,
)

_KINDS: dict[str, type[AtcError]] = {
    kind.kind: kind for kind in (UsageError, ModelInvalid, Unsupported, VerifyFailed, ResourceLimit, PackageCorrupt)
}


def error_to_record(error: AtcError | InternalError) -> dict[str, Any]:
    """One problem as JSON has it."""
    why = error.why if isinstance(error, AtcError) else ""
    where = asdict(error.where)
    return {"kind": error.kind, "code": error.code, "what": error.what, "where": where, "why": why, "hint": error.hint}


def error_from_record(record: Mapping[str, Any]) -> AtcError | InternalError:
    """The error of such a record, an InternalError if its kind is no other's. Raises TypeError or KeyError for what is
    no record: it may come from a process that was taken over.
    """
    code, what, where = str(record["code"]), str(record["what"]), Where(**record["where"])
    kind = CustomOpError if code.startswith("C") else _KINDS.get(record["kind"])
    if kind is None:
        return InternalError(what, code=code, where=where)
    return kind(code, what, where=where, why=str(record["why"]), hint=str(record["hint"]))


def warning_from_record(record: Mapping[str, Any]) -> AtcWarning:
    """The warning of which `asdict` made a record. Raises TypeError or KeyError for what is no record, InternalError
    for a code that is not in the table.
    """
    return AtcWarning(str(record["code"]), str(record["message"]), Where(**record["where"]))

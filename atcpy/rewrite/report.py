"""The result of `atcpy optimize`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from atcpy.errors import AtcError, AtcWarning
from atcpy.ir.decisions import PassCount


@dataclass(frozen=True, slots=True)
class ModelCount:
    """The size of a model. `ops` counts nodes without Constant, those of bodies included."""

    nodes: int
    bytes: int
    ops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the result was compared with the source: by which oracle, at which sizes; or `why` not."""

    verified: bool
    oracle: str = ""
    shapes: tuple[str, ...] = ()
    max_abs: float = 0.0
    why: str = ""
    error: AtcError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport:
    """The fields of the result of `optimize --json`."""

    output: str
    before: ModelCount
    after: ModelCount
    opset: int
    applied: tuple[PassCount, ...]
    verified: bool
    oracle: str = ""
    shapes: tuple[str, ...] = ()
    max_abs: float = 0.0
    external_data: str = ""
    warnings: tuple[AtcWarning, ...] = ()

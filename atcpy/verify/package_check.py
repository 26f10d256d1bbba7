"""Checks packages of one model, or of parts of it, against the oracle; used by `passes bisect`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from atcpy.errors import InternalError, PackageCorrupt, Unsupported
from atcpy.ops.custom import CustomOps
from atcpy.verify.inputs import Feeds, Fill
from atcpy.verify.oracle import FindOracle, Oracle, OracleRequest, RememberingOracles, find_oracle
from atcpy.verify.verification import verify


@dataclass(frozen=True, kw_only=True)
class OracleCheck:
    """Describes what is wrong with a package, by running it and the oracle on the same inputs."""

    model: Path
    feeds: Feeds
    seed: int
    oracle: str | None
    threads: int | None
    allow_hardlinks: bool
    custom: CustomOps
    _oracles: FindOracle = field(default_factory=RememberingOracles)

    def whole(self, package: Path) -> str:
        """What is wrong with a package of the model, or nothing."""
        return self._compare(package, self.model, self.feeds, self._oracles)

    def part(self, package: Path, model: Path, feeds: Feeds, *, is_large: bool) -> str:
        """The same for a package of a part of the model, on these inputs."""
        return self._compare(package, model, feeds, _without_float64 if is_large else find_oracle)

    def _compare(self, package: Path, model: Path, feeds: Feeds, find: FindOracle) -> str:
        try:
            report = verify(
                package,
                model,
                fill=Fill("random", self.seed),
                feeds=feeds or None,
                oracle=self.oracle,
                threads=self.threads,
                allow_hardlinks=self.allow_hardlinks,
                custom=self.custom,
                find=find,
            )
        except (InternalError, PackageCorrupt, Unsupported) as error:
            return f"{error.code}: {error.what}"
        return "" if report.error is None else report.error.what


def _without_float64(request: OracleRequest) -> Oracle:
    """An oracle for large parts: float64 is slow there, and the smaller parts that follow are judged by it."""
    return replace(find_oracle(request), exact=lambda feeds: None)

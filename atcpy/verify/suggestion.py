"""Suggests which nodes of a package must keep their types, where a precision mode has lowered too much.

    lowered nodes, those with the largest error of their own first     measured on the oracle's inputs
    the shortest beginning of that list with which the outputs pass    each trial converts and verifies the model anew
    of these, those that are needed

The file that is written is the one that the last trial was converted with: `convert` with it makes the same package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from atcpy.errors import UsageError, Where
from atcpy.om import writer
from atcpy.om.atomic import atomic_write
from atcpy.options import ConvertOptions, repeated_options
from atcpy.precision_options import keep_file_of, keep_file_text
from atcpy.stages.pipeline import compile_model
from atcpy.verify.compare import OutputReport
from atcpy.verify.fewest import shortest_beginning, without_needless

if TYPE_CHECKING:
    from atcpy import InferenceSession
    from atcpy.verify.layers import LayerReport


MAX_TRIALS = 100  # of which those that leave out single nodes are the most


class SuggestOutcome(StrEnum):
    """What came of the search. A package may fail that its options do not make: one that is damaged, or of an older
    version.
    """

    FOUND = "found"
    NOT_NEEDED = "not-needed"
    NOT_REPRODUCED = "not-reproduced"
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node of the model that is to keep its type. `own_error` is that of the value that its task computes, on the
    oracle's inputs; None if no value of the model is in memory there.
    """

    node: str
    own_error: float | None = None
    allowed: float | None = None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The nodes to keep, written to `path` with those that the package keeps already, and what proves it: the outputs
    of a package that was converted with that file. `lowered` nodes there are in the package, and `left` with the file.
    `is_minimal`: none of the nodes can be left out; false where the trials ended before that was known. If nothing
    helps, `outputs` are what remains with all nodes kept.
    """

    outcome: SuggestOutcome
    path: str
    kept: tuple[KeptNode, ...]
    kept_before: tuple[str, ...]
    lowered: int
    left: int
    trials: int
    is_minimal: bool
    outputs: tuple[OutputReport, ...]


class Verified(Protocol):
    """What is needed of the report of a package."""

    @property
    def passed(self) -> bool:
        """Whether all outputs are within their bounds."""

    @property
    def outputs(self) -> tuple[OutputReport, ...]:
        """The outputs compared."""


@dataclass(frozen=True)
class Conversion:
    """How a package was converted: its command line, the nodes that its mode lowers, and those that are kept already by
    a file, of which the package has no more than the names of these nodes.
    """

    cmdline: str
    lowered: tuple[str, ...]
    kept_before: tuple[str, ...]
    common: Mapping[str, object]

    @staticmethod
    def of(session: InferenceSession, common: Mapping[str, object]) -> Conversion:
        """That of a package; `common` are options that it does not record. Raises UsageError (E10057) if no mode lowers
        its nodes, and Unsupported (E10055) if it cannot be converted anew.
        """
        model = session.model
        precision = model.graph.decisions.precision
        if not precision.lowered:
            what = f"--suggest: the precision mode of the package is {precision.mode}, and no node is lowered"
            hint = "--locate finds the node that errs"
            raise UsageError("E10057", what, where=Where(option="suggest"), hint=hint)
        had_file = "--keep_dtype=" in model.cmdline
        found = Conversion(model.cmdline, precision.lowered, precision.kept if had_file else (), common)
        found.options_keeping(())
        return found

    def options_keeping(self, names: Sequence[str]) -> ConvertOptions:
        """The options, and a file of these nodes."""
        text = self.file_text(names)
        file = keep_file_of(text, hashlib.sha256(text.encode()).hexdigest())
        return repeated_options(self.cmdline, {**self.common, "keep_dtype": file if text else None})

    def file_text(self, names: Sequence[str]) -> str:
        """The file for `--keep_dtype`, of these nodes in the order of the model."""
        chosen = {*names}
        return keep_file_text([*self.kept_before, *(name for name in self.lowered if name in chosen)])


@dataclass
class _Trials:
    """Converts the model with some nodes kept, and verifies the package; remembers the verdicts."""

    model: Path
    conversion: Conversion
    verify: Callable[[Path], Verified]
    step: Callable[[str], None]
    package: Path
    ended: bool = False  # for the number of trials
    _reports: dict[frozenset[str], tuple[Verified, int]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many packages were verified."""
        return len(self._reports)

    def report(self, kept: Sequence[str]) -> tuple[Verified, int]:
        """The report of a package, and how many of its nodes are lowered."""
        key = frozenset(kept)
        if key not in self._reports:
            nodes = len(self.conversion.lowered)
            self.step(f"trial {self.count + 1}: keeping {len(key)} of {nodes} lowered nodes")
            compiled, _ = compile_model(self.model, self.conversion.options_keeping(kept))
            writer.write(self.package, compiled)
            self._reports[key] = self.verify(self.package), len(compiled.graph.decisions.precision.lowered)
        return self._reports[key]

    def pass_with(self, kept: Sequence[str]) -> bool:
        """Whether all outputs pass if these nodes are kept."""
        return self.report(kept)[0].passed

    def pass_with_less(self, kept: Sequence[str]) -> bool:
        """The same, as long as there are trials left; then nothing is tried any more."""
        if self.count >= MAX_TRIALS and frozenset(kept) not in self._reports:
            self.ended = True
            return False
        return self.pass_with(kept)


def not_needed(conversion: Conversion, outputs: tuple[OutputReport, ...]) -> Suggestion:
    """Nothing to keep, for a package that passes."""
    lowered = len(conversion.lowered)
    return Suggestion(SuggestOutcome.NOT_NEEDED, "", (), conversion.kept_before, lowered, lowered, 0, True, outputs)


def suggest_kept(
    model: Path,
    conversion: Conversion,
    layers: Sequence[LayerReport],
    verify: Callable[[Path], Verified],
    target: Path,
    step: Callable[[str], None],
) -> Suggestion:
    """Find the nodes that a failing package must keep, and write them to `target`. `layers` are the errors of single
    nodes, and `verify` compares a package with the model.
    """
    errors = _errors_of(conversion.lowered, layers)
    ranking = sorted(conversion.lowered, key=lambda name: -errors[name].share if name in errors else 0.0)
    with TemporaryDirectory(prefix="atcpy-suggest-") as folder:
        trials = _Trials(model, conversion, verify, step, Path(folder) / "trial.om")

        def finish(outcome: SuggestOutcome, kept: Sequence[str]) -> Suggestion:
            report, left = trials.report(kept)
            found = outcome is SuggestOutcome.FOUND
            chosen = [name for name in ranking if name in kept] if found else []
            nodes = [
                KeptNode(name, errors[name].max_abs, errors[name].allowed) if name in errors else KeptNode(name)
                for name in chosen
            ]
            return Suggestion(
                outcome, str(target) if found else "", tuple(nodes), conversion.kept_before,
                len(conversion.lowered), left, trials.count, not trials.ended, report.outputs,
            )  # fmt: skip

        doubtful = sum(1 for layer in errors.values() if not layer.passed)
        enough = shortest_beginning(ranking, doubtful, len(ranking), trials.pass_with)
        if enough is None:
            return finish(SuggestOutcome.IMPOSSIBLE, ranking)
        if not enough:
            return finish(SuggestOutcome.NOT_REPRODUCED, ())
        kept = without_needless(enough, trials.pass_with_less)
        atomic_write(target, [conversion.file_text(kept).encode()])
        return finish(SuggestOutcome.FOUND, kept)


def _errors_of(lowered: Sequence[str], layers: Sequence[LayerReport]) -> dict[str, LayerReport]:
    """The largest own error of the tasks that each lowered node belongs to."""
    chosen = set(lowered)
    found: dict[str, LayerReport] = {}
    for layer in layers:
        for name in chosen.intersection(layer.sources):
            if name not in found or layer.share > found[name].share:
                found[name] = layer
    return found

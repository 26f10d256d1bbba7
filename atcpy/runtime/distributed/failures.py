"""The errors that end the ranks of a run."""

from __future__ import annotations

from atcpy.errors import AtcError, UsageError

_COMMON = frozenset({"D0002", "EI0004", "EI0005"})  # another package, groups, another MPI


class RankFailed(Exception):
    """The first rank that failed, -1 if unknown, and why; the others were ended."""

    def __init__(self, rank: int, ranks: int, error: BaseException) -> None:
        super().__init__(rank, ranks, error)
        self.rank = rank
        self.ranks = ranks
        self.error = error

    @property
    def is_common(self) -> bool:
        """Whether all ranks found the same error."""
        return isinstance(self.error, AtcError) and self.error.code in _COMMON

    @property
    def has_mpi(self) -> bool:
        """Whether MPI could start. If not, it starts on no rank, and nothing stops the others when the first one
        ends.
        """
        return not (isinstance(self.error, AtcError) and self.error.code == "EI0005")

    @property
    def _who(self) -> str:
        if self.is_common:
            return ""
        return f"rank {self.rank} of {self.ranks}: " if self.rank >= 0 else f"one of {self.ranks} ranks: "

    @property
    def what(self) -> str:
        """Which rank, and why, without the location."""
        if isinstance(self.error, AtcError):
            return self._who + self.error.problems[0].what
        return self._who + f"{type(self.error).__name__}: {self.error}".partition("\n")[0]

    def __str__(self) -> str:
        location = str(self.error.problems[0].where) if isinstance(self.error, AtcError) else ""
        if not location:
            return "atcpy: " + self.what
        return f"atcpy: {self._who}{location}: " + self.what.removeprefix(self._who)


def no_mpi() -> UsageError:
    """The error EI0005: MPI is not installed."""
    hint = "--simulate_ranks runs them in one process"
    return UsageError("EI0005", "collectives need the extra: pip install atcpy[dist]", hint=hint)

"""Which of several ranks this process is, as who started it says, and what of the command line is meant for it."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atcpy.errors import AtcWarning, UsageError, Where

# Each rank's number and how many there are. MPI itself has the last word: `MpiWorld` compares.
_LAUNCHERS = (
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI, srun --mpi=pmi2
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),  # srun --mpi=pmix
)
_RANKED = re.compile(r"(.+)@(\d+)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Launch:
    """One rank of so many."""

    rank: int = 0
    ranks: int = 1


def find_launch() -> Launch:
    """What the environment says; a process that nobody started as a rank is the only one."""
    for name, count in _LAUNCHERS:
        rank, ranks = os.environ.get(name, ""), os.environ.get(count, "")
        if rank.isdecimal() and ranks.isdecimal() and int(rank) < int(ranks):
            return Launch(int(rank), int(ranks))
    return Launch()


@dataclass(frozen=True)
class Several:
    """How many ranks there are, and of which kind."""

    launch: Launch
    ranks: int  # --ranks
    simulated: int  # --simulate_ranks
    groups: str | None
    wait: float

    @property
    def count(self) -> int:
        """How many run. UsageError if that is not clear."""
        launched = self.launch.ranks
        if self.simulated > 1 and max(self.ranks, launched) > 1:
            raise UsageError("E10056", "--simulate_ranks excludes --ranks and mpiexec")
        if launched > 1 and self.ranks not in (1, launched):
            raise UsageError("E10013", f"--ranks {self.ranks}: mpiexec started {launched}", where=Where(option="ranks"))
        return launched if launched > 1 else max(self.ranks, self.simulated)

    def members(self) -> "Mapping[str, Sequence[int]]":
        """The ranks of each group."""
        from atcpy.runtime.groups import NO_GROUPS, read_groups

        return NO_GROUPS if self.groups is None else read_groups(self.groups, self.count)


def for_rank(texts: Sequence[str], names: Sequence[str], rank: int, ranks: int) -> list[str]:
    """The inputs of a rank: those of all, then its own, which are given as NAME@RANK=V; `{rank}` is its number."""
    common: list[str] = []
    own: list[str] = []
    for text in texts:
        match = _RANKED.fullmatch(text)
        if match is None or match[1] not in names or text.startswith(tuple(name + "=" for name in names)):
            common.append(text)
        elif int(match[2]) >= ranks:
            what = f"--input {match[1]}@{match[2]}: there are ranks 0 to {ranks - 1}"
            raise UsageError("E10013", what, where=Where(option="input"))
        elif int(match[2]) == rank:
            own.append(f"{match[1]}={match[3]}")
    return [text.replace("{rank}", str(rank)) if ranks > 1 else text for text in (*common, *own)]


def crowd(ranks: int) -> list[AtcWarning]:
    """W0050 if there are more ranks than cores."""
    cores = len(os.sched_getaffinity(0))
    return [AtcWarning("W0050", f"{ranks} ranks on {cores} cores wait for each other")] if ranks > cores else []

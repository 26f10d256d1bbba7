"""Which rank of how many this process is, and how many ranks a run has."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atcpy.errors import AtcWarning, UsageError, Where

# Each rank's number and the number of ranks. MPI itself has the last word: `check_size` compares.
_LAUNCHERS = (
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI, srun --mpi=pmi2
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),  # srun --mpi=pmix
)


@dataclass(frozen=True, slots=True)
class Launch:
    """The number of this rank, and the number of ranks that were started."""

    rank: int = 0
    ranks: int = 1


def find_launch() -> Launch:
    """Read the environment; a process that no launcher started is the only rank."""
    for name, count in _LAUNCHERS:
        rank, ranks = os.environ.get(name, ""), os.environ.get(count, "")
        if rank.isdecimal() and ranks.isdecimal() and int(rank) < int(ranks):
            return Launch(int(rank), int(ranks))
    return Launch()


@dataclass(frozen=True)
class RankSetup:
    """How many ranks were asked for, and of which kind; `groups` is the file that lists the groups' members."""

    launch: Launch
    ranks: int  # --ranks
    simulated: int  # --simulate_ranks
    groups: str | None
    wait: float

    @property
    def count(self) -> int:
        """The number of ranks that run. Raises UsageError if options contradict each other."""
        launched = self.launch.ranks
        if self.simulated > 1 and max(self.ranks, launched) > 1:
            where = Where(option="simulate_ranks")
            raise UsageError("E10056", "--simulate_ranks excludes --ranks and mpiexec", where=where, hint="give one")
        if launched > 1 and self.ranks not in (1, launched):
            raise UsageError("E10013", f"--ranks {self.ranks}: mpiexec started {launched}", where=Where(option="ranks"))
        return launched if launched > 1 else max(self.ranks, self.simulated)

    def members(self) -> "Mapping[str, Sequence[int]]":
        """The ranks of each group."""
        from atcpy.runtime.distributed.groups import NO_GROUPS, read_groups

        return NO_GROUPS if self.groups is None else read_groups(self.groups, self.count)


def oversubscribed(ranks: int) -> list[AtcWarning]:
    """W0050 if there are more ranks than cores."""
    cores = len(os.sched_getaffinity(0))
    return [AtcWarning("W0050", f"{ranks} ranks on {cores} cores wait for each other")] if ranks > cores else []

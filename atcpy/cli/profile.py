"""`atcpy run --profile`: times the tasks of the runs, writes the trace and shows the time by type of op."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from atcpy.cli.outcome import Outcome
from atcpy.errors import UsageError, Where, count_of
from atcpy.om.atomic import require_writable
from atcpy.report.profile import counter_lines, op_lines, ops_record, roofline_line, times_by_op
from atcpy.report.units import duration
from atcpy.runtime.hardware_counters import HardwareCounters
from atcpy.runtime.profile import MAX_EVENTS, Profile
from atcpy.runtime.roofline import Roofline, measure_roofline
from atcpy.runtime.trace import write_trace

if TYPE_CHECKING:
    from atcpy.runtime.distributed.world import World

Results = TypeVar("Results")
_SHARED = "the peaks are not measured: several ranks share this machine"
_NO_MEMORY = "the peaks are not measured: there is no memory for that"


def check_profile(path: str, *, ranks: int, sandbox: bool, iterations: int | None) -> None:
    """Refuse, before anything runs, a profile that could not be written."""
    where = Where(option="profile")
    if sandbox:
        what = "--profile and --sandbox: what runs in a sandbox writes no file"
        raise UsageError("E10056", what, where=where, hint="give one of them")
    if iterations is not None:
        what = "--profile and --iterations: iterations in C are not timed task by task"
        hint = "without --iterations, or a package of convert --iterations_per_loop"
        raise UsageError("E10056", what, where=where, hint=hint)
    if ranks > 1 and "{rank}" not in path:
        what = f"--profile {path}: {ranks} ranks would write the same file"
        raise UsageError("E10001", what, where=where, hint="--profile profile{rank}.json")
    for rank in range(ranks):
        require_writable(_path_of(path, rank))


def _path_of(path: str, rank: int) -> str:
    return path.replace("{rank}", str(rank))


@dataclass(frozen=True, slots=True)
class ProfiledRuns:
    """Times and counters of runs, and the peaks of the machine or why they are not known."""

    profile: Profile
    counters: HardwareCounters
    roofline: Roofline | None
    unknown: str = ""


def profile_runs(run_all: Callable[[Profile], Results], world: "World", threads: int) -> tuple[Results, ProfiledRuns]:
    """Time what runs, then measure the peaks of so many threads; return what came of the runs, too."""
    profile = Profile()
    with HardwareCounters() as counters:
        results = run_all(profile)
    if world.ranks > 1:
        return results, ProfiledRuns(profile, counters, None, _SHARED)
    try:
        return results, ProfiledRuns(profile, counters, measure_roofline(threads))
    except MemoryError:
        return results, ProfiledRuns(profile, counters, None, _NO_MEMORY)


def add_profile(outcome: Outcome, profiled: ProfiledRuns, path: str, world: "World") -> Outcome:
    """Write the trace, and add the times by type of op to what the command reports."""
    profile, counters, roofline = profiled.profile, profiled.counters, profiled.roofline
    own_path = _path_of(path, world.rank)
    peaks = None if roofline is None else asdict(roofline)
    facts = {
        "dropped": profile.dropped,
        "peaks": peaks,
        "peaks_missing": profiled.unknown,
        "counters": counters.values,
        "counters_missing": counters.missing,
    }
    write_trace(own_path, profile, rank=world.rank, roofline=roofline, notes=facts)
    ops = times_by_op(profile.times(), roofline)
    seconds = sum(end - start for start, end in profile.runs) * 1e-9
    record = {"path": own_path, "runs": len(profile.runs), "seconds": seconds, **facts, "ops": ops_record(ops)}
    lines = ["", *op_lines(ops), ""]
    lines += [profiled.unknown] if roofline is None else [roofline_line(roofline)]
    lines += counter_lines(counters.values, counters.missing)
    lines.append(_written(own_path, profile, seconds))
    assert isinstance(outcome.result, dict)
    return replace(outcome, result={**outcome.result, "profile": record}, lines=[*outcome.lines, *lines])


def _written(path: str, profile: Profile, seconds: float) -> str:
    runs = f"{count_of(len(profile.runs), 'run')} in {duration(seconds)}"
    if not profile.dropped:
        return f"trace of {runs}: {path}"
    return f"trace of the first {MAX_EVENTS:,} launches of {runs}, {profile.dropped:,} more are only added up: {path}"

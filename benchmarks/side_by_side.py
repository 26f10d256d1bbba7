"""Times engines on the same models in turns, each in a process that is stopped while another one is measured.

python benchmarks/side_by_side.py models/generated/resnet50.onnx --threads 1,2 --json figures.json
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

import numpy as np
import typer
from contestant import Contestant, ContestantError, Loaded, TimedRuns
from engines import ENGINES
from feeds import feeds_for, load_arrays, relative_error

EXIT_VERIFY_FAILED: Final = 5
TOLERANCES: Final = {"float32": 1e-4, "bfloat16": 0.05}  # relative to an output's scale
AWAKE_SHARE: Final = 0.01  # more CPU time than this while stopped is reported
BUSY_SHARE: Final = 0.9  # less of each thread's core than this while measured, too
# What `make bench` writes itself is no change.
OWN_FILES: Final = (":(top,exclude)benchmarks/history.jsonl", ":(top,exclude)docs/pictures/history.svg")
MAX_ATTEMPTS: Final = 5  # rounds that are measured for each that is asked for


@dataclass(frozen=True)
class Timing:
    """One engine's times on a model."""

    engine: str
    min_ms: float
    median_ms: float
    runs: int
    prepare_ms: float
    first_result_ms: float
    cpu_share: float
    stopped_cpu_share: float


@dataclass(frozen=True)
class Peer:
    """An engine that ours is compared with; a ratio above 1 means that ours is faster."""

    timing: Timing
    ratio_of_medians: float  # median over the rounds of the ratio within a round, whose runs are adjacent in time
    ratio_of_minima: float
    relative_error: float


@dataclass(frozen=True)
class Comparison:
    """All engines on one model with one number of threads."""

    model: str
    threads: int
    ours: Timing
    peers: tuple[Peer, ...]


def compare(model: Path, ours: str, peers: Sequence[str], threads: int, *, rounds: int, seconds: float) -> Comparison:
    """Times the engines on `model`, A B C A B C …, and compares the results of `ours` with those of each peer."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    feeds = feeds_for(model)
    names = (ours, *peers)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folders = [folder / str(number) for number in range(len(names))]
        for path in folders:
            path.mkdir()
        contestants = [stack.enter_context(Contestant(name, model, cpus)) for name in names]
        loaded = [contestant.load(feeds, path) for contestant, path in zip(contestants, folders, strict=True)]
        for contestant in contestants:
            contestant.time_runs(seconds)  # warms up
        runs = list(zip(*_quiet_rounds(contestants, threads, rounds, seconds), strict=True))
        timings = [
            _timing(name, load, side, contestant.stopped_cpu_share())
            for name, load, side, contestant in zip(names, loaded, runs, contestants, strict=True)
        ]
        outputs = [load_arrays(path / "outputs.npz") for path in folders]
    return Comparison(
        model=model.stem,
        threads=threads,
        ours=timings[0],
        peers=tuple(
            Peer(
                timing=timing,
                ratio_of_medians=median(
                    median(b.times_s) / median(a.times_s) for a, b in zip(runs[0], theirs, strict=True)
                ),
                ratio_of_minima=timing.min_ms / timings[0].min_ms,
                relative_error=relative_error(outputs[0], expected),
            )
            for timing, theirs, expected in zip(timings[1:], runs[1:], outputs[1:], strict=True)
        ),
    )


def _quiet_rounds(contestants: Sequence[Contestant], threads: int, count: int, seconds: float) -> list[list[TimedRuns]]:
    """Measures until there are `count` rounds in which each engine had all of its cores. Returns those, or all rounds
    where there were never enough: an engine may sleep by itself.
    """
    rounds: list[list[TimedRuns]] = []
    quiet: list[list[TimedRuns]] = []
    while len(quiet) < count and len(rounds) < MAX_ATTEMPTS * count:
        rounds.append([contestant.time_runs(seconds) for contestant in contestants])
        if all(runs.cpu_share >= BUSY_SHARE * threads for runs in rounds[-1]):
            quiet.append(rounds[-1])
    return quiet if len(quiet) == count else rounds


def _timing(engine: str, loaded: Loaded, all_runs: tuple[TimedRuns, ...], stopped_cpu_share: float) -> Timing:
    times_ms = [1e3 * time_s for runs in all_runs for time_s in runs.times_s]
    return Timing(
        engine=engine,
        min_ms=min(times_ms),
        median_ms=median(times_ms),
        runs=len(times_ms),
        prepare_ms=1e3 * loaded.prepare_s,
        first_result_ms=1e3 * loaded.first_result_s,
        cpu_share=median(runs.cpu_share for runs in all_runs),
        stopped_cpu_share=stopped_cpu_share,
    )


def render(comparison: Comparison) -> Iterator[str]:
    """Yields one line per engine, and one per ratio."""
    for timing in (*(peer.timing for peer in comparison.peers), comparison.ours):
        remark = ""
        if timing.stopped_cpu_share > AWAKE_SHARE:
            remark = f"   used {timing.stopped_cpu_share:.0%} CPU while stopped"
        elif timing.cpu_share < BUSY_SHARE * comparison.threads:
            remark = f"   only {timing.cpu_share:.0%} CPU: something else ran"
        yield (
            f"{comparison.model:<18}{comparison.threads:>3}  {timing.engine:<14}{timing.min_ms:>10.3f}"
            f"{timing.median_ms:>10.3f}{timing.first_result_ms:>10.1f}{timing.prepare_ms:>10.1f}{remark}"
        )
    for peer in comparison.peers:
        yield (
            f"{f'ratio to {peer.timing.engine}':>33}  {peer.ratio_of_minima:>9.2f}x{peer.ratio_of_medians:>9.2f}x"
            f"     max error {peer.relative_error:.1e} of the output's scale"
        )


def main(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL.onnx...", exists=True, dir_okay=False)],
    threads: Annotated[str, typer.Option(help="numbers of threads, e.g. 1,2")] = "1",
    rounds: Annotated[int, typer.Option(min=1, help="how often each engine is measured")] = 10,
    seconds: Annotated[float, typer.Option(help="duration of a measurement")] = 0.5,
    ours: Annotated[str, typer.Option(help=f"engine to judge: {', '.join(ENGINES)}")] = "atcpy",
    base: Annotated[
        str | None, typer.Option(help="engines to judge it by, by commas; all others of its precision")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="largest error, relative to an output's scale; 1e-4, of bfloat16 0.05")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the figures to this file")] = None,
) -> None:
    """Times engines side by side on each model; exit status 5 if their results differ, 1 if an engine fails."""
    for name in (ours, *([] if base is None else base.split(","))):
        if name not in ENGINES:
            raise typer.BadParameter(f"unknown engine {name}; there are {', '.join(ENGINES)}")
    peers = _installed_peers(ours) if base is None else base.split(",")
    bound = TOLERANCES[ENGINES[ours].precision] if tolerance is None else tolerance
    counts = _parse_threads(threads)
    print(f"{'model':<18}{'thr':>3}  {'engine':<14}{'min ms':>10}{'median':>10}{'first ms':>10}{'convert':>10}")
    comparisons: list[Comparison] = []
    failures: list[str] = []
    for model in models:
        for count in counts:
            try:
                comparison = compare(model, ours, peers, count, rounds=rounds, seconds=seconds)
            except ContestantError as error:
                failures.append(f"{model}: {error}")
                print(failures[-1], flush=True)
                break
            comparisons.append(comparison)
            print("\n".join(render(comparison)), flush=True)
    if len(comparisons) > 1:
        for number, peer in enumerate(peers):
            ratios = [comparison.peers[number].ratio_of_medians for comparison in comparisons]
            print(f"geometric mean of the ratios of medians to {peer}: {np.exp(np.mean(np.log(ratios))):.2f}x")
    if json_file:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        record = {**provenance((ours, *peers)), "comparisons": [asdict(comparison) for comparison in comparisons]}
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if any(peer.relative_error > bound for comparison in comparisons for peer in comparison.peers):
        print(f"results differ by more than {bound:g}")
        raise SystemExit(EXIT_VERIFY_FAILED)
    if failures:
        raise SystemExit(f"not measured: {len(failures)} of {len(models)} models")


def _installed_peers(ours: str) -> list[str]:
    precision = ENGINES[ours].precision
    return [
        name
        for name, engine in ENGINES.items()
        if name != ours and engine.precision == precision and engine.is_installed
    ]


def provenance(names: Sequence[str]) -> dict[str, Any]:
    """What figures were measured with: machine, commit, date, and versions of the engines with these names."""
    from atcpy.cli.bench import machine

    return {
        "machine": machine(),
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: ENGINES[name].version for name in names},
    }


def _commit() -> str | None:
    """The commit of this clone, marked if files were changed since; None outside a clone."""
    try:
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *OWN_FILES)
        return _git("rev-parse", "--short=8", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _parse_threads(text: str) -> list[int]:
    counts = [int(word) if word.isdecimal() else 0 for word in text.split(",")]
    available = len(os.sched_getaffinity(0))
    if not all(1 <= count <= available for count in counts):
        raise typer.BadParameter(f"{text}: numbers from 1 to {available}, the CPUs here", param_hint="--threads")
    return counts


if __name__ == "__main__":
    typer.run(main)

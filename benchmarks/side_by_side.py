"""Times two engines on the same models alternately, each in a process that is stopped while the other is measured.

python benchmarks/side_by_side.py models/generated/resnet50.onnx --threads 1,2
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import numpy as np
import typer
from contestant import Contestant, ContestantError, Loaded, TimedRuns
from engines import ENGINES
from feeds import feeds_for, load_arrays, relative_error

EXIT_VERIFY_FAILED: Final = 5
AWAKE_SHARE: Final = 0.01  # more CPU time than this while stopped is reported


@dataclass(frozen=True)
class Timing:
    """One engine's side of a comparison."""

    engine: str
    min_ms: float
    median_ms: float
    runs: int
    prepare_ms: float
    first_result_ms: float
    cpu_share: float
    stopped_cpu_share: float


@dataclass(frozen=True)
class Comparison:
    """Both engines on one model with one number of threads; a ratio above 1 means that ours is faster."""

    model: str
    threads: int
    ours: Timing
    base: Timing
    ratio_of_medians: float  # median over the rounds of the ratio within a round, whose runs are adjacent in time
    ratio_of_minima: float
    relative_error: float


def compare(model: Path, names: tuple[str, str], threads: int, *, rounds: int, seconds: float) -> Comparison:
    """Times the engines `names` (ours, base) on `model`, A B A B …, and compares their results."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    feeds = feeds_for(model)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folders = [folder / side for side in ("ours", "base")]
        for path in folders:
            path.mkdir()
        contestants = [stack.enter_context(Contestant(name, model, cpus)) for name in names]
        loaded = [contestant.load(feeds, path) for contestant, path in zip(contestants, folders, strict=True)]
        for contestant in contestants:
            contestant.time_runs(seconds)  # warms up
        by_round = [[contestant.time_runs(seconds) for contestant in contestants] for _ in range(rounds)]
        ours, base = (
            _timing(name, load, side, contestant.stopped_cpu_share())
            for name, load, side, contestant in zip(
                names, loaded, zip(*by_round, strict=True), contestants, strict=True
            )
        )
        outputs = [load_arrays(path / "outputs.npz") for path in folders]
    return Comparison(
        model=model.stem,
        threads=threads,
        ours=ours,
        base=base,
        ratio_of_medians=median(median(b.times_s) / median(a.times_s) for a, b in by_round),
        ratio_of_minima=base.min_ms / ours.min_ms,
        relative_error=relative_error(*outputs),
    )


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
    """Yields one line per engine, and the ratio."""
    for timing in (comparison.base, comparison.ours):
        remark = ""
        if timing.stopped_cpu_share > AWAKE_SHARE:
            remark = f"   used {timing.stopped_cpu_share:.0%} CPU while stopped"
        elif timing.cpu_share < 0.9:
            remark = f"   only {timing.cpu_share:.0%} CPU: something else ran"
        yield (
            f"{comparison.model:<18}{comparison.threads:>3}  {timing.engine:<12}{timing.min_ms:>10.3f}"
            f"{timing.median_ms:>10.3f}{timing.first_result_ms:>10.1f}{timing.prepare_ms:>10.1f}{remark}"
        )
    yield (
        f"{'':<23}{'ratio':<12}{comparison.ratio_of_minima:>9.2f}x{comparison.ratio_of_medians:>9.2f}x"
        f"     max error {comparison.relative_error:.1e} of the output's scale"
    )


def main(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL.onnx...", exists=True, dir_okay=False)],
    threads: Annotated[str, typer.Option(help="numbers of threads, e.g. 1,2")] = "1",
    rounds: Annotated[int, typer.Option(min=1, help="how often each engine is measured")] = 10,
    seconds: Annotated[float, typer.Option(help="duration of a measurement")] = 0.5,
    ours: Annotated[str, typer.Option(help=f"engine to judge: {', '.join(ENGINES)}")] = "atcpy",
    base: Annotated[str, typer.Option(help="engine to judge it by")] = "onnxruntime",
    tolerance: Annotated[float, typer.Option(help="largest error, relative to an output's scale")] = 1e-4,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the figures to this file")] = None,
) -> None:
    """Times two engines side by side on each model; exit status 5 if their results differ."""
    for name in (ours, base):
        if name not in ENGINES:
            raise typer.BadParameter(f"unknown engine {name}; there are {', '.join(ENGINES)}")
    counts = _parse_threads(threads)
    print(f"{'model':<18}{'thr':>3}  {'engine':<12}{'min ms':>10}{'median':>10}{'first ms':>10}{'convert':>10}")
    comparisons: list[Comparison] = []
    for model in models:
        for count in counts:
            try:
                comparison = compare(model, (ours, base), count, rounds=rounds, seconds=seconds)
            except ContestantError as error:
                raise SystemExit(f"{model}: {error}") from error
            comparisons.append(comparison)
            print("\n".join(render(comparison)), flush=True)
    if len(comparisons) > 1:
        mean = np.exp(np.mean(np.log([comparison.ratio_of_medians for comparison in comparisons])))
        print(f"geometric mean of the ratios of medians: {mean:.2f}x")
    if json_file:
        json_file.write_text(json.dumps([asdict(comparison) for comparison in comparisons], indent=1) + "\n")
    if any(comparison.relative_error > tolerance for comparison in comparisons):
        print(f"results differ by more than {tolerance:g}")
        raise SystemExit(EXIT_VERIFY_FAILED)


def _parse_threads(text: str) -> list[int]:
    counts = [int(word) if word.isdecimal() else 0 for word in text.split(",")]
    available = len(os.sched_getaffinity(0))
    if not all(1 <= count <= available for count in counts):
        raise typer.BadParameter(f"{text}: numbers from 1 to {available}, the CPUs here", param_hint="--threads")
    return counts


if __name__ == "__main__":
    typer.run(main)

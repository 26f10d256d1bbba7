"""Benchmarks as tables."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from atcpy.errors import count_of
from atcpy.report.columns import table
from atcpy.report.units import duration, rate

if TYPE_CHECKING:
    from atcpy.bench.layers import LayerTime
    from atcpy.bench.rounds import Measured, Ratio
    from atcpy.bench.saved import Comparison
    from atcpy.bench.streams import StreamTimes

_LAYERS_SHOWN = 40


def measured_lines(measured: "Measured", threads: int) -> Iterator[str]:
    """The times of each side, how the first compares with the others, and how much each does in a second."""
    rows = []
    for side in measured.sides:
        rows.append((side.name, *map(duration, (side.median, side.p90, side.min, side.load, side.first))))
    yield from table(("", "median", "p90", "min", "load", "first run"), rows)
    others = measured.sides[1:]
    runs = f"{measured.interleaved_runs} {'interleaved ' if others else ''}runs"
    setting = f"{runs}, {count_of(threads, 'thread')}, cores {ranges(sorted(os.sched_getaffinity(0)))}"
    if not others:
        yield setting
    for side in others:
        assert side.ratio is not None
        yield f"ratio {f'to {side.name} ' if len(others) > 1 else ''}{_ratio(side.ratio, setting)}"
    yield ""
    rates = (
        (
            *(side.name, f"{side.runs_per_second:.1f}"),
            "-" if side.samples_per_second is None else f"{side.samples_per_second:.1f}",
            *map(duration, (side.p95, side.p99)),
        )
        for side in measured.sides
    )
    yield from table(("", "runs/s", "samples/s", "p95", "p99"), rates, right=(1, 2))


def _ratio(ratio: "Ratio", setting: str = "") -> str:
    low, high = ratio.ci
    return f"{ratio.ratio:.2f}× {ratio.verdict} (95 % CI {low:.2f}–{high:.2f}{', ' if setting else ''}{setting})"


def stream_lines(package: str, times: "StreamTimes") -> Iterator[str]:
    """What streams save."""
    row = (package, times.sections, times.streams, *map(duration, (times.with_streams, times.without_streams)))
    head = ("", "sections", "streams", "with streams", "without", "ratio")
    yield from table(head, [(*row, _ratio(times.ratio))], right=(1, 2, 3, 4))


def layer_lines(layers: "Sequence[LayerTime]") -> Iterator[str]:
    """The slowest tasks."""
    slowest = sorted(layers, key=lambda layer: -layer.median)[:_LAYERS_SHOWN]
    rows = [
        (
            *(layer.task, layer.op, layer.kernel, duration(layer.median), f"{layer.share:.1%}"),
            *(rate(layer.gflops_per_second), rate(layer.gbytes_per_second)),
            "-" if layer.floor is None else duration(layer.floor),
            "-" if layer.roofline is None else f"{layer.roofline:.0%}",
            ", ".join(layer.nodes),
        )
        for layer in slowest
    ]
    head = ("task", "op", "kernel", "time", "share", "GFLOP/s", "GB/s", "floor", "roofline", "nodes")
    yield from table(head, rows, right=(0, *range(3, 9)))
    if len(layers) > len(slowest):
        yield f"and {len(layers) - len(slowest)} faster ones (--json lists all)"


def idle_line(layers: "Sequence[LayerTime]", threads: int) -> str:
    """What more threads would wait, by the items of each task."""
    from atcpy.bench.layers import SIMULATED_THREADS, idle_share

    shares = ", ".join(f"{count}: {idle_share(layers, threads, count):.0%}" for count in SIMULATED_THREADS)
    return f"idle share of so many threads, if all items of a task take equally long: {shares}"


def comparison_lines(comparison: "Comparison") -> Iterator[str]:
    """Each side and the tasks whose time is another, beside those of the saved benchmark."""
    package = "the same package" if comparison.same_package else "another package"
    yield f"against {comparison.file}: {package}, atcpy {comparison.version}"
    for side in comparison.sides:
        times = f"{duration(side.after)}, was {duration(side.before)}"
        yield f"  {side.name}  {_ratio(side.ratio)}  {times}"
    changed = [layer for layer in comparison.layers if layer.ratio.verdict != "same"]
    most = sorted(changed, key=lambda layer: -abs(layer.after - layer.before))[:_LAYERS_SHOWN]
    rows = [
        (
            *(layer.op, duration(layer.before), duration(layer.after)),
            *(f"{layer.ratio.ratio:.2f}×", layer.ratio.verdict, ", ".join(layer.nodes)),
        )
        for layer in most
    ]
    if rows:
        yield from table(("op", "before", "now", "ratio", "", "nodes"), rows, right=(1, 2, 3))
    if comparison.layers:
        more = f", {len(changed) - len(most)} more changed" if len(changed) > len(most) else ""
        unmatched = f", {comparison.unmatched_layers} in one only" if comparison.unmatched_layers else ""
        same = len(comparison.layers) - len(changed)
        yield f"{count_of(same, 'task')} the same{more}{unmatched}"


def ranges(numbers: list[int]) -> str:
    """`0-1,4` for 0, 1 and 4."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if first != last else f"{first}" for first, last in parts)

"""Times the layers of models against the roofline, and shows how evenly each divides among more threads.

    python benchmarks/rooflines.py models/generated/resnet50.onnx … --out build/bench/layers

Writes what `atcpy bench --layers` measures of each model to NAME.json, its layers on the roofline to NAME.svg, and
prints three tables as Markdown: models against the sum of their floors, the layers that lose most, and the share of
their time that more threads would wait, with the layers that cause it.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from feeds import feeds_for
from pictures import MAX_SERIES, picture

import atcpy
from atcpy.bench.layers import SIMULATED_THREADS, LayerTime, idle_share
from atcpy.report.page.markup import Html
from atcpy.report.page.measured import MeasuredTask, read_bench
from atcpy.report.page.roofline import FAMILY_COLORS, draw_roofline
from atcpy.report.units import rate
from atcpy.runtime.roofline import Roofline

MARGIN: Final = 16.0
WORST: Final = 5  # layers of a model in the tables
# The colours of circles are those of series.
RULES: Final = " ".join(
    (
        ".chart .roof { stroke: #8794a1; stroke-width: 2; fill: none } .chart .grid { fill: none }",
        ".chart .dot { fill-opacity: .6; stroke: #737373; stroke-width: .5 }",
    )
)
assert FAMILY_COLORS < MAX_SERIES


@dataclass(frozen=True)
class Timed:
    """The layers of a model, measured with `threads`."""

    model: str
    threads: int
    layers: tuple[LayerTime, ...]
    peaks: Roofline

    @property
    def seconds(self) -> float:
        """The sum of the layers."""
        return sum(layer.median for layer in self.layers)

    @property
    def floor(self) -> float:
        """The sum of their floors; a layer without one counts as its time."""
        return sum(layer.median if layer.floor is None else layer.floor for layer in self.layers)

    def gain(self, layer: LayerTime, threads: int) -> float:
        """Seconds that so many threads would save if the layer kept all of them busy."""
        busy = {each.threads: each.busy for each in layer.busy_threads}
        return layer.median * busy[self.threads] * (1 / busy[threads] - 1 / threads)


def time_model(model: Path, threads: int, seconds: float, folder: Path) -> Timed:
    """Convert and time a model, and write its figures and its picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        package = Path(temporary) / f"{model.stem}.om"
        atcpy.convert(model, package)
        figures = folder / f"{model.stem}.json"
        result = atcpy.bench(
            package, layers=True, input_data=feeds_for(model), threads=threads, min_time=seconds, save=figures
        )
    assert result.peaks is not None, "with layers"
    measured = read_bench(str(figures))
    drawn = draw(model.stem, measured.tasks, result.peaks)
    if drawn is not None:
        (folder / f"{model.stem}.svg").write_text(drawn, encoding="utf-8")
    return Timed(model.stem, threads, result.layers, result.peaks)


def draw(name: str, tasks: Sequence[MeasuredTask], peaks: Roofline) -> str | None:
    """The layers on the roofline, as a file; None where none sums products."""
    chart = draw_roofline(tasks, peaks)
    if chart is None:
        return None
    width, height = (float(chart.partition(f' {side}="')[2].partition('"')[0]) for side in ("width", "height"))
    inner = Html(chart.replace("<svg ", f'<svg x="{MARGIN:.0f}" y="{MARGIN:.0f}" ', 1))
    for number in range(FAMILY_COLORS + 1):
        inner = Html(inner.replace(f'class="dot f{number}"', f'class="dot fill{number}"'))
    return picture(f"{name} on the roofline", width + 2 * MARGIN, height + 2 * MARGIN, [inner], RULES)


def model_table(timed: Sequence[Timed]) -> Iterator[str]:
    """Each model against its floor."""
    yield "| model | threads | layers | time, ms | floor, ms | roofline | GFLOP/s | GB/s |"
    yield "| --- |" + " ---: |" * 7
    for each in timed:
        flops = sum(layer.flops or 0 for layer in each.layers)
        moved = sum(layer.read_bytes + layer.written_bytes for layer in each.layers)
        rates = (rate(amount * 1e-9 / each.seconds) for amount in (flops, moved))
        cells = (each.threads, len(each.layers), f"{1e3 * each.seconds:.3g}", f"{1e3 * each.floor:.3g}")
        columns = (*map(str, cells), f"{each.floor / each.seconds:.0%}", *rates)
        yield f"| `{each.model}` | {' | '.join(columns)} |"


def worst_table(timed: Sequence[Timed]) -> Iterator[str]:
    """The layers of each model that lose most against their floor; those of one cost are one row."""
    yield "| model | layer | kernel | time, µs | floor, µs | roofline | GFLOP/s | GB/s | lost of the model |"
    yield "| --- | --- | --- |" + " ---: |" * 6
    for each in timed:
        for layer, count, lost in _worst(each.layers, _lost):
            floor, share = layer.floor or 0.0, layer.roofline or 0.0
            cells = (f"{1e6 * layer.median:.3g}", f"{1e6 * floor:.3g}", f"{share:.0%}")
            rates = (rate(layer.gflops_per_second), rate(layer.gbytes_per_second), f"{lost / each.seconds:.1%}")
            yield f"| `{each.model}` | {_name(layer, count)} | {layer.kernel} | {' | '.join((*cells, *rates))} |"


def _lost(layer: LayerTime) -> float:
    return 0.0 if layer.floor is None else layer.median - layer.floor


def _worst(layers: Sequence[LayerTime], loss: Callable[[LayerTime], float]) -> Iterator[tuple[LayerTime, int, float]]:
    """Of layers of one kernel and cost, the one of median time, how many there are, and what they lose together: the
    groups that lose most.
    """
    groups: dict[tuple[object, ...], list[LayerTime]] = defaultdict(list)
    for layer in layers:
        groups[layer.kernel, layer.flops, layer.read_bytes, layer.written_bytes, layer.items].append(layer)
    losses = [(sum(map(loss, group)), group) for group in groups.values()]
    for lost, group in sorted(losses, key=lambda pair: -pair[0])[:WORST]:
        if lost > 0:
            yield sorted(group, key=lambda layer: layer.median)[len(group) // 2], len(group), lost


def idle_table(timed: Sequence[Timed]) -> Iterator[str]:
    """The share of their time that more threads would wait."""
    yield "| model |" + "".join(f" {threads} threads |" for threads in SIMULATED_THREADS)
    yield "| --- |" + " ---: |" * len(SIMULATED_THREADS)
    for each in timed:
        shares = (idle_share(each.layers, each.threads, threads) for threads in SIMULATED_THREADS)
        yield f"| `{each.model}` | {' | '.join(f'{share:.0%}' for share in shares)} |"


def uneven_table(timed: Sequence[Timed], threads: int) -> Iterator[str]:
    """The layers of each model that so many threads would gain most of, if their items divided evenly."""
    yield f"| model | layer | kernel | items | idle of {threads} | time of one thread, µs |"
    yield "| --- | --- | --- | ---: | ---: | ---: |"
    for each in timed:
        for layer, count, _ in _worst(each.layers, partial(each.gain, threads=threads)):
            busy = {of.threads: of.busy for of in layer.busy_threads}
            idle, alone = 1 - busy[threads] / threads, layer.median * busy[each.threads]
            cells = (str(layer.items), f"{idle:.0%}", f"{1e6 * alone:.3g}")
            yield f"| `{each.model}` | {_name(layer, count)} | {layer.kernel} | {' | '.join(cells)} |"


def _name(layer: LayerTime, count: int) -> str:
    others = f", {count - 1} more" if count > 1 else ""
    return f"{layer.op} {layer.nodes[-1] if layer.nodes else ''}{others}"


def main(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL.onnx...", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Option(help="folder for figures and pictures")],
    threads: Annotated[int, typer.Option(min=1, help="number of threads to measure with")] = 1,
    seconds: Annotated[float, typer.Option(help="duration of the runs before the layers are timed")] = 0.5,
    uneven: Annotated[int, typer.Option(help=f"of {SIMULATED_THREADS}: for which threads to list layers")] = 16,
) -> None:
    """Times layers, and prints tables."""
    timed = [time_model(model, threads, seconds, out) for model in models]
    for lines in (model_table(timed), worst_table(timed), idle_table(timed), uneven_table(timed, uneven)):
        print("\n".join(lines), end="\n\n")


if __name__ == "__main__":
    typer.run(main)

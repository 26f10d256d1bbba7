"""Appends the figures of side_by_side.py to a history, and draws its ratios by commit.

    python benchmarks/history.py build/bench/figures.json --history benchmarks/history.jsonl --svg history.svg

The history has a line of JSON for each model and number of threads of a measurement: machine, instruction set, commit,
date, versions, shortest times in ms, and the ratios of those. The picture shows the measurements of the machine of the
last line, whatever instruction set: keep those that ATCPY_ISA limits in another file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pictures import LETTER, MAX_SERIES, LogAxis, picture, text
from ratio_plot import NAMES, Figures, read_figures

from atcpy.errors import count_of
from atcpy.report.page.markup import Html, element

Line = dict[str, Any]
Point = tuple[float, float]
COLUMNS, WIDTH, HEIGHT, LEFT, TOP, GAP = 3, 280.0, 130.0, 44.0, 84.0, 44.0


def lines_of(figures: Figures) -> Iterator[Line]:
    """The lines of a measurement."""
    for each in figures.figures:
        yield {
            "machine": f"{figures.cpu}, {figures.cores} cores",
            "isa": figures.isa,
            "commit": figures.commit,
            "date": figures.dates[-1],
            "versions": figures.versions,
            "model": each.model,
            "threads": each.threads,
            "min_ms": {"atcpy": each.min_ms} | {peer.engine: peer.min_ms for peer in each.peers},
            "ratios": {peer.engine: round(peer.ratio, 4) for peer in each.peers},
        }


def read_history(path: Path) -> list[Line]:
    """The lines of a history, oldest first; none where there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def append(path: Path, figures: Figures) -> list[Line]:
    """Append a measurement, unless the history has its lines already. Returns all lines."""
    history = read_history(path)
    more = [line for line in lines_of(figures) if line not in history]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in more)
    return history + more


def draw(history: Sequence[Line]) -> str:
    """The picture: a panel for each model, in it a line for each peer and number of threads over the commits."""
    machine = history[-1]["machine"]
    lines = [line for line in history if line["machine"] == machine]
    commits = list(dict.fromkeys(line["commit"] for line in lines))
    series = list(dict.fromkeys((engine, line["threads"]) for line in lines for engine in line["ratios"]))[:MAX_SERIES]
    models = list(dict.fromkeys(line["model"] for line in lines))
    all_ratios = [ratio for line in lines for ratio in line["ratios"].values()]
    parts = [text("How many times faster atcpy is, by commit", 16, 26, style="font-size: 16px; font-weight: 600")]
    parts += _legend(series)
    for number, model in enumerate(models):
        left = LEFT + (WIDTH + GAP) * (number % COLUMNS)
        bottom = TOP + (HEIGHT + GAP) * (number // COLUMNS) + HEIGHT
        axis = LogAxis(all_ratios, bottom, -HEIGHT)
        ratios = {(line["commit"], line["threads"]): line["ratios"] for line in lines if line["model"] == model}
        parts += _panel(model, axis, left, bottom)
        for color, (engine, threads) in enumerate(series):
            points = [
                (left + WIDTH * (place + 0.5) / len(commits), axis.at(ratios[commit, threads][engine]))
                for place, commit in enumerate(commits)
                if engine in ratios.get((commit, threads), ())
            ]
            parts += _series(points, color)
        if number + COLUMNS >= len(models):
            parts += _commits(commits, left, bottom)
    rows = -(-len(models) // COLUMNS)
    width = LEFT + (WIDTH + GAP) * min(COLUMNS, len(models))
    foot = f"Ratios of the shortest times, above 1 atcpy is faster. {machine}"
    height = TOP + (HEIGHT + GAP) * rows + 24
    parts.append(text(foot, 16, height - 14))
    return picture("Ratios by commit", max(width, 32 + LETTER * len(foot)), height, parts)


def _legend(series: Sequence[tuple[str, int]]) -> Iterator[Html]:
    x = 16.0
    for color, (engine, threads) in enumerate(series):
        label = f"than {NAMES.get(engine, engine)}, {count_of(threads, 'thread')}"
        yield element("rect", x=f"{x:.1f}", y="40", width="12", height="12", class_=f"fill{color}")
        yield text(label, x + 18, 51)
        x += 18 + LETTER * len(label) + 16


def _panel(model: str, axis: LogAxis, left: float, bottom: float) -> Iterator[Html]:
    yield text(model, left, bottom - HEIGHT - 6, style="font-weight: 600")
    for tick in axis.ticks():
        y = axis.at(tick)
        yield element("path", d=f"M{left:.1f} {y:.1f}h{WIDTH:.1f}", class_="one" if tick == 1.0 else "grid")
        yield text(f"{tick:g}", left - 6, y + 4, text_anchor="end", style="font-size: 10px")


def _series(points: Sequence[Point], color: int) -> Iterator[Html]:
    if len(points) > 1:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        yield element("path", d=f"M{path}", class_=f"line{color}")
    for x, y in points:
        yield element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="3", class_=f"fill{color}")


def _commits(commits: Sequence[str], left: float, bottom: float) -> Iterator[Html]:
    """The commits below a panel, as many as there is room for."""
    every = max(1, round(8 * LETTER * len(commits) / WIDTH))
    for place, commit in enumerate(commits):
        if place % every == 0 or place == len(commits) - 1:
            x = left + WIDTH * (place + 0.5) / len(commits)
            yield text(commit[:8], x, bottom + 14, text_anchor="middle", style="font-size: 10px")


def main(
    files: Annotated[list[Path], typer.Argument(metavar="FIGURES.json...", exists=True, dir_okay=False)],
    history: Annotated[Path, typer.Option(help="file of JSON lines to append to")],
    svg: Annotated[Path, typer.Option(help="file to write the picture to")],
) -> None:
    """Appends figures to a history, and draws it."""
    try:
        lines = append(history, read_figures(files))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="FIGURES.json") from error
    svg.write_text(draw(lines), encoding="utf-8")
    print(f"{count_of(len(lines), 'line')} in {history}, drawn as {svg}")


if __name__ == "__main__":
    typer.run(main)

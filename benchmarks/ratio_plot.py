"""Draws the figures of side_by_side.py: how many times faster than each peer, by model and number of threads.

python benchmarks/ratio_plot.py figures.json more.json --svg ratios.svg     # and the table, as Markdown

Ratios lie on a logarithmic axis, so that twice as fast is as far from 1 as twice as slow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pictures import LETTER, LogAxis, picture, text

from atcpy.errors import count_of
from atcpy.report.page.markup import Html, element

NAMES: Final = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "openvino-bf16": "OpenVINO in bfloat16"}
MAX_PEERS: Final = 3
BAR, GAP, TOP, PANEL, MARGIN = 12.0, 10.0, 86.0, 300.0, 16.0


@dataclass(frozen=True)
class PeerTime:
    """A peer's shortest time on a model, and how many times faster ours is."""

    engine: str
    min_ms: float
    ratio: float


@dataclass(frozen=True)
class Figure:
    """What was measured of a model with one number of threads."""

    model: str
    threads: int
    min_ms: float
    peers: tuple[PeerTime, ...]


@dataclass(frozen=True)
class Figures:
    """What was measured on one machine, of one commit."""

    cpu: str
    cores: int
    isa: str
    commit: str
    dates: tuple[str, ...]
    versions: dict[str, str]
    figures: tuple[Figure, ...]

    @property
    def machine(self) -> str:
        """What was measured on."""
        return f"{self.cpu}, {self.isa}, {self.cores} cores"

    @property
    def models(self) -> list[str]:
        """The models in the order in which they were measured."""
        return list(dict.fromkeys(figure.model for figure in self.figures))

    @property
    def threads(self) -> list[int]:
        """The numbers of threads, ascending."""
        return sorted({figure.threads for figure in self.figures})

    @property
    def engines(self) -> list[str]:
        """The peers, in order."""
        return list(dict.fromkeys(peer.engine for figure in self.figures for peer in figure.peers))

    @property
    def our_version(self) -> str:
        """The version of atcpy, whatever it computed in."""
        return next(version for name, version in self.versions.items() if name.split("-")[0] == "atcpy")

    def of(self, model: str, threads: int) -> Figure | None:
        """The figure of a model with so many threads."""
        return next((each for each in self.figures if (each.model, each.threads) == (model, threads)), None)


def read_figures(paths: Sequence[Path]) -> Figures:
    """Reads files that side_by_side.py wrote. Raises ValueError if they are of different machines, commits or versions:
    their ratios do not belong into one picture.
    """
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    for path, record in zip(paths, records, strict=True):
        for key in ("machine", "commit", "versions"):
            if record[key] != records[0][key]:
                raise ValueError(f"{path}: {key} is {record[key]}, in {paths[0]} it is {records[0][key]}")
    machine = records[0]["machine"]
    return Figures(
        cpu=machine["cpu"],
        cores=len(machine["cores"]),
        isa=machine["isa"],
        commit=records[0]["commit"] or "unknown",
        dates=tuple(sorted({record["date"] for record in records})),
        versions=records[0]["versions"],
        figures=tuple(_figure(each) for record in records for each in record["comparisons"]),
    )


def _figure(comparison: dict[str, Any]) -> Figure:
    peers = (
        PeerTime(peer["timing"]["engine"], peer["timing"]["min_ms"], peer["ratio_of_minima"])
        for peer in comparison["peers"]
    )
    return Figure(comparison["model"], comparison["threads"], comparison["ours"]["min_ms"], tuple(peers))


def draw(figures: Figures) -> str:
    """The picture: a panel for each number of threads, in it a group of bars for each model. Raises ValueError where
    nothing was measured, or against more peers than there are colours.
    """
    ratios = [peer.ratio for figure in figures.figures for peer in figure.peers]
    if not ratios or len(figures.engines) > MAX_PEERS:
        raise ValueError(f"{len(ratios)} ratios to {len(figures.engines)} peers: one to {MAX_PEERS} can be drawn")
    group = BAR * len(figures.engines) + GAP
    names = MARGIN + LETTER * max(map(len, figures.models)) + 12
    bottom = TOP + group * len(figures.models)
    foot = (
        "Ratios of the shortest times, on a logarithmic axis: above 1 atcpy is faster.",
        f"{figures.machine} · commit {figures.commit} · {' to '.join(figures.dates)}",
    )
    widths = (names + (PANEL + MARGIN) * len(figures.threads), 2 * MARGIN + LETTER * max(map(len, foot)))
    width, height = max(widths), bottom + 76
    parts = [
        *_head(figures),
        *(
            text(model, names - 10, TOP + group * (row + 0.5) - 1, text_anchor="end")
            for row, model in enumerate(figures.models)
        ),
    ]
    for number, threads in enumerate(figures.threads):
        axis = LogAxis(ratios, names + number * (PANEL + MARGIN), PANEL)
        parts += _panel(figures, threads, axis, group, bottom)
    parts += (text(line, MARGIN, bottom + 46 + 18 * number) for number, line in enumerate(foot))
    return picture(f"Speed of atcpy against {' and '.join(map(_name, figures.engines))}", width, height, parts)


def _name(engine: str) -> str:
    return NAMES.get(engine, engine)


def _head(figures: Figures) -> Iterator[Html]:
    """The title, and what each colour stands for."""
    title = f"How many times faster atcpy {figures.our_version} is"
    yield text(title, MARGIN, 26, style="font-size: 16px; font-weight: 600")
    x = MARGIN
    for number, engine in enumerate(figures.engines):
        label = f"than {_name(engine)} {figures.versions[engine]}"
        yield element("rect", x=f"{x:.1f}", y="40", width="12", height="12", class_=f"fill{number}")
        yield text(label, x + 18, 51)
        x += 18 + LETTER * len(label) + 16


def _panel(figures: Figures, threads: int, axis: LogAxis, group: float, bottom: float) -> Iterator[Html]:
    yield text(count_of(threads, "thread"), axis.at(1.0), TOP - 10, text_anchor="middle")
    for tick in axis.ticks():
        kind = "one" if tick == 1.0 else "grid"
        yield element("path", d=f"M{axis.at(tick):.1f} {TOP}V{bottom:.1f}", class_=kind)
        yield text(f"{tick:g}", axis.at(tick), bottom + 16, text_anchor="middle")
    for row, model in enumerate(figures.models):
        figure = figures.of(model, threads)
        for peer in figure.peers if figure else ():
            number = figures.engines.index(peer.engine)
            assert figure is not None
            yield from _bar(figure, peer, number, axis, TOP + group * row + GAP / 2 + BAR * number)


def _bar(figure: Figure, peer: PeerTime, number: int, axis: LogAxis, y: float) -> Iterator[Html]:
    start, end = sorted((axis.at(1.0), axis.at(peer.ratio)))
    times = f"{figure.min_ms:.3g} ms, {_name(peer.engine)} {peer.min_ms:.3g} ms"
    title = element("title", f"{figure.model}, {count_of(figure.threads, 'thread')}: {times}")
    yield element(
        "rect", title, x=f"{start:.1f}", y=f"{y + 1:.1f}", width=f"{max(end - start, 1):.1f}", height=f"{BAR - 2}",
        class_=f"fill{number}",
    )  # fmt: skip
    faster = peer.ratio >= 1
    anchor, x = ("start", end + 4) if faster else ("end", start - 4)
    yield text(f"{peer.ratio:.2f}", x, y + BAR - 2, text_anchor=anchor, style="font-size: 10px")


def table(figures: Figures) -> Iterator[str]:
    """The figures as a table of Markdown, a row for each model and number of threads."""
    engines = figures.engines
    yield " | ".join(("| model", "threads", "atcpy, ms", *(f"{_name(e)}, ms | ratio" for e in engines))) + " |"
    yield "| --- |" + " ---: |" * (2 + 2 * len(engines))
    for each in figures.figures:
        peers = {peer.engine: f"{peer.min_ms:.3g} | {peer.ratio:.2f}" for peer in each.peers}
        cells = [peers.get(engine, "– | –") for engine in engines]
        yield " | ".join((f"| `{each.model}`", str(each.threads), f"{each.min_ms:.3g}", *cells)) + " |"


def main(
    files: Annotated[list[Path], typer.Argument(metavar="FIGURES.json...", exists=True, dir_okay=False)],
    svg: Annotated[Path, typer.Option(help="file to write the picture to")],
) -> None:
    """Draws the figures, and prints them as a table."""
    try:
        figures = read_figures(files)
        drawn = draw(figures)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="FIGURES.json") from error
    svg.write_text(drawn, encoding="utf-8")
    print("\n".join(table(figures)))


if __name__ == "__main__":
    typer.run(main)

"""Every case on every engine: `make conformance`, which is `python -m tests.conformance`.

Writes docs/conformance.md; fails when a case of passing.txt does not pass.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from tests.conformance.cases import load_cases
from tests.conformance.engines import ENGINES
from tests.conformance.outcome import read_outcomes, write_outcomes
from tests.conformance.page import page
from tests.conformance.ratchet import passing, read_ratchet, write_ratchet
from tests.conformance.runner import run_cases
from tests.effort import one_in

REPO = Path(__file__).parents[2]
PAGE = REPO / "docs" / "conformance.md"
OUTCOMES = REPO / "build" / "conformance.json"


def main(
    *,
    only: Annotated[str, typer.Option(help="the cases that this regular expression finds; no page is written")] = "",
    engine: Annotated[list[str], typer.Option(help="this engine; what the others did stands in the outcomes")] = [],  # noqa: B006  # typer's way to say a list
    accept: Annotated[bool, typer.Option("--accept", help="add what passes now to passing.txt")] = False,
    share: Annotated[int, typer.Option("--one-in", help="every Nth case, others each day; no page is written")] = 1,
    workers: Annotated[int, typer.Option(help="processes")] = 2,
    outcomes: Annotated[Path, typer.Option(help="where all outcomes are kept, as JSON")] = OUTCOMES,
) -> None:
    """Runs the cases, compares with passing.txt, and writes the page."""
    cases = one_in(share, [case for case in load_cases() if re.search(only, case.name)])
    is_part = bool(only) or share > 1
    engines = engine or list(ENGINES)
    with Progress() as progress:
        task = progress.add_task("cases", total=len(cases) * len(engines))
        results = run_cases(cases, engines, workers=workers, seen=lambda outcome: progress.advance(task))
    for name, found in results.items():
        counts = Counter(outcome.status.value for outcome in found.values())
        print(f"{name}: " + ", ".join(f"{count} {status}" for status, count in counts.most_common()))
    ours = results.get("atcpy", {})
    kept = read_outcomes(outcomes)
    kept = {name: {**kept.get(name, {}), **results.get(name, {})} for name in ENGINES}
    write_outcomes(outcomes, kept)
    if not is_part and all(kept.values()):
        PAGE.write_text(page({name: {case.name: kept[name][case.name] for case in cases} for name in kept}), "utf-8")
    must, passed = set(read_ratchet()), passing(ours)
    stopped = sorted((must - passed) & set(ours)) if is_part else sorted(must - passed if ours else ())
    for name in stopped:
        print(f"stopped passing: {name}: {ours.get(name, 'there is no such case')}")
    if accept:
        write_ratchet(must | passed)
    elif passed - must:
        print(f"{len(passed - must)} more pass: make conformance ACCEPT=1")
    if stopped:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)

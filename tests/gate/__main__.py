"""The gate of a release: every figure by a command of its own, and the table of docs/reliability.md.

python -m tests.gate             all of it, and write the table
python -m tests.gate --share     a part of each with fixed seeds, as CI does; the table stays
python -m tests.gate --only packages,soak

Figures are kept in build/gate.json with the commit at which they were measured: the table may be made in several parts.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "build" / "gate.json"
BEGIN, END = "<!-- begin: python -m tests.gate -->\n", "<!-- end -->\n"


@dataclass(frozen=True)
class Figure:
    """`what` is counted, by a command of the repository whose last line says the result; `share` is what CI runs, None
    where the tests have one."""

    name: str
    what: str
    bar: str
    command: str
    share: str | None


FIGURES = (
    Figure("models",
           "hostile models: crash, hang, traceback, exit 1, wrong class, litter, accepted; odd ones refused",
           "0 of ≥ 500, 0 of ≥ 100", "python -m tests.gate.models", None),
    Figure("packages", "damaged packages, half of them resealed: silent, crash, hang, wrong class, old memory",
           "0 of 100 000", "python -m tests.gate.packages --mutants 100000",
           "python -m tests.gate.packages --mutants 2000"),
    Figure("planted", "bugs planted in checkers and kernels that fuzz_kernels finds in 60 s each",
           "all", "python -m tests.fuzz.planted", None),
    Figure("fuzz", "launches of every kernel row between guard pages without a finding", "≥ 30 000 000",
           "make fuzz-kernels FUZZ_RUNS=30000000", None),
    Figure("faults", "crash points and failing system calls of the writer: torn, lost, litter", "0",
           "python -m tests.gate.faults", None),
    Figure("replacement", "packages replaced while others read them, two writers of one file: torn, lost, litter", "0",
           "python -m tests.gate.replacement --rounds 1000", None),
    Figure("in_place", "packages and models changed while they are read: wrong result, crash, wrong code", "0 of 400",
           "python -m tests.gate.in_place --tries 400", None),
    Figure("disks", "full, read-only, limited disks under all that commands write: wrong code, torn, litter", "0",
           "python -m tests.gate.disks", None),
    Figure("determinism", "18 variants of the environment × models: other packages; other results by threads or runs",
           "0 of 18 × ≥ 30", "python -m tests.gate.determinism", None),
    Figure("signals", "signals at random moments of commands: late, traceback, torn output, litter", "0",
           "python -m tests.gate.signals --tries 600", None),
    Figure("allocations", "failing allocations of the extension that do not end with 6", "0",
           "python -m tests.gate.allocations", "python -m tests.gate.allocations"),
    Figure("interruption", "time from a deadline or a signal to the end of the run", "50 ms in 10 000 tries",
           "python -m tests.gate.interruption --tries 10000", "python -m tests.gate.interruption --tries 40"),
    Figure("soak", "8 threads × 10 000 runs of mixed models: other bits, memory that grows", "0",
           "python -m tests.gate.soak --runs 10000", "python -m tests.gate.soak --runs 500"),
    Figure("importers", "damaged models and configuration files: crash, hang, other exceptions, memory", "0 of 100 000",
           "make fuzz-importers FUZZ_RUNS=100000", None),
    Figure("sanitizers", "findings of ASan and UBSan in the whole suite", "0", "make asan ASAN_TESTS=tests", None),
    Figure("valgrind", "uses of memory that nobody wrote, in launches of every family", "0",
           "make valgrind FUZZ_VALGRIND=200000", None),
    Figure("threads", "findings of TSan in the worker pool, shared plans and mapped files", "0", "make tsan", None),
    Figure("branches", "branches of the modules that read and write packages that are tested", "100 %",
           "make coverage-python", None),
    Figure("reproducible", "sdist and wheels of one commit that differ when built in other environments", "0 of 3",
           "make reproducible", None),
    Figure("coverage", "branches of the C code that tests and fuzzers take", "loader and checkers 100 %, other C 90 %",
           "make coverage", None),
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """How a figure came out at a commit: the last line of its command."""

    passed: bool
    text: str
    commit: str
    seconds: int


def measure(command: str) -> Result:
    """Run the command of a figure."""
    start = time.monotonic()
    arguments = shlex.split(command.replace("python", sys.executable, 1) if command.startswith("python") else command)
    ran = subprocess.run(arguments, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    lines = [line for line in ran.stdout.splitlines() if line.strip()]
    if ran.returncode != 0:
        print("\n".join(lines[-40:]))
    text = lines[-1].strip(" =") if lines else "nothing was printed"
    return Result(ran.returncode == 0, text, _commit(), round(time.monotonic() - start))


def _commit() -> str:
    """The last commit that changed more than the documentation, with a + if files differ from it."""
    where = ("--", ".", ":!docs")
    log, changes = ("log", "-1", "--format=%h", "--abbrev=8"), ("status", "--porcelain", "--untracked-files=no")
    commit, changed = (
        subprocess.run(["git", *command, *where], cwd=ROOT, text=True, capture_output=True, check=True).stdout.strip()
        for command in (log, changes)
    )
    return f"{commit}{'+' if changed else ''}"


def earlier_results() -> dict[str, Result]:
    """What was measured in this folder."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {name: Result(**result) for name, result in kept.items()}


def table(results: Mapping[str, Result]) -> str:
    """The table of the page."""
    rows = []
    for figure in FIGURES:
        result = results.get(figure.name)
        outcome = "not measured" if result is None else f"{'' if result.passed else '**failed**: '}{result.text}"
        commit = "" if result is None else result.commit
        rows.append(f"| {figure.what} | {figure.bar} | {outcome} | {commit} | `{figure.command}` |\n")
    machine = f"{_cpu()}, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    head = "| figure | bar | result | commit | command |\n| --- | --- | --- | --- | --- |\n"
    return "".join([head, *rows, f"\nMeasured on {machine}.\n"])


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; 1 if a figure misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", action="store_true", help="a part of each, with fixed seeds")
    parser.add_argument("--only", default="", help="figures by name, with commas")
    options = parser.parse_args(arguments)
    chosen = set(filter(None, options.only.split(","))) or {figure.name for figure in FIGURES}
    if unknown := chosen - {figure.name for figure in FIGURES}:
        parser.error(
            f"no figure {', '.join(sorted(unknown))}: there are {', '.join(figure.name for figure in FIGURES)}"
        )
    results = {} if options.share else earlier_results()
    measured: list[Result] = []
    for figure in FIGURES:
        command = figure.share if options.share else figure.command
        if figure.name not in chosen or command is None:
            continue
        result = results[figure.name] = measure(command)
        measured.append(result)
        state = "ok    " if result.passed else "FAILED"
        print(f"gate: {figure.name:13} {state} {result.text}  ({result.seconds} s)", flush=True)
        if not options.share:
            RESULTS.write_text(json.dumps({name: asdict(each) for name, each in results.items()}, indent=1))
    if not options.share:
        page = PAGE.read_text()
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(page[:begin] + table(results) + page[end:])
    return 0 if measured and all(result.passed for result in measured) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Branch coverage of the C code: which branches of loader and checkers no test takes.

    make coverage
    python -m tests.gate.coverage build/coverage

Reads what a build with `-Db_coverage=true` and the runs of its programs left behind: the counts, by gcov, and the call
graph of gcc. A branch is one outcome of one condition. Prints each that was not taken and must be, and the share of
each class; the exit code is 1 if a class is below its bar. A build for coverage has no asserts (`NDEBUG`), one of whose
outcomes must not happen. Nothing else is left out.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "atcpy" / "kernels" / "csrc"
# The files of the loader: all that turns bytes of a package into a plan.
LOADER = frozenset(f"core/{name}.c" for name in ("plan", "symbolic", "program", "placement", "task_info"))
CHECKER = re.compile(r"check(_.+)?")
_NODE = re.compile(r'node: \{ title: "([^"]*)" label: "([^"\\]*)\\n([^":\\]*)')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"')


@dataclass(frozen=True, order=True)
class Function:
    """A function by the file that defines it, relative to the sources."""

    file: str
    name: str


@dataclass(frozen=True, order=True)
class Branch:
    """One outcome of a condition: the `number`-th of its line."""

    function: Function
    line: int
    number: int


@dataclass(frozen=True)
class Class:
    """Functions of which a share of the branches, in percent, must be taken."""

    name: str
    bar: float
    functions: frozenset[Function]


def counts(build: Path) -> dict[Branch, int]:
    """How often each branch was taken; a header's are the same in each file that includes it."""
    found: defaultdict[Branch, int] = defaultdict(int)
    with ThreadPoolExecutor() as pool:
        for report in pool.map(_report, sorted(build.rglob("*.gcno"))):
            for branch, taken in _branches(report):
                found[branch] += taken
    return found


def _report(notes: Path) -> dict[str, object]:
    command = ["gcov", "--json-format", "--branch-probabilities", "--stdout", str(notes)]
    ran = subprocess.run(command, capture_output=True, check=True)
    report: dict[str, object] = json.loads(ran.stdout)
    return report


def _branches(report: dict[str, object]) -> Iterator[tuple[Branch, int]]:
    files = report["files"]
    assert isinstance(files, list)
    for file in files:
        path = _relative(file["file"])
        if path is None:
            continue
        for line in file["lines"]:
            if not line["branches"]:
                continue
            function = Function(path, line["function_name"])
            for number, branch in enumerate(line["branches"]):
                yield Branch(function, line["line_number"], number), branch["count"]


def _relative(path: str) -> str | None:
    """The path of a source of the extension below its folder; None for others."""
    _, found, rest = path.partition("atcpy/kernels/csrc/")
    return rest if found else None


def checkers(build: Path, sources: Path = CSRC) -> frozenset[Function]:
    """The checkers of the families, and all that they call: they are named `check` or `check_…` in a file that defines
    a family."""
    of_title: dict[str, Function] = {}
    calls: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(build.rglob("*.ci")):
        text = path.read_text()
        for title, name, file in _NODE.findall(text):
            relative = _relative(file)
            if relative is not None:
                of_title[title] = Function(relative, name)
        for caller, callee in _EDGE.findall(text):
            calls[caller].add(callee)
    reached: set[str] = set()
    waiting = [title for title, function in of_title.items() if _is_checker(function, sources)]
    while waiting:
        title = waiting.pop()
        if title not in reached:
            reached.add(title)
            waiting.extend(calls[title])
    return frozenset(of_title[title] for title in reached if title in of_title)


def _is_checker(function: Function, sources: Path) -> bool:
    return CHECKER.fullmatch(function.name) is not None and "DEFINE_FAMILY(" in (sources / function.file).read_text()


def classes(functions: Iterable[Function], checking: frozenset[Function]) -> tuple[Class, ...]:
    """All functions, each in one class."""
    every = frozenset(functions)
    loader = frozenset(function for function in every if function.file in LOADER)
    return (
        Class("loader", 100, loader),
        Class("checkers", 100, (every & checking) - loader),
        Class("other C", 90, every - checking - loader),
    )


def main() -> int:
    """Print the branches that are not taken and the shares; 1 if one is below its bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="the folder of the build")
    parser.add_argument("--all", action="store_true", help="list the branches of every class")
    options = parser.parse_args()
    taken = counts(options.build)
    shares, passed = [], True
    for each in classes({branch.function for branch in taken}, checkers(options.build)):
        own = sorted(branch for branch in taken if branch.function in each.functions)
        missed = [branch for branch in own if taken[branch] == 0]
        for branch in missed if each.bar == 100 or options.all else ():
            where = f"atcpy/kernels/csrc/{branch.function.file}:{branch.line}"
            print(f"{where}: {branch.function.name}: branch {branch.number} is not taken")
        share = 100 * (len(own) - len(missed)) / max(len(own), 1)
        passed &= len(own) > 0 and share >= each.bar
        shares.append(f"{each.name} {share:.2f} % of {len(own)}")
    print(", ".join(shares))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

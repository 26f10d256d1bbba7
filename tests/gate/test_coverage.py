"""Branches are counted by function, and functions sorted by what calls them: here of a program of a few lines."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gate.coverage import Branch, Function, checkers, classes, counts

FAMILY = """\
#define DEFINE_FAMILY(name) /* a family is defined here */
#include "sizes.h"
static int named(int n) { return n > 7; }
static int check(int n) { if (!is_size(n)) return 1; return 0; }
static int kernel(int n) { return n == 3 ? named(n) : 4; }
int main(int argc, char **argv) { (void)argv; return check(argc) + kernel(3); }
"""
HEADER = """\
static inline int is_size(int n)
{
    return n > 0 &&
           n < 9;
}
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    if shutil.which("gcov") is None or shutil.which("gcc") is None:
        pytest.skip("gcc or gcov is not installed")
    folder = tmp_path / "atcpy" / "kernels" / "csrc"
    (folder / "core").mkdir(parents=True)
    (folder / "core" / "plan.c").write_text("int load(int n) { return n > 1 ? 2 : 3; }\n")
    (folder / "family.c").write_text(FAMILY)
    (folder / "sizes.h").write_text(HEADER)
    files = [str(folder / name) for name in ("family.c", "core/plan.c")]
    flags = ["--coverage", "-O0", "-fcallgraph-info", "-w"]
    subprocess.run(["gcc", *flags, *files, "-o", tmp_path / "program"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "program"], cwd=tmp_path, check=False)
    return folder


def test_each_outcome_of_a_condition_is_counted(sources: Path) -> None:
    taken = counts(sources.parents[2])
    is_size = Function("sizes.h", "is_size")
    own = {branch: count for branch, count in taken.items() if branch.function == is_size}
    assert own == {
        Branch(is_size, 3, 0): 1,
        Branch(is_size, 3, 1): 0,
        Branch(is_size, 3, 2): 1,
        Branch(is_size, 3, 3): 0,
    }


def test_what_a_checker_calls_is_of_its_class(sources: Path) -> None:
    checking = checkers(sources.parents[2], sources)
    assert checking == {Function("family.c", "check"), Function("sizes.h", "is_size")}
    functions = {branch.function for branch in counts(sources.parents[2])}
    loader, checker, other = classes(functions, checking)
    assert loader.functions == {Function("core/plan.c", "load")}
    assert checker.functions == checking
    assert other.functions == {Function("family.c", "kernel")}
    assert (loader.bar, checker.bar, other.bar) == (100, 100, 90)

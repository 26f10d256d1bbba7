"""Plants bugs in checkers and kernels, one at a time, and shows how long fuzz_kernels takes to find each.

    python -m tests.fuzz.planted
    python -m tests.fuzz.planted --only gather,unique --seconds 10
    python -m tests.fuzz.planted --share 4
    python -m tests.fuzz.planted --valgrind      # those that Valgrind finds in the seeds alone: make valgrind

A bug changes one line of a file of the core. That file is compiled with the options of the build, and linked with the
other objects of `fuzz_kernels`: the sources and the build stay as they are. The exit code is 1 if a bug is not found.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "atcpy/kernels/csrc"
BUILD, VALGRIND_BUILD = Path("build/release"), Path("build/valgrind")
TARGET = "tests/csrc/fuzz_kernels"


@dataclass(frozen=True)
class Bug:
    """One change of a file: `old`, which is there once, becomes `new`."""

    kind: str
    file: str
    old: str
    new: str

    @property
    def name(self) -> str:
        return Path(self.file).stem

    @property
    def family(self) -> tuple[str, ...]:
        """The options of the fuzzer: launches of the family that the file is about, or of all."""
        return () if self.file.startswith("core/") else (f"-family={self.name}",)


BUGS = (
    Bug("missing check", "pooling/unpool.c", "if (p->in[i] > p->out[i])", "if (p->in[i] > p->out[i] + 1)"),
    Bug("missing check", "attention/attention.c", "(p->cache < p->kv_len || ", "("),
    Bug("missing check", "quant/qgemm.c", "(p->dst_c0 != 1 && p->mg % 16 != 0)", "(p->dst_c0 == 2)"),
    Bug("extent by one", "quant/quantize.c", "atc_mul(p->inner - 1, p->scale_inner)), 1)",
        "atc_mul(p->inner - 1, p->scale_inner)), 0)"),
    Bug("extent by one", "norm/batchnorm.c", "!atc_holds(task, task->src + i, dtype, p->c, item)",
        "!atc_holds(task, task->src + i, dtype, p->c - 1, item)"),
    Bug("overflow in an extent", "move/strided_copy.c",
        """\
        if (strides[i] <= -ATC_TOO_BIG || strides[i] >= ATC_TOO_BIG)
            return false;
        if (strides[i] < 0)
            below = atc_add(below, atc_mul(dims[i] - 1, -strides[i]));
        else
            above = atc_add(above, atc_mul(dims[i] - 1, strides[i]));
""",
        """\
        if (strides[i] < 0)
            below = atc_add(below, atc_mul(dims[i] - 1, -strides[i]));
        else
            above += (int64_t)((uint64_t)(dims[i] - 1) * (uint64_t)strides[i]);
"""),
    Bug("< for <=", "select/topk.c", "p->k > p->n)", "p->k > p->n + 1)"),
    Bug("< for <=", "quant/quant_range.c", "p->c_last > p->c0 ||", "p->c_last > p->c0 + 1 ||"),
    Bug("in place", "norm/lrn.c", ".cost = cost);", ".cost = cost, .inplace = 1);"),
    Bug("in place", "move/strided_copy.c", "return moves_within_itself(task)", "return false"),
    Bug("uninitialised result", "pooling/unpool.c", "end - cleared->bytes);", "end - cleared->bytes - p->item);"),
    Bug("uninitialised scratch", "signal/fourier.c", "atc_clear(args, x + n, (size - n) *",
        "atc_clear(args, x + n, (size - n - 1) *"),
    Bug("index not bounded", "move/gather.c",
        "const int64_t position = atc_resolve_index(args->fault, index, p->dims[i]);",
        "const int64_t position = atc_resolve_index(args->fault, index, p->dims[i] + 1);"),
    Bug("index not bounded", "signal/interp.c", "indices[tap] >= p->in[dim])", "indices[tap] > p->in[dim])"),
    Bug("index not bounded", "ml/trees.c", "child[1] >= p->nodes)", "child[1] > p->nodes)"),
    Bug("work not counted", "recurrent/recurrent.c", "atc_add(p->hidden, 8)), 8);", "atc_add(p->hidden, 8)), 0);"),
    Bug("work not counted", "select/compress.c", "atc_add(p->conditions, 1)", "p->conditions"),
    Bug("scratch by one", "select/unique.c", "atc_add(atc_mul(p->n, 4), element_count(p))",
        "atc_add(atc_mul(p->n, 4), element_count(p)) - 1"),
    Bug("scratch by one", "random/multinomial.c", "atc_mul(p->classes, sizeof(double))",
        "atc_mul(p->classes - 1, sizeof(double))"),
    Bug("negative size", "norm/normalize.c", "const bool is_sum = p->lines[0] != 0;",
        "const bool is_sum = p->lines[0] > 0;"),
    Bug("bound of an enum", "core/plan.c", "if (value < 0 || value >= n)", "if (value < 0 || value > n)"),
    Bug("type not checked", "reduce/cumulate.c", "if (p->dtype != dtype || task", "if (task"),
    Bug("rows behind the last group", "conv/conv2d.c", "min_i64(p->cg, p->c - g * p->cg); /*", "p->cg; /*"),
    Bug("tiles behind the last", "conv/winograd2d.c", "min_i64(b->chunk, b->tiles - first)", "b->chunk"),
    Bug("tiles behind the last", "quant/qwinograd2d.c", "min_i64(b->chunk, b->tiles - first)", "b->chunk"),
    Bug("channels behind the last", "quant/qwinograd2d.c", "(int)min_i64(2, d->b.c1 - c1)", "2"),
    Bug("result not bounded", "graph_kernel/graph_kernel.c",
        "if (is_dst && (missing(p, i) & ~(1 << (GK_DIMS - 1))) != 0)", "if (is_dst && missing(p, i) < 0)"),
)  # fmt: skip


class Build:
    """The commands of a build directory that has fuzz_kernels."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compile = {
            (folder / entry["file"]).resolve(): shlex.split(entry["command"])
            for entry in json.loads((folder / "compile_commands.json").read_text())
            if "core_with_coverage" in entry["output"]
        }
        listed = subprocess.run(
            ["ninja", "-C", folder, "-t", "commands", TARGET], capture_output=True, text=True, check=True
        )
        self._link = shlex.split(listed.stdout.splitlines()[-1])

    def plant(self, bug: Bug, work: Path) -> Path:
        """The fuzzer with the bug in it."""
        source = CSRC / bug.file
        text = source.read_text()
        assert text.count(bug.old) == 1, f"{bug.file}: {bug.old!r} is there {text.count(bug.old)} times"
        mutant, target = work / source.name, work / "fuzz_kernels"
        mutant.write_text(text.replace(bug.old, bug.new))
        self._run([*_redirect(self._compile[source], mutant.with_suffix(".o"), source=mutant), "-w"])
        # The linker takes from the archive only what the object before it does not define.
        link = _redirect(self._link, target)
        at = next(i for i, word in enumerate(link) if "core_with_coverage" in word)
        self._run([*link[:at], str(mutant.with_suffix(".o")), *link[at:]])
        return target

    def _run(self, command: list[str]) -> None:
        subprocess.run(command, cwd=self._folder, check=True)


def _redirect(command: list[str], output: Path, source: Path | None = None) -> list[str]:
    """The command with another output, without its list of dependencies, of another source."""
    words = list(command)
    words[words.index("-o") + 1] = str(output)
    if source is not None:
        words[words.index("-c") + 1] = str(source)
        words[words.index("-MF") + 1] = str(output.with_suffix(".d"))
        words[words.index("-MQ") + 1] = str(output)
    return words


def main() -> int:
    """Print a line for each bug; return 1 if one is not found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="at most for each bug")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="files, by their stems")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="every N-th bug")
    parser.add_argument("--valgrind", action="store_true", help="memory that nobody wrote, under Valgrind")
    options = parser.parse_args()
    chosen = [bug for bug in BUGS if options.only is None or bug.name in options.only.split(",")][:: options.share]
    if options.valgrind:
        chosen = [bug for bug in chosen if bug.kind.startswith("uninitialised")]
        folder, under, amount = VALGRIND_BUILD, ["valgrind", "-q"], "-runs=0"
    else:
        folder, under, amount = BUILD, [], f"-seconds={options.seconds}"
        subprocess.run(["make", "--silent", BUILD / "fuzz_kernels"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    build, missed = Build(ROOT / folder), 0
    with tempfile.TemporaryDirectory() as work:
        for bug in chosen:
            fuzzer = build.plant(bug, Path(work))
            start = time.monotonic()
            limits = amount, f"-seed={options.seed}", f"-keep={work}/finding.bin"
            command = [*under, fuzzer, f"-records={ROOT / folder / 'launches.bin'}", *limits, *bug.family]
            result = subprocess.run(command, capture_output=True, text=True)
            found = re.search(r"^finding: (.*)$", result.stderr, re.MULTILINE)
            missed += found is None
            what = f"{time.monotonic() - start:5.1f} s  {found[1]}" if found else "NOT FOUND"
            print(f"{bug.kind:27} {bug.name:18} {what}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} bugs found within {options.seconds} s each")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

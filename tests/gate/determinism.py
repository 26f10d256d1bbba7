"""The same package whatever is around a conversion, and the same results for any number of threads and in every run.

    python -m tests.gate.determinism

Models are those of this repository and of ../shared/models/real. Each variant converts all of them in a process, around
which one thing is different. Each package then runs with one, two and three threads, in sessions of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from atcpy import InferenceSession
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.verify.oracle import behind_random
from tests.e2e.test_real_models import MODELS, SHAPES, make_feeds, manifest
from tests.gate.packages import TEXTS
from tests.gate.soak import feeds_of_size
from tests.models_in_text import model

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits" / "digits.onnx"
THREADS = (1, 2, 3, 64)  # the last of them cuts tasks into more items
CORES = 3
RUNS = 2
SIZES = (1, 5)  # of open dims
YEAR_SECONDS = 365 * 86400

# Converts models with the arguments that it gets, if what is to be different is.
SCRIPT = """
import json, os, sys, time
from atcpy.cli.app import execute
jobs, proof = json.loads(sys.argv[1])
if not eval(proof): sys.exit(f"not so: {proof}")
for arguments in jobs:
    if execute(["convert", "-q", *arguments]) != 0: sys.exit(str(arguments))
"""

Paths = Mapping[str, Path]


@dataclass(frozen=True)
class Variant:
    """What is different around a conversion. `copy` gets the models by name, and a folder for others in their place;
    `{work}` in variables is the folder of the packages. `proof` is an expression that holds only here.
    """

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    umask: int = 0o022
    copy: Callable[[Paths, Path], Paths] = lambda models, _work: models
    is_relative: bool = False
    is_reversed: bool = False
    proof: str = "True"


def rename_files(models: Paths, work: Path) -> Paths:
    """Copies of other names, in another folder."""
    folder = work / "other folder ü"
    folder.mkdir()
    return {name: Path(shutil.copy(path, folder / f"☃ {len(name)} {path.name}")) for name, path in models.items()}


def reorder(models: Paths, work: Path) -> Paths:
    """Copies that a folder lists in another order, among other files."""
    folder = work / "many"
    folder.mkdir()
    for number in range(200):
        (folder / f"{number:03}.txt").touch()
    return {name: Path(shutil.copy(models[name], folder)) for name in sorted(models, reverse=True)}


VARIANTS = (
    Variant("hash seed 0", {"PYTHONHASHSEED": "0"}, proof="not sys.flags.hash_randomization"),
    Variant("hash seed 4711", {"PYTHONHASHSEED": "4711"}),
    Variant("one CPU", prefix=("taskset", "-c", str(min(os.sched_getaffinity(0)))),
            proof="len(os.sched_getaffinity(0)) == 1"),
    Variant("three threads", options=("--threads", "3")),
    Variant("another ISA", {"ATCPY_ISA": "scalar"}),
    Variant("time zone", {"TZ": "Asia/Kolkata"}, proof="time.timezone == -19800"),
    Variant("locale", {"LC_ALL": "tr_TR.UTF-8", "LANG": "de_DE.UTF-8"}),
    Variant("user", {"HOME": "/nonexistent", "USER": "eve", "LOGNAME": "eve", "USERNAME": "eve"}),
    Variant("a large environment", {f"PADDING_{number}": "x" * 900 for number in range(60)}),
    Variant("no address space randomisation", prefix=("setarch", "-R"),
            proof="int(open('/proc/self/personality').read(), 16) & 0x40000"),
    Variant("clock", {"LD_PRELOAD": "{work}/shift_clock.so"}, proof=f"time.time() > {time.time() + YEAR_SECONDS}"),
    Variant("umask", umask=0o077, proof="os.umask(0o077) == 0o077"),
    Variant("TMPDIR", {"TMPDIR": "{work}"}),
    Variant("relative paths", is_relative=True),
    Variant("python -O", flags=("-O",), proof="not __debug__"),
    Variant("file names and folder", copy=rename_files),
    Variant("order of the folder", copy=reorder),
    Variant("order of the conversions", is_reversed=True),
)  # fmt: skip


def write_models(folder: Path) -> tuple[Paths, dict[str, list[str]]]:
    """Write the models into a folder; their paths, and options of their conversion."""
    paths = {"digits": Path(shutil.copy(DIGITS, folder))}
    options: dict[str, list[str]] = {}
    for name, (text, own) in TEXTS.items():
        paths[name] = folder / f"{name}.onnx"
        onnx.save(model(text), paths[name])
        options[name] = [word for key, value in own.items() for word in (f"--{key}", str(value))]
    for name in manifest():
        paths[name] = Path(shutil.copy(MODELS / f"{name}.onnx", folder))
    return paths, options


def packages(variant: Variant, models: Paths, options: Mapping[str, Sequence[str]], work: Path) -> Paths:
    """Convert all models; the packages by name."""
    work.mkdir()
    if variant.name == "clock":
        source = ROOT / "tests" / "csrc" / "shift_clock.c"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", work / "shift_clock.so", source, "-ldl"], check=True)
    models = variant.copy(models, work)
    found = {name: work / f"{name}.om" for name in sorted(models, reverse=variant.is_reversed)}
    jobs: list[list[str]] = []
    for name, path in found.items():
        files = ("--model", _shown(models[name], variant, work), "-o", _shown(path, variant, work))
        jobs.append([*files, *options.get(name, []), *variant.options])
    variables = {key: text.replace("{work}", str(work)) for key, text in variant.variables.items()}
    ran = subprocess.run(
        [*variant.prefix, sys.executable, *variant.flags, "-c", SCRIPT, json.dumps([jobs, variant.proof])],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        text=True,
        capture_output=True,
        check=False,
        umask=variant.umask,
    )
    if ran.returncode != 0:
        raise AssertionError(f"{variant.name}: {ran.stderr[-2000:]}")
    return found


def _shown(path: Path, variant: Variant, work: Path) -> str:
    return os.path.relpath(path, work) if variant.is_relative else str(path)


def digests(paths: Paths) -> dict[str, str]:
    """The digest of each package."""
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items()}


def feeds_of(name: str, session: InferenceSession) -> Iterator[dict[str, Array]]:
    """Inputs, of several sizes where dims are open."""
    if name in manifest():
        for seed, shapes in enumerate(SHAPES.get(name, [{}])[:2]):
            yield make_feeds(name, session, shapes, seed)
        return
    rng = np.random.default_rng(0)
    for size in SIZES:
        yield feeds_of_size(session, size, rng)


def bits(value: Any) -> Any:
    """What two results must have in common to be equal: dtypes, shapes and bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist() if value.dtype == object else value.tobytes()
    return [bits(item) for item in value] if isinstance(value, Iterable) and not isinstance(value, str) else value


def result_problems(name: str, source: Path, package: Path) -> list[str]:
    """How results differ between numbers of threads, or between runs; but for outputs behind a random operator."""
    problems: list[str] = []
    random = behind_random(onnx.load(source))
    expected: list[Any] = []
    for threads in THREADS:
        session = InferenceSession(package, threads=threads)
        feeds = list(feeds_of(name, session))
        outputs = [port.name for port in session.get_outputs() if port.name not in random]
        for run in range(RUNS):
            for number, fed in enumerate(feeds):
                result = bits(session.run(outputs, fed))
                if len(expected) == number:
                    expected.append(result)
                elif result != expected[number]:
                    problems.append(f"{name}: inputs {number}, {threads} threads, run {run}: other results")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert, run and print what differs; 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.determinism", description=__doc__)
    parser.add_argument("--variants", type=int, default=len(VARIANTS), help="the first so many (default: all)")
    options = parser.parse_args(arguments)
    _kernels.set_cores(CORES)  # or fewer threads would share the work where there are fewer cores
    start = time.monotonic()
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        (root / "models").mkdir()
        models, own = write_models(root / "models")
        plain = packages(Variant("plain"), models, own, root / "plain")
        expected = digests(plain)
        for number, variant in enumerate(VARIANTS[: options.variants]):
            work = root / str(number)
            found = digests(packages(variant, models, own, work))
            findings += [
                f"{variant.name}: another package of {name}" for name in found if found[name] != expected[name]
            ]
            shutil.rmtree(work)
            print(f"{variant.name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
        for name, package in plain.items():
            findings += result_problems(name, models[name], package)
    for finding in findings[:20]:
        print(finding)
    print(
        f"{options.variants} variants × {len(models)} models, {len(THREADS)} numbers of threads × {RUNS} runs, "
        f"{len(findings)} findings, {time.monotonic() - start:.0f} s"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

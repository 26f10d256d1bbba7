"""The same model and options give the same bytes, whatever the process, the place, the time and the user are."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from atcpy import InferenceSession
from atcpy.cli.app import execute
from atcpy.verify.inputs import Fill, make_feeds, session_ports
from tests.models_in_text import package

REPO = Path(__file__).parents[2]
DIGITS = REPO / "models" / "digits" / "digits.onnx"

# Converts every model of the folder, digest by digest. The clock is shifted before anything is imported.
SCRIPT = """
import sys, time
if "shift" in sys.argv:
    real = time.time
    time.time = lambda: real() + 7 * 365 * 86400.0
    time.localtime = time.gmtime = lambda *_: time.struct_time((1999, 12, 31, 23, 59, 59, 4, 365, 0))
if "reverse" in sys.argv:
    import gc; gc.disable()
from atcpy.cli.app import execute
for name in ("digits", "mixed", "control", "chain"):
    target = sys.argv[2] + "/" + name + ".out.om"
    code = execute(["convert", "--model", f"{sys.argv[1]}/{name}.onnx", "-o", target, "-q", *sys.argv[3].split()])
    assert code == 0, name
"""

# Each variant changes several things at once: where one fails, take them apart.
VARIANTS: dict[str, dict[str, object]] = {
    "hash seed, clock, folder, file name": {
        "env": {"PYTHONHASHSEED": "4711"}, "flags": "shift reverse", "cwd": "other", "models": "renamed folder ü",
    },
    "one CPU, one thread, another ISA, umask": {
        "env": {"ATCPY_ISA": "scalar"}, "cpus": {min(os.sched_getaffinity(0))}, "options": "--threads 1",
        "umask": 0o077,
    },
    "user, locale, time zone, a large environment": {
        "env": {
            "LC_ALL": "tr_TR.UTF-8", "LANG": "de_DE", "TZ": "Asia/Kolkata", "PYTHONHASHSEED": "0",
            "HOME": "/nonexistent", "USER": "eve", "LOGNAME": "eve",
            **{f"PADDING_{i}": "x" * 900 for i in range(60)},
        },
        "options": "--color never",
    },
    "three threads, limits that are not reached": {"options": "--threads 3 --timeout 3600 --memory_limit 64G"},
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits, random networks, and a graph of many names and shared constants."""
    sys.path.insert(0, str(REPO / "models"))
    import synthetic_graphs

    folder = tmp_path_factory.mktemp("models")
    shutil.copy(DIGITS, folder / "digits.onnx")
    onnx.save(synthetic_graphs.mixed(150, seed=3), folder / "mixed.onnx")
    onnx.save(synthetic_graphs.diamonds(60), folder / "control.onnx")
    onnx.save(synthetic_graphs.chain(60), folder / "chain.onnx")
    return folder


def digests(models: Path, work: Path, variant: dict[str, object]) -> dict[str, str]:
    """The digest of each package that a process of this variant writes."""
    cwd, out = work / str(variant.get("cwd", ".")), work / "out"
    cwd.mkdir(exist_ok=True)
    out.mkdir()
    if "models" in variant:
        models = Path(shutil.copytree(models, work / str(variant["models"])))
    variables = variant.get("env", {})
    assert isinstance(variables, dict)
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        models,
        out,
        variant.get("options", ""),
        *str(variant.get("flags", "")).split(),
    ]
    command += str(variant.get("flags", "")).split()

    def prepare() -> None:
        os.umask(variant.get("umask", 0o022))  # type: ignore[arg-type]
        if "cpus" in variant:
            os.sched_setaffinity(0, variant["cpus"])  # type: ignore[arg-type]

    ran = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPO), **variables},
        capture_output=True,
        text=True,
        preexec_fn=prepare,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return {path.name: digest(path) for path in sorted(out.iterdir())}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def expected(models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = digests(models, tmp_path_factory.mktemp("plain"), {})
    assert len(found) == len(set(found.values())) == 4
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_nothing_around_a_conversion_reaches_its_bytes(
    name: str, models: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    assert digests(models, tmp_path, VARIANTS[name]) == expected


def test_all_numbers_of_threads_give_the_same_bits(models: Path, tmp_path: Path) -> None:
    sums = """sums (float[300,700] x, float[700,500] w) => (float[300,500] y, float z) {
        p = MatMul(x, w)  y = Softmax(p)  z = ReduceSum<keepdims = 0>(p)
    }"""
    (tmp_path / "sums.om").write_bytes(package(sums))
    for path in models.iterdir():
        assert execute(["convert", "--model", str(path), "-o", str(tmp_path / f"{path.stem}.om"), "-q"]) == 0
    for path in tmp_path.glob("*.om"):
        results = []
        for threads in (1, 2, 3, 4):
            with InferenceSession(path, threads=threads) as session:
                found = session.run(None, make_feeds(session_ports(session), Fill()))
                results.append([np.asarray(array).tobytes() for array in found])
        assert results == [results[0]] * 4, path.name


@pytest.mark.slow
def test_the_model_and_the_options_do(models: Path, expected: dict[str, str], tmp_path: Path) -> None:
    """What makes a difference makes one: the test above could not fail otherwise."""
    target = tmp_path / "digits.out.om"
    command = ["convert", "--model", str(models / "digits.onnx"), "-o", str(target), "-q"]
    assert execute(command) == 0 and digest(target) == expected[target.name]
    assert execute([*command, "--oo_level", "O0"]) == 0 and digest(target) != expected[target.name]

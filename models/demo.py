"""The tour, `make demo`: a trained classifier and a large network, each converted, run, verified and timed.

Every step is a shell command; the first failure ends the tour with its exit code.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

REPO: Final = Path(__file__).parent.parent
DIGITS: Final = Path("models/digits")
OUT: Final = Path("out")
PICTURED: Final = "7"


def run(*arguments: str, program: tuple[str, ...] = ("-m", "atcpy"), shown: str = "atcpy") -> None:
    """Print a command, run it in the repository, and leave with its code if it fails."""
    print(f"\n$ {shown} {shlex.join(arguments)}", flush=True)
    finished = subprocess.run([sys.executable, *program, *arguments], cwd=REPO, env=environment(), check=False)
    if finished.returncode:
        raise SystemExit(finished.returncode)


def environment() -> dict[str, str]:
    """The environment, with this clone first on the Python path."""
    return {**os.environ, "PYTHONPATH": str(REPO)}


def recognised(*arguments: str) -> str:
    """The most likely label according to `atcpy run`."""
    command = [sys.executable, "-m", "atcpy", *arguments, "--json"]
    finished = subprocess.run(command, cwd=REPO, env=environment(), check=True, capture_output=True, text=True)
    best: str = json.loads(finished.stdout)["result"]["outputs"][0]["top"][0]["label"]
    return best


def digits() -> None:
    """Convert, inspect, run and verify the digit classifier, which this project trained."""
    package = str(OUT / "digits.om")
    run("convert", "--model", str(DIGITS / "digits.onnx"), "--output", package)
    run("inspect", package, "--tasks")
    picture = ["--image", str(DIGITS / "pictures" / f"{PICTURED}.png"), "--mean", "127.5", "--std", "127.5"]
    question = ["run", package, *picture, "--labels", str(DIGITS / "labels.txt"), "--top-k", "3"]
    run(*question)
    answer = recognised(*question)
    print(f"the picture shows a {PICTURED}, the package says {answer}")
    if answer != PICTURED:
        raise SystemExit("that is wrong")
    run("verify", package, "--against", str(DIGITS / "digits.onnx"))


def resnet50() -> None:
    """Convert, verify and time a large network with random weights against ONNX Runtime."""
    model, package = "models/generated/resnet50.onnx", str(OUT / "resnet50.om")
    make = ("models/make_models.py",)
    if not (REPO / model).exists():
        run("models/generated", "resnet50", program=make, shown="python models/make_models.py")
    run("convert", "--model", model, "--output", package)
    run("verify", package, "--against", model)
    run("bench", package, "--vs", "ort", "--vs-model", model, "--threads", "1", "--min-time", "2")


def main() -> None:
    """Both parts of the tour."""
    started = time.perf_counter()
    (REPO / OUT).mkdir(exist_ok=True)
    digits()
    resnet50()
    print(f"\nthe tour took {time.perf_counter() - started:.0f} s; the packages are in {OUT}/")


if __name__ == "__main__":
    main()

"""Models unfused and fused against one oracle, float64 where it is in doubt: where both are right, they agree.

python -m tests.e2e.levels models/generated/*.onnx
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from atcpy.errors import AtcError
from atcpy.options import convert_options
from atcpy.stages.pipeline import convert
from atcpy.verify.oracle import RememberingOracles
from atcpy.verify.verification import verify

LEVELS: Final = ("O0", "O2")


@dataclass(frozen=True)
class Judged:
    """A package of one level: its tasks, whether it is right, its largest error and whether float64 was asked."""

    level: str
    tasks: int
    passed: bool
    max_abs: float
    arbitrated: bool


def judge(model: Path, levels: Sequence[str] = LEVELS) -> Iterator[Judged]:
    """The model at each level; the oracle runs it once."""
    oracles = RememberingOracles()
    with tempfile.TemporaryDirectory() as folder:
        for level in levels:
            target = Path(folder) / f"{level}.om"
            tasks = convert(model, target, convert_options({"oo_level": level})).task_count
            report = verify(target, model, find=oracles)
            worst = max((output.max_abs for output in report.outputs), default=0.0)
            asked = any(output.arbitrated for output in report.outputs)
            yield Judged(level, tasks, report.passed, worst, asked)


def main(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL.onnx...", exists=True, dir_okay=False)],
) -> None:
    """Judges each model; exit status 1 if a package is wrong at a level."""
    print(f"{'model':<28}{'level':>6}{'tasks':>7}{'error':>10}")
    wrong = 0
    for model in models:
        try:
            for found in judge(model):
                remark = ("" if found.passed else "   wrong") + ("   by float64" if found.arbitrated else "")
                print(f"{model.stem:<28}{found.level:>6}{found.tasks:>7}{found.max_abs:>10.1e}{remark}", flush=True)
                wrong += not found.passed
        except AtcError as error:
            print(f"{model.stem:<28}{str(error).partition(chr(10))[0]}", flush=True)
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    typer.run(main)

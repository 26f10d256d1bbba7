"""Convert a model, prove the package right, time it and look into it, all from Python.

python examples/python_api.py models/digits/digits.onnx build/out
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np

import atcpy
from atcpy.errors import AtcError


def convert(model: Path, folder: Path) -> Path:
    """The package of a model that can be converted."""
    found = atcpy.check(model)
    print(found)
    if not found.convertible:
        raise SystemExit("\n".join(problem.message for problem in found.problems))
    report = atcpy.convert(model, folder / model.stem, oo_level="O2", input_shape={"image": [1, 1, 28, 28]})
    print(f"{report.task_count} tasks on", ", ".join(f"{count} {name}" for name, count in report.engines.items()))
    return folder / f"{model.stem}.om"


def prove(package: Path, model: Path) -> None:
    """End with an error if the package differs from its model."""
    verdict = atcpy.verify(package, model, random=7)
    for output in verdict.outputs:
        print(f"{output.name}: at most {output.max_abs:.1e} from {verdict.oracle}")
    if verdict.error is not None:
        raise verdict.error


def look(package: Path, model: Path) -> None:
    """What became of the model, and why."""
    tasks = atcpy.inspect(package, "tasks").record["tasks"]
    print(f"first kernel: {tasks[0]['kernel']}")
    print(f"{atcpy.diff(package, model).nodes.same} nodes are as they were")
    fused = [pair for pair in atcpy.explain(package, fusion="Conv+Relu").records if pair["fired"]]
    print(f"{len(fused)} pairs of Conv and Relu were fused, by {len(atcpy.passes())} passes")
    times = atcpy.bench(package, vs="ort", vs_model=model, min_time=0.05, threads=1)
    print(f"{times.sides[0].median * 1e6:.0f} µs, {times.verdict} against {times.sides[1].name}")


def classify(package: Path, image: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> int:
    """The most probable digit."""
    with atcpy.InferenceSession(package, threads=1) as session:
        [probabilities] = session.run(None, {session.get_inputs()[0].name: image})
    return int(np.argmax(probabilities))


def main() -> None:
    """Run all of it."""
    logging.basicConfig(level=logging.INFO)
    model, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        package = convert(model, folder)
        prove(package, model)
        look(package, model)
        print("digit", classify(package, np.zeros((1, 1, 28, 28), np.float32)))
    except AtcError as error:
        raise SystemExit(f"{error.code}: {error.what}") from error


if __name__ == "__main__":
    main()

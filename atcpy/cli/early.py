"""The outputs of a large model, computed by another process while this one still rewrites the model.

`python -m atcpy.cli.early MODEL FOLDER HARDLINKS` reads the inputs in the folder and leaves the outputs there, with
the hash of the model that it ran. Whatever goes wrong there, who asks for what is not there computes it himself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from atcpy.parsers.onnx import read_model
from atcpy.verify.inputs import Feeds
from atcpy.verify.sessions import constants_of, open_session
from atcpy.verify.stepwise import Stepwise

_INPUTS, _OUTPUTS, _WORDS = "inputs.npz", "outputs.npz", "words.json"
_PLAIN_KINDS = "biufc"  # of numpy's types, those that a file holds as they are


@dataclass(frozen=True, slots=True)
class EarlyRun:
    """A model that runs in another process."""

    sha256: str
    feeds: Feeds
    folder: Path
    process: subprocess.Popen[bytes]

    def outputs(self, names: Sequence[str], feeds: Feeds) -> list[Any] | None:
        """The outputs for these inputs, for which it waits; None if it has others, or failed."""
        if feeds.keys() != self.feeds.keys():
            return None
        if not all(np.array_equal(array, feeds[name]) for name, array in self.feeds.items()):
            return None
        if self.process.wait() != 0:
            return None
        with suppress(OSError, ValueError, KeyError):
            words = json.loads((self.folder / _WORDS).read_bytes())
            with np.load(self.folder / _OUTPUTS) as arrays:
                if words == {"sha256": self.sha256, "names": list(names)}:
                    return [arrays[f"arr_{place}"] for place in range(len(names))]
        return None


@contextmanager
def running(model: Path, sha256: str, feeds: Feeds, allow_hardlinks: bool) -> Iterator[EarlyRun | None]:
    """Lets another process run a model with these inputs for as long as the context lasts."""
    if not sys.executable or not all(array.dtype.kind in _PLAIN_KINDS for array in feeds.values()):
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / _INPUTS, *feeds.values())
        (Path(folder) / _WORDS).write_text(json.dumps([*feeds]))
        root = str(Path(__file__).parents[2])
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(model), folder, str(int(allow_hardlinks))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))},
        )
        try:
            yield EarlyRun(sha256, feeds, Path(folder), process)
        finally:
            process.kill()
            process.wait()


def _run(model: str, folder: str, allow_hardlinks: str) -> None:
    place = Path(folder)
    with np.load(place / _INPUTS) as arrays:
        names = json.loads((place / _WORDS).read_bytes())
        feeds = {name: arrays[f"arr_{index}"] for index, name in enumerate(names)}
    file = read_model(Path(model), allow_hardlinks=allow_hardlinks == "1")
    steps = Stepwise(file.model, constants_of(file.model, file.external.inline, file.external.read), open_session)
    outputs = [info.name for info in file.model.graph.output]
    results = steps.run(outputs, feeds)
    assert all(isinstance(array, np.ndarray) and array.dtype.kind in _PLAIN_KINDS for array in results)
    np.savez(place / _OUTPUTS, *results)
    (place / _WORDS).write_text(json.dumps({"sha256": file.source.sha256, "names": outputs}))


if __name__ == "__main__":
    _run(*sys.argv[1:])

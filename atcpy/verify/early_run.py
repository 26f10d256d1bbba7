"""Computes the outputs of a large model in another process while this one still rewrites the model.

`python -m atcpy.verify.early_run MODEL FOLDER HARDLINKS` runs the model as the check begins and leaves inputs, outputs
and the hash of the model in the folder. Callers compute the outputs themselves when the process failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from atcpy.ir.collector import collector_paused
from atcpy.parsers.onnx.reader import read_model
from atcpy.verify.inputs import Feeds, feeds_of, model_ports
from atcpy.verify.sessions import constants_of, open_session
from atcpy.verify.sizes import is_open
from atcpy.verify.stepwise import Stepwise

_INPUTS, _OUTPUTS, _RECORD = "inputs.npz", "outputs.npz", "words.json"
_PLAIN_KINDS = "biufc"  # of numpy's types, those that a file holds as they are


@dataclass(frozen=True, slots=True)
class EarlyRun:
    """A model that runs in another process."""

    folder: Path
    process: subprocess.Popen[bytes]

    def outputs(self, sha256: str, names: Sequence[str], feeds: Feeds) -> list[Any] | None:
        """What the model of this hash makes of these inputs, once it is there; None if it ran others, or failed."""
        if self.process.wait() != 0:
            return None
        with suppress(OSError, ValueError, KeyError):
            record = json.loads((self.folder / _RECORD).read_bytes())
            if record != {"sha256": sha256, "inputs": [*feeds], "outputs": list(names)}:
                return None
            with np.load(self.folder / _INPUTS) as arrays:
                if not all(np.array_equal(arrays[name], fed) for name, fed in _numbered(feeds.values()).items()):
                    return None
            with np.load(self.folder / _OUTPUTS) as arrays:
                return [arrays[name] for name in _numbered(names)]
        return None


@contextmanager
def running(model: Path, allow_hardlinks: bool) -> Iterator[EarlyRun | None]:
    """Lets another process run a model for as long as the context lasts."""
    if not sys.executable:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        root = str(Path(__file__).parents[2])
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(model), folder, str(int(allow_hardlinks))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))},
        )
        try:
            yield EarlyRun(Path(folder), process)
        finally:
            process.kill()
            process.wait()


@collector_paused()
def _run(model: str, folder: str, allow_hardlinks: str) -> None:
    directory = Path(folder)
    file = read_model(Path(model), allow_hardlinks=allow_hardlinks == "1")
    ports = model_ports(file.model)
    assert not any(map(is_open, ports))
    feeds = feeds_of(file.model, ports, 0)
    steps = Stepwise(file.model, constants_of(file.model, file.external.inline, file.external.read), open_session)
    outputs = [info.name for info in file.model.graph.output]
    results = steps.run(outputs, feeds)
    assert all(
        isinstance(array, np.ndarray) and array.dtype.kind in _PLAIN_KINDS for array in (*results, *feeds.values())
    )
    np.savez(directory / _INPUTS, **_numbered(feeds.values()))
    np.savez(directory / _OUTPUTS, **_numbered(results))
    record = {"sha256": file.source.sha256, "inputs": [*feeds], "outputs": outputs}
    (directory / _RECORD).write_text(json.dumps(record))


def _numbered(items: Iterable[Any]) -> dict[str, Any]:
    """By names that every file can hold."""
    return {f"array{number}": item for number, item in enumerate(items)}


if __name__ == "__main__":
    _run(*sys.argv[1:])

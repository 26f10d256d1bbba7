"""Run a package with the runtime alone and compare with what atcpy gave: `try_runtime.py digits.om expected.npz`."""

import importlib.util
import sys
from pathlib import Path

import numpy as np

import atcpy

MAX_BYTES = 10e6

package, expected = sys.argv[1:]
for module in ("onnx", "onnxruntime", "typer", "atcpy.stages", "atcpy.passes", "atcpy.parsers"):
    assert importlib.util.find_spec(module) is None, module
assert sum(file.stat().st_size for file in Path(atcpy.__file__).parent.rglob("*") if file.suffix != ".pyc") <= MAX_BYTES
session = atcpy.InferenceSession(package, threads=1)
results = session.run(None, {port.name: np.ones(port.shape, port.dtype.numpy) for port in session.get_inputs()})
with np.load(expected) as arrays:
    for port, result in zip(session.get_outputs(), results, strict=True):
        np.testing.assert_array_equal(result, arrays[port.name])

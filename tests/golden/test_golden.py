"""Every golden file: what the stages print, and that the package computes what the model says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from atcpy.om import writer
from atcpy.runtime import InferenceSession
from tests.golden.golden import compile_text, read_golden, write_golden

FILES = sorted(Path(__file__).parent.glob("*.golden"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_stages_print_what_the_file_says(path: Path, request: pytest.FixtureRequest) -> None:
    golden = read_golden(path)
    model, compiled, actual = compile_text(golden)
    check_numbers(model, writer.to_bytes(compiled))
    if request.config.getoption("--golden") == "rewrite":
        write_golden(path, golden, actual)
        return
    for name, text in golden.expected.items():
        assert actual[name].strip() == text.strip(), f"section {name} changed; make golden rewrites it"


def check_numbers(model: onnx.ModelProto, package: bytes) -> None:
    """Fails unless the package gives what ONNX Runtime gives, over three seeds."""
    session = InferenceSession(package, threads=1)
    oracle = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for seed in range(3):
        rng = np.random.default_rng(seed)
        feeds = {
            port.name: rng.standard_normal(port.shape).astype(port.dtype.numpy)
            if port.dtype.is_float
            else rng.integers(0, 4, port.shape).astype(port.dtype.numpy)
            for port in session.get_inputs()
        }
        for ours, theirs in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
            scale = max(float(np.abs(theirs).max(initial=0)), 1e-6)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * scale)

"""Large graphs convert, without recursion and without a quadratic step, and still compute the right thing.

Nothing is timed: a quadratic pass shows as a test of minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from atcpy import InferenceSession
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.ort import open_ort

sys.path.insert(0, str(Path(__file__).parents[2] / "models"))
import synthetic_graphs


def converted(model: onnx.ModelProto) -> tuple[InferenceSession, int]:
    compiled, report = compile_model(model, convert_options({}))
    return InferenceSession(writer.to_bytes(compiled), threads=1), report.nodes_before


def run_both(session: InferenceSession, model: onnx.ModelProto) -> tuple[np.ndarray, np.ndarray]:
    """Our result and that of onnxruntime without its optimizer, which is quadratic here and there."""
    oracle = open_ort(model)
    port = session.get_inputs()[0]
    feeds = {port.name: np.random.default_rng(1).uniform(-1, 1, port.shape).astype(np.float32)}
    return session.run(None, feeds)[0], oracle.run(None, feeds)[0]


def test_a_chain_of_100000_nodes_converts() -> None:
    session, nodes = converted(synthetic_graphs.chain(100_000))
    assert nodes == 100_000
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)
    # Relu, +½, Relu, −½, … : after the first Relu every pair of Add cancels.
    np.testing.assert_allclose(session.run(None, {"x": x})[0], np.maximum(x, 0), atol=1e-6)


CASES: dict[str, Callable[[], onnx.ModelProto]] = {
    "wide": lambda: synthetic_graphs.wide(20_000),
    "diamonds": lambda: synthetic_graphs.diamonds(600),  # 2^200 paths
}


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_onnxruntime_computes(name: str) -> None:
    model = CASES[name]()
    session, _ = converted(model)
    ours, theirs = run_both(session, model)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_50000_mixed_nodes_convert() -> None:
    """Its activations are contractions, so that an error fades: what comes out is compared, too."""
    model = synthetic_graphs.mixed(50_000)
    session, nodes = converted(model)
    assert nodes == 50_000
    ours, theirs = run_both(session, model)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_the_work_grows_like_the_nodes() -> None:
    """Function calls, which no other load on the machine changes, at n and 2 n nodes."""

    def calls(model: onnx.ModelProto) -> int:
        count = 0

        def note(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            compile_model(model, convert_options({}))
        finally:
            sys.setprofile(None)
        return count

    for make in (synthetic_graphs.mixed, synthetic_graphs.wide, synthetic_graphs.chain, synthetic_graphs.diamonds):
        assert calls(make(100))  # what is imported and cached at first use
        assert calls(make(800)) < 2.6 * calls(make(400)), make.__name__

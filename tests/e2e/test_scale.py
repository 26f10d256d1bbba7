"""Large graphs convert without recursion and without a quadratic step, and still compute the right thing.

The quick test counts the lines of Python that run at n and at 2 n nodes. The slow ones compare the processor time of
large graphs with that of a tenth of their nodes: that also shows quadratic steps in C, such as a search in a list.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

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

# Ten times the nodes take ten times as long, plus what caches cost; a quadratic step takes a hundred times.
MAX_TIMES_LONGER = 20.0
TRIES = 3


def converted(model: onnx.ModelProto) -> tuple[InferenceSession, int]:
    compiled, report = compile_model(model, convert_options({}))
    return InferenceSession(writer.to_bytes(compiled), threads=1), report.nodes_before


def converted_in_time(make: Callable[[int], onnx.ModelProto], nodes: int) -> tuple[InferenceSession, onnx.ModelProto]:
    """Convert a graph of a tenth of the nodes, then the whole one, which may not take much more than ten times. What is
    quadratic takes longer each time, what the machine does besides only sometimes.
    """
    compile_model(make(100), convert_options({}))  # what is imported and cached at first use
    ratios: list[float] = []
    while not ratios or (min(ratios) >= MAX_TIMES_LONGER and len(ratios) < TRIES):
        seconds = []
        for size in (nodes // 10, nodes):
            model = make(size)
            start = time.process_time()
            session, count = converted(model)
            seconds.append(time.process_time() - start)
            assert count == size
        ratios.append(seconds[1] / seconds[0])
    assert min(ratios) < MAX_TIMES_LONGER
    return session, model


def run_both(session: InferenceSession, model: onnx.ModelProto) -> tuple[np.ndarray, np.ndarray]:
    """Our result and that of onnxruntime without its optimizer, which is quadratic here and there."""
    oracle = open_ort(model)
    port = session.get_inputs()[0]
    feeds = {port.name: np.random.default_rng(1).uniform(-1, 1, port.shape).astype(np.float32)}
    return session.run(None, feeds)[0], oracle.run(None, feeds)[0]


def check_chain(session: InferenceSession) -> None:
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)
    # Relu, +½, Relu, −½, … : after the first Relu every pair of Add cancels.
    np.testing.assert_allclose(session.run(None, {"x": x})[0], np.maximum(x, 0), atol=1e-6)


@pytest.mark.slow
def test_a_chain_deeper_than_the_stack_converts() -> None:
    nodes = 3 * sys.getrecursionlimit()
    session, count = converted(synthetic_graphs.chain(nodes))
    assert count == nodes
    check_chain(session)


GRAPHS = (synthetic_graphs.mixed, synthetic_graphs.wide, synthetic_graphs.chain, synthetic_graphs.diamonds)


@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_it_computes_what_onnxruntime_computes(make: Callable[[int], onnx.ModelProto]) -> None:
    model = make(600)  # of diamonds, 2^200 paths
    session, _ = converted(model)
    ours, theirs = run_both(session, model)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


# Activations of `mixed` are contractions: an error fades, and what comes out is compared, too.
LARGE = [
    (synthetic_graphs.chain, 50_000, 0.0),
    (synthetic_graphs.wide, 10_000, 1e-4),
    (synthetic_graphs.mixed, 20_000, 1e-3),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "nodes", "rtol"), LARGE)
def test_tens_of_thousands_of_nodes_convert(make: Callable[[int], onnx.ModelProto], nodes: int, rtol: float) -> None:
    session, model = converted_in_time(make, nodes)
    if make is synthetic_graphs.chain:
        check_chain(session)
        return
    ours, theirs = run_both(session, model)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol / 10)


def lines_run(model: onnx.ModelProto) -> int:
    """Return how many lines of Python a conversion runs, which no load on the machine changes. Each round of a loop
    counts, also that of a comprehension.
    """
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> object:
        nonlocal count
        count += 1
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        compile_model(model, convert_options({}))
    finally:
        sys.settrace(before)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_the_work_grows_like_the_nodes(make: Callable[[int], onnx.ModelProto]) -> None:
    compile_model(make(100), convert_options({}))  # what is imported and cached at first use
    assert lines_run(make(400)) < 2.25 * lines_run(make(200))

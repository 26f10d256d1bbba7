"""The examples of sink mode, and that they compute what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import atcpy
from tests.effort import quick_and_slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "sink"
LINES = {
    ("rnn_step.py", "50", "16"): "50 steps, the hidden state is ",
    ("gradient_descent.py", "300"): "epoch 1: loss ",
    ("data_parallel.py", "2", "50"): "2 ranks: loss ",
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The examples as modules, in a folder that they may write to."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    names = ("rnn_step", "gradient_descent", "data_parallel")
    found = {name: import_module(name) for name in names}
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    return found


@pytest.mark.parametrize("arguments", quick_and_slow([*LINES], 1), ids=lambda arguments: arguments[0])
def test_it_runs_as_a_program(arguments: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLES / arguments[0], *arguments[1:]]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parents[1])}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert LINES[arguments] in ran.stdout


def test_a_step_reads_a_sequence_as_numpy_does(modules: dict[str, ModuleType]) -> None:
    width, model = 8, modules["rnn_step"].gru_step(8)
    w, u = (
        np.frombuffer(each.raw_data, np.float32).reshape(width, -1).astype(float)
        for each in model.graph.initializer[-2:]
    )
    atcpy.convert(model, "gru.om")
    sequence = np.random.default_rng(0).standard_normal((20, 1, width)).astype(np.float32)
    hidden, outputs = modules["rnn_step"].read_sequence(
        atcpy.InferenceSession("gru.om"), sequence, np.zeros((1, width), np.float32)
    )
    h = np.zeros((1, width))
    for x, y in zip(sequence.astype(float), outputs, strict=True):
        a, b = np.split(x @ w, 3, 1), np.split(h @ u, 3, 1)
        reset, update = (1 / (1 + np.exp(-(a[i] + b[i]))) for i in (0, 1))
        h = (1 - update) * np.tanh(a[2] + reset * b[2]) + update * h
        np.testing.assert_allclose(y, np.maximum(h, 0), atol=1e-5)
    np.testing.assert_allclose(hidden, h, atol=1e-5)


def test_training_learns_and_goes_on_from_call_to_call(modules: dict[str, ModuleType]) -> None:
    example = modules["gradient_descent"]
    atcpy.convert(example.training_step(rows=32), "step.om")
    session, examples = atcpy.InferenceSession("step.om"), example.batches(300, rows=32)
    losses, weights = example.train(session, example.first_weights(), examples)
    assert losses[-50:].mean() < losses[:50].mean() / 2
    halves = [{name: array[part] for name, array in examples.items()} for part in (slice(150), slice(150, None))]
    first, middle = example.train(session, example.first_weights(), halves[0])
    second, end = example.train(session, middle, halves[1])
    np.testing.assert_array_equal(np.concatenate([first, second]), losses)
    for name, array in weights.items():
        np.testing.assert_array_equal(end[name], array)


def test_gradients_are_those_of_differences(modules: dict[str, ModuleType]) -> None:
    example = modules["gradient_descent"]
    atcpy.convert(example.training_step(rows=8), "step.om")
    session = atcpy.InferenceSession("step.om")
    batch, weights = {name: array[:1] for name, array in example.batches(1, rows=8).items()}, example.first_weights()

    def loss(w: dict[str, np.ndarray]) -> float:
        w = {name: array.astype(float) for name, array in w.items()}
        x, truth = batch["x"][0].astype(float), batch["truth"][0].astype(float)
        return float(((np.tanh(x @ w["w"] + w["b"]) @ w["u"] - truth) ** 2).mean())

    losses, moved = example.train(session, weights, batch)
    np.testing.assert_allclose(losses, [loss(weights)], rtol=1e-5)
    for name, array in weights.items():
        for at in np.ndindex(*array.shape):
            step = np.zeros(array.shape)
            step[at] = 1e-4
            slope = (loss({**weights, name: array + step}) - loss({**weights, name: array - step})) / 2e-4
            np.testing.assert_allclose(moved[name][at], array[at] - 0.05 * slope, atol=1e-5)


def test_ranks_train_as_one_on_the_whole_batch(modules: dict[str, ModuleType]) -> None:
    [(expected, weights)] = modules["data_parallel"].train_on_ranks(1, 40)
    for losses, own in modules["data_parallel"].train_on_ranks(2, 40):
        np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5)
        for name, array in own.items():
            np.testing.assert_allclose(array, weights[name], rtol=1e-4, atol=1e-5)

"""The trained digit classifier that the project ships, and the code that drew its pictures and trained it."""

from __future__ import annotations

from pathlib import Path

import digit_network
import make_digits
import numpy as np
import onnx
import onnxruntime
import pytest
from digit_network import Floats
from digit_pictures import SIDE, Style, draw_digit
from PIL import Image

DIGITS = Path(__file__).parents[2] / "models" / "digits"
MODEL = DIGITS / "digits.onnx"
PICTURES = sorted((DIGITS / "pictures").glob("*.png"))


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.load(MODEL)


@pytest.fixture(scope="module")
def classifier() -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])


def test_model_is_valid(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)


def test_model_has_what_the_demo_shows(model: onnx.ModelProto) -> None:
    ops = [node.op_type for node in model.graph.node]
    for op_type, count in {"Conv": 6, "BatchNormalization": 6, "Add": 2, "Dropout": 1, "Gemm": 1}.items():
        assert ops.count(op_type) == count
    channels = {weight.dims[0] for weight in model.graph.initializer if len(weight.dims) == 4}
    assert channels == {16, 32}, "channels fill whole blocks of C0 = 16"
    props = {prop.key: prop.value for prop in model.metadata_props}
    assert props["license"] == "Apache-2.0"
    assert f"{make_digits.MEAN}" in props["input"]


def test_there_is_a_picture_of_every_digit() -> None:
    assert [path.stem for path in PICTURES] == [str(digit) for digit in range(10)]
    assert (DIGITS / "labels.txt").read_text().split() == [path.stem for path in PICTURES]


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_picture_is_classified_right(path: Path, classifier: onnxruntime.InferenceSession) -> None:
    pixels = np.asarray(Image.open(path))
    assert (pixels.shape, pixels.dtype) == ((SIDE, SIDE), np.dtype(np.uint8))
    (probabilities,) = classifier.run(None, {"image": make_digits.normalise(pixels)[None, None]})
    assert probabilities.argmax() == int(path.stem)
    assert probabilities.max() > 0.5


def test_unseen_pictures_are_classified_right(classifier: onnxruntime.InferenceSession) -> None:
    pictures, digits = make_digits.draw_set(purpose=4, count=200)
    guesses = [classifier.run(None, {"image": picture.transpose(2, 0, 1)[None]})[0].argmax() for picture in pictures]
    assert np.mean(guesses == digits) >= make_digits.MIN_ACCURACY


@pytest.mark.parametrize("style", Style)
def test_a_picture_depends_on_its_seed_alone(style: Style) -> None:
    first = draw_digit(3, style, (9, 1))
    other = draw_digit(3, style, (9, 2))
    assert np.array_equal(draw_digit(3, style, (9, 1)), first)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("digit", range(0, 10, 2))
def test_committed_picture_is_the_one_that_the_code_draws(digit: int) -> None:
    # Even digits are handwritten; the others hang on the version of Pillow's font. One grey level is rounding.
    drawn, drawn_digit = make_digits.picture(make_digits.COMMITTED, digit)
    committed = np.asarray(Image.open(DIGITS / "pictures" / f"{digit}.png"))
    assert drawn_digit == digit
    assert np.abs(drawn.astype(int) - committed).max() <= 1


def test_gradients_agree_with_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digit_network, "DROPOUT", 0.0)
    rng = np.random.default_rng(5)
    network = digit_network.build(rng)
    # Layers from the last pooling on: before it, a step may change which of four pixels is the largest.
    late = list(network.parameters())[-8:]
    pictures: Floats = rng.normal(size=(4, SIDE, SIDE, 1)).astype(np.float32)
    digits = np.array([1, 2, 3, 4])
    make_digits.backpropagate(network, pictures, digits)
    gradients = [parameter.gradient.copy() for parameter in late]
    for parameter, gradient in zip(late, gradients, strict=True):
        largest = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
        losses = []
        for step in (-1e-2, 1e-2):
            parameter.value[largest] += step
            losses.append(make_digits.backpropagate(network, pictures, digits))
            parameter.value[largest] -= step
        assert (losses[1] - losses[0]) / 2e-2 == pytest.approx(gradient[largest], rel=0.02)


def test_export_agrees_with_the_network_that_it_came_from() -> None:
    rng = np.random.default_rng(6)
    network = digit_network.build(rng)
    pictures, digits = make_digits.draw_set(purpose=5, count=16)
    make_digits.backpropagate(network, pictures, digits)  # moves the statistics of BatchNormalization
    logits = network.forward(pictures[:1], training=False)[0].astype(np.float64)
    expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    exported = digit_network.export(network, SIDE, {}).SerializeToString()
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(None, {"image": pictures[:1, ..., 0][None]})
    np.testing.assert_allclose(probabilities[0], expected, rtol=1e-4)

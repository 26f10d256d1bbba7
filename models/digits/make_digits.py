"""Trains the digit classifier on pictures drawn by code, and writes the model, its labels and test pictures.

python models/digits/make_digits.py [OUT]
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import numpy.typing as npt
import typer
from digit_network import Chain, Floats, Parameter, build, export
from digit_pictures import SIDE, Pixels, Style, draw_digit
from PIL import Image

HERE: Final = Path(__file__).parent
DIGITS: Final = 10
MEAN, STD = 127.5, 127.5

# The first number of a picture's seed: training, validation and committed pictures never share seeds.
TRAINING, TEST, COMMITTED = 1, 2, 3
TRAINING_COUNT: Final = 20_000
TEST_COUNT: Final = 4_000

EPOCHS: Final = 6
BATCH: Final = 64
LEARNING_RATE: Final = 4e-3
WEIGHT_DECAY: Final = 1e-4
MIN_ACCURACY: Final = 0.98

Labels = npt.NDArray[np.int64]


def picture(purpose: int, index: int) -> tuple[Pixels, int]:
    """Returns picture number `index` and its digit; even digits start handwritten, odd ones in type."""
    digit, repeat = index % DIGITS, index // DIGITS
    style = list(Style)[(digit + repeat) % len(Style)]
    return draw_digit(digit, style, (purpose, index)), digit


def draw_set(purpose: int, count: int) -> tuple[Floats, Labels]:
    """Returns normalised pictures [count, SIDE, SIDE, 1] and their digits."""
    pictures, digits = zip(*(picture(purpose, index) for index in range(count)), strict=True)
    return normalise(np.stack(pictures))[..., None], np.array(digits)


def normalise(pixels: Pixels) -> Floats:
    """Returns the network's input for grey levels 0..255."""
    return ((pixels.astype(np.float32) - MEAN) / STD).astype(np.float32)


class Adam:
    """Adam with decoupled weight decay."""

    def __init__(self, parameters: list[Parameter]) -> None:
        self._parameters = parameters
        self._mean = [np.zeros_like(parameter.value) for parameter in parameters]
        self._square = [np.zeros_like(parameter.value) for parameter in parameters]
        self._steps = 0

    def step(self, rate: float) -> None:
        self._steps += 1
        correction = np.sqrt(1 - 0.999**self._steps) / (1 - 0.9**self._steps)
        for parameter, mean, square in zip(self._parameters, self._mean, self._square, strict=True):
            mean += 0.1 * (parameter.gradient - mean)
            square += 0.001 * (parameter.gradient**2 - square)
            update = correction * mean / (np.sqrt(square) + 1e-8) + WEIGHT_DECAY * parameter.value
            parameter.value -= np.float32(rate) * update


def train(network: Chain, pictures: Floats, digits: Labels, rng: np.random.Generator) -> Iterator[float]:
    """Trains `network`, and yields the mean loss of each epoch."""
    optimizer = Adam(list(network.parameters()))
    steps = len(pictures) // BATCH
    for epoch in range(EPOCHS):
        order = rng.permutation(len(pictures))
        losses = []
        for step in range(steps):
            chosen = order[step * BATCH : (step + 1) * BATCH]
            losses.append(backpropagate(network, pictures[chosen], digits[chosen]))
            progress = (epoch * steps + step) / (EPOCHS * steps)
            optimizer.step(LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * progress)))
        yield float(np.mean(losses))


def backpropagate(network: Chain, pictures: Floats, digits: Labels) -> float:
    """Stores the gradient of the mean cross-entropy in the parameters, and returns the loss."""
    logits = network.forward(pictures, training=True)
    logits = logits - logits.max(axis=1, keepdims=True)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows = np.arange(len(digits))
    loss = -np.log(np.maximum(probabilities[rows, digits], 1e-30)).mean()
    probabilities[rows, digits] -= 1
    network.backward(probabilities / np.float32(len(digits)))
    return float(loss)


def accuracy(network: Chain, pictures: Floats, digits: Labels) -> float:
    """Returns the fraction of pictures whose digit gets the highest score."""
    batches = np.array_split(pictures, max(1, len(pictures) // 250))
    guesses = np.concatenate([network.forward(batch, training=False).argmax(axis=1) for batch in batches])
    return float((guesses == digits).mean())


def write_labels_and_pictures(out: Path) -> None:
    """Writes labels.txt and one test picture per digit, `pictures/<digit>.png`."""
    (out / "labels.txt").write_text("".join(f"{digit}\n" for digit in range(DIGITS)))
    (out / "pictures").mkdir(exist_ok=True)
    for index in range(DIGITS):
        pixels, digit = picture(COMMITTED, index)
        Image.fromarray(pixels).save(out / "pictures" / f"{digit}.png")


def main(out: Annotated[Path, typer.Argument(metavar="OUT", help="directory to write into")] = HERE) -> None:
    """Trains the digit classifier and writes digits.onnx, labels.txt and pictures/."""
    out.mkdir(parents=True, exist_ok=True)
    write_labels_and_pictures(out)
    pictures, digits = draw_set(TRAINING, TRAINING_COUNT)
    unseen, unseen_digits = draw_set(TEST, TEST_COUNT)
    rng = np.random.default_rng(20240229)
    network = build(rng)
    start = time.perf_counter()
    for epoch, loss in enumerate(train(network, pictures, digits, rng), start=1):
        share = accuracy(network, unseen, unseen_digits)
        print(f"epoch {epoch}: loss {loss:.4f}, right {share:.2%}, {time.perf_counter() - start:.0f} s", flush=True)
    if share < MIN_ACCURACY:
        raise SystemExit(f"only {share:.2%} of the test pictures are right, digits.onnx is not written")
    metadata = {
        "description": "classifies a grey 28x28 picture of one digit",
        "license": "Apache-2.0",
        "input": f"(grey level 0..255 - {MEAN}) / {STD}",
        "labels": ",".join(map(str, range(DIGITS))),
        "test_accuracy": f"{share:.4f}",
    }
    model = export(network, SIDE, metadata)
    (out / "digits.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    typer.run(main)

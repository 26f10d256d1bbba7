"""Losses of ONNX Runtime training and their gradients against numpy and finite differences in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.contrib.cases import floats
from tests.ops.contrib.training.test_gradients import close, ours, slope
from tests.parsers.onnx.canonical import Array

IGNORED = 2


def log_softmax(x: Array, axis: int = 1) -> Array:
    moved = x - x.max(axis, keepdims=True)
    y: Array = moved - np.log(np.exp(moved).sum(axis, keepdims=True))
    return y


def reduced(losses: Array, weights: Array, reduction: str) -> Array:
    match reduction:
        case "none":
            return losses * weights
        case "sum":
            return np.asarray((losses * weights).sum())
    total = weights.sum()
    return np.asarray((losses * weights).sum() / (total if total else 1))


def loss(x: Array, labels: Array, weight: Array | None, ignored: int | None, reduction: str) -> Array:
    """SoftmaxCrossEntropyLoss of the standard."""
    counted = np.ones(labels.shape, bool) if ignored is None else labels != ignored
    safe = np.where(counted, labels, 0)
    losses = -np.take_along_axis(log_softmax(x), np.expand_dims(safe, 1), 1).squeeze(1)
    weights = counted * (1.0 if weight is None else weight[safe])
    return reduced(losses, weights, reduction)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignored", [None, IGNORED, -100])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sides", [(), pytest.param((3, 2), marks=pytest.mark.slow)])
def test_softmax_cross_entropy_and_its_gradient(
    reduction: str, ignored: int | None, weighted: bool, sides: tuple[int, ...]
) -> None:
    x, labels = floats(4, 5, *sides), np.random.default_rng(3).integers(0, 5, (4, *sides)).astype(np.int32)
    if ignored == -100:
        labels[0] = -100
    weight = np.abs(floats(5)) + np.float32(0.1) if weighted else None

    def forward(x: Array) -> Array:
        return loss(x, labels, weight, ignored, reduction)

    dy = floats(*forward(x).shape)
    log_prob = log_softmax(x)
    attrs: dict[str, object] = {"reduction": reduction} | ({} if ignored is None else {"ignore_index": ignored})
    want = slope(forward, x, dy)
    close(ours("SoftmaxCrossEntropyLossGrad", [dy, log_prob, labels, weight], attrs)[0], want)
    index = None if ignored is None else np.array(ignored)
    bias, attrs = floats(x.size), {"reduction": reduction}
    inputs = [dy, log_prob, labels, weight, index, bias]
    close(ours("SoftmaxCrossEntropyLossInternalGrad", inputs, attrs)[0], want + bias.reshape(x.shape))
    y, saved = ours("SoftmaxCrossEntropyLossInternal", [x, labels, weight, index], attrs, outputs=2)
    close(y, forward(x))
    close(saved, log_prob)
    close(ours("NegativeLogLikelihoodLossInternal2", [log_prob, labels, weight, index], attrs)[0], forward(x))


def test_the_gradient_is_zero_when_all_labels_are_ignored() -> None:
    labels, log_prob = np.full(3, IGNORED), log_softmax(floats(3, 5))
    (dx,) = ours("SoftmaxCrossEntropyLossGrad", [np.array(2, np.float32), log_prob, labels], {"ignore_index": IGNORED})
    assert dx.tolist() == np.zeros((3, 5)).tolist()


def test_an_impossible_class_does_not_make_the_loss_nan() -> None:
    log_prob = np.array([[0.0, -np.inf]], np.float32)
    (y,) = ours("NegativeLogLikelihoodLossInternal", [log_prob, np.array([0])])
    assert y == 0


def test_the_result_may_have_another_type() -> None:
    x, labels = floats(3, 5), np.array([0, 4, 1])
    half = log_softmax(x).astype(np.float16)
    inputs = [np.array(1, np.float16), half, labels]
    (dx,) = ours("SoftmaxCrossEntropyLossInternalGrad", inputs, {"output_type": 1})
    assert dx.dtype == np.float32
    y, log_prob = ours("SoftmaxCrossEntropyLossInternal", [x.astype(np.float16), labels], {"output_type": 1}, outputs=2)
    assert (y.dtype, log_prob.dtype) == (np.float32, np.float32)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_cross_entropy_along_the_last_axis(reduction: str, weighted: bool) -> None:
    x, labels = floats(4, 3, 5), np.random.default_rng(3).integers(0, 5, (4, 3))
    weight = np.abs(floats(4, 3)) if weighted else None

    def forward(x: Array) -> Array:
        losses = -np.take_along_axis(log_softmax(x, -1), labels[..., None], -1)[..., 0]
        return reduced(losses, np.ones((4, 3)) if weight is None else weight, reduction)

    attrs: dict[str, object] = {"reduction": reduction}
    y, log_prob = ours("SparseSoftmaxCrossEntropy", [x, labels, weight], attrs, outputs=2, domain="")
    close(y, forward(x))
    dy = np.array(1.5, np.float32)
    (dx,) = ours("SparseSoftmaxCrossEntropyGrad", [dy, log_prob, labels, weight], attrs, domain="")
    close(dx, slope(forward, x, dy))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_class_probabilities(reduction: str) -> None:
    x, share = floats(2, 3, 5), np.exp(log_softmax(floats(2, 3, 5, seed=4), -1))

    def forward(x: Array) -> Array:
        losses = -(share * log_softmax(x, -1)).sum(-1)
        return reduced(losses, np.ones((2, 3)), reduction)

    attrs: dict[str, object] = {"reduction": reduction}
    y, log_prob = ours("SoftmaxCrossEntropy", [x, share], attrs, outputs=2)
    close(y, forward(x))
    dy = floats(*forward(x).shape)
    close(ours("SoftmaxCrossEntropyGrad", [dy, log_prob, share], attrs)[0], slope(forward, x, dy))

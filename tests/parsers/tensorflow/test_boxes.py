"""Non-maximum suppression, and crops of boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.graphs import Array, TfBuilder

F32 = np.float32


def _boxes(*shape: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    corner = rng.random((*shape, 2)) * 0.7
    return np.concatenate([corner, corner + 0.1 + 0.25 * rng.random((*shape, 2))], -1).astype(F32)


def _shared(a: Array, b: Array) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    both = float(np.prod(np.maximum(sides, 0)))
    return both / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both)


def _selected(boxes: Array, scores: Array, max_boxes: int, iou: float, min_score: float = -np.inf) -> list[int]:
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        overlaps = (_shared(boxes[index], boxes[k]) for k in kept)
        if len(kept) < max_boxes and scores[index] > min_score and all(overlap <= iou for overlap in overlaps):
            kept.append(int(index))
    return kept


@pytest.mark.parametrize("is_open", [False, True])
def test_non_max_suppression(tmp_path: Path, is_open: bool) -> None:
    boxes, scores = _boxes(50), np.random.default_rng(1).random(50).astype(F32)
    scores[10:14] = scores[9]
    g = TfBuilder()
    b = g.input("b", "float32", (None, 4) if is_open else (50, 4))
    s = g.input("s", "float32", (None,) if is_open else (50,))
    limit, iou, min_score, none = g.const(30, "int32"), g.const(F32(0.1)), g.const(scores[7]), g.const(F32(0))
    plain = [g.add("NonMaxSuppression", b, s, limit, iou_threshold=0.1), g.add("NonMaxSuppressionV2", b, s, limit, iou),
             g.add("NonMaxSuppressionV3", b, s, limit, iou, min_score)]  # fmt: skip
    padded = g.add("NonMaxSuppressionV4", b, s, limit, iou, min_score, pad_to_max_output_size=True)
    fifth = g.add("NonMaxSuppressionV5", b, s, limit, iou, min_score, none)
    filled = g.add("NonMaxSuppressionV5", b, s, limit, iou, min_score, none, pad_to_max_output_size=True)
    names = [*plain, padded, f"{padded}:1", fifth, f"{fifth}:1", f"{fifth}:2", filled, f"{filled}:1"]
    ys = g.run(tmp_path, {"b": boxes, "s": scores}, *names)
    all_kept, kept = _selected(boxes, scores, 30, 0.1), _selected(boxes, scores, 30, 0.1, scores[7])
    padding = [0] * (30 - len(kept))
    padded_indices, padded_scores = kept + padding, [*scores[kept], *padding]
    by_op = [all_kept, all_kept, kept, padded_indices, len(kept), kept, scores[kept], len(kept)]
    for y, expected in zip(ys, [*by_op, padded_indices, padded_scores], strict=True):
        assert y.dtype in (np.int32, np.float32)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("variants", [1, 4])
def test_combined_non_max_suppression(tmp_path: Path, variants: int, per_class: bool) -> None:
    boxes, scores = _boxes(2, 20, variants, seed=2) * F32(1.2), np.random.default_rng(3).random((2, 20, 4)).astype(F32)
    g = TfBuilder()
    inputs = [g.input("b", "float32", (None, 20, variants, 4)), g.input("s", "float32", (None, 20, 4))]
    limits = [g.const(3, "int32"), g.const(100, "int32"), g.const(F32(0.3)), g.const(F32(0.25))]
    node = g.add("CombinedNonMaxSuppression", *inputs, *limits, pad_per_class=per_class)
    names = [node, *[f"{node}:{output}" for output in (1, 2, 3)]]
    found, best, classes, counts = g.run(tmp_path, {"b": boxes, "s": scores}, *names)
    assert found.shape == (2, 12 if per_class else 100, 4) and counts.dtype == np.int32
    for image in range(2):
        every = []
        for group in range(4):
            own = boxes[image, :, group % variants]
            for index in _selected(own, scores[image, :, group], 3, 0.3, 0.25):
                every.append((scores[image, index, group], group, own[index]))
        every.sort(key=lambda each: -each[0])
        n = len(every)
        assert counts[image] == n and not found[image, n:].any() and not best[image, n:].any()
        np.testing.assert_array_equal(best[image, :n], [each[0] for each in every])
        np.testing.assert_array_equal(classes[image, :n], [each[1] for each in every])
        np.testing.assert_array_equal(found[image, :n], np.clip([each[2] for each in every], 0, 1))


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(1, 7), *(pytest.param(size, marks=pytest.mark.slow) for size in [(1, 1), (4, 5)])])
def test_crop_and_resize(tmp_path: Path, size: tuple[int, int], method: str) -> None:
    rng = np.random.default_rng(4)
    image = rng.integers(0, 200, (3, 9, 8, 4)).astype(np.uint8)
    boxes = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.2, 0.3, 1.3, 0.5], [0.9, 0.8, 0.1, 0.2]], F32)
    of = np.array([0, 2, 1, 1], np.int32)
    g = TfBuilder()
    inputs = [g.input("x", "uint8", (None, None, None, 4)), g.input("b", "float32", (None, 4)),
              g.input("i", "int32", (None,)), g.const(size, "int32")]  # fmt: skip
    node = g.add("CropAndResize", *inputs, method=method, extrapolation_value=2.5)
    (y,) = g.run(tmp_path, {"x": image, "b": boxes, "i": of}, node)
    assert y.shape == (4, *size, 4) and y.dtype == np.float32
    for box, row, column in np.ndindex(4, *size):
        position = []
        for axis, at in enumerate((row, column)):
            first, last, span = boxes[box, axis], boxes[box, axis + 2], F32(image.shape[axis + 1] - 1)
            step = (last - first) * span / F32(max(size[axis] - 1, 1))
            position.append(first * span + F32(at) * step if size[axis] > 1 else F32(0.5) * (first + last) * span)
        if any(not 0 <= at <= side - 1 for at, side in zip(position, image.shape[1:3], strict=True)):
            expected: Array = np.full(4, 2.5)
        elif method == "nearest":
            expected = image[(of[box], *[int(at + 0.5) for at in position])]
        else:
            (top, left), (bottom, right) = ([int(rounded(at)) for at in position] for rounded in (np.floor, np.ceil))
            dy, dx = position[0] - top, position[1] - left
            pixels = image[of[box]].astype(float)
            above = pixels[top, left] * (1 - dx) + pixels[top, right] * dx
            expected = above * (1 - dy) + (pixels[bottom, left] * (1 - dx) + pixels[bottom, right] * dx) * dy
        np.testing.assert_allclose(y[box, row, column], expected, rtol=1e-4)


@pytest.mark.parametrize(("max_boxes", "limit", "min_score"), [(12, 0.6, 0.2), (2, 0.9, -1.0), (0, 0.5, 0.0)])
def test_suppression_with_overlaps(tmp_path: Path, max_boxes: int, limit: float, min_score: float) -> None:
    rng = np.random.default_rng(6)
    overlaps, scores = rng.random((12, 12)).astype(F32), rng.integers(0, 9, 12).astype(F32) / 8
    g = TfBuilder()
    inputs = [g.input("o", "float32", (None, None)), g.input("s", "float32", (None,)), g.input("k", "int32", ())]
    g.add("NonMaxSuppressionWithOverlaps", *inputs, g.const(F32(limit)), g.const(F32(min_score)), name="y")
    run = g.converted(tmp_path, "y")
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        if len(kept) < max_boxes and scores[index] > min_score and all(overlaps[index, k] <= limit for k in kept):
            kept.append(int(index))
    (y,) = run({"o": overlaps, "s": scores, "k": np.int32(max_boxes)})
    np.testing.assert_array_equal(y, np.array(kept, np.int32))
    assert run({"o": overlaps[:0, :0], "s": scores[:0], "k": np.int32(3)})[0].shape == (0,)


def test_soft_suppression_is_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    b, s = g.input("b", "float32", (5, 4)), g.input("s", "float32", (5,))
    node = g.add("NonMaxSuppressionV5", b, s, g.const(3, "int32"), *[g.const(F32(v)) for v in (0.1, 0.2, 0.5)])
    with pytest.raises(AtcError, match="soft_nms_sigma") as caught:
        g.run(tmp_path, {}, node)
    assert caught.value.code == "E10055"

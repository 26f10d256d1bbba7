"""The object detector: YOLOv8n with the head that decodes boxes."""

from __future__ import annotations

from typing import Final

import numpy as np
from graph_builder import Array, Graph
from layers import SILU_GAIN, conv, max_pool, silu, upsample2x

SIDE: Final = 640
STRIDES: Final = (8, 16, 32)
CELLS: Final = sum((SIDE // stride) ** 2 for stride in STRIDES)
BINS: Final = 16  # of the distribution over each side's distance
CLASSES: Final = 80


def yolo_n640(g: Graph) -> None:
    """YOLOv8n at 640x640; BatchNormalization is folded, as its exporter does."""
    x = g.input("images", 1, 3, SIDE, SIDE)
    pyramid: list[str] = []
    channels = 3
    for index, (width, repeats) in enumerate(((16, 0), (32, 1), (64, 2), (128, 2), (256, 1))):
        with g.scope("backbone", str(index)):
            with g.scope("down"):
                x = _conv_silu(g, x, channels, width, 3, stride=2)
            if repeats:
                x = _c2f(g, x, width, width, [True] * repeats)
        pyramid.append(x)
        channels = width
    with g.scope("backbone", "sppf"):
        p5 = _sppf(g, pyramid[4], 256)
    with g.scope("neck", "up4"):
        p4 = _c2f(g, g.op("Concat", upsample2x(g, p5), pyramid[3], axis=1), 384, 128, [False])
    with g.scope("neck", "up3"):
        p3 = _c2f(g, g.op("Concat", upsample2x(g, p4), pyramid[2], axis=1), 192, 64, [False])
    with g.scope("neck", "down4"):
        p4 = _c2f(g, g.op("Concat", _conv_silu(g, p3, 64, 64, 3, stride=2), p4, axis=1), 192, 128, [False])
    with g.scope("neck", "down5"):
        p5 = _c2f(g, g.op("Concat", _conv_silu(g, p4, 128, 128, 3, stride=2), p5, axis=1), 384, 256, [False])
    levels: list[str] = []
    for index, (level, width) in enumerate(((p3, 64), (p4, 128), (p5, 256))):
        with g.scope("detect", str(index)):
            levels.append(_detect(g, level, width))
    g.output(_decode(g, levels), "output0", 1, 4 + CLASSES, CELLS)


def _conv_silu(g: Graph, x: str, channels_in: int, channels_out: int, kernel: int, *, stride: int = 1) -> str:
    return silu(g, conv(g, x, channels_in, channels_out, kernel, stride=stride, bias=True, gain=SILU_GAIN))


def _c2f(g: Graph, x: str, channels_in: int, channels_out: int, shortcuts: list[bool]) -> str:
    """Adds one bottleneck per entry of `shortcuts`; all their results are concatenated."""
    half = channels_out // 2
    with g.scope("cv1"):
        parts = g.ops(2, "Split", _conv_silu(g, x, channels_in, channels_out, 1), g.integers([half, half]), axis=1)
    for index, shortcut in enumerate(shortcuts):
        y = parts[-1]
        for name in ("cv1", "cv2"):
            with g.scope("m", str(index), name):
                y = _conv_silu(g, y, half, half, 3)
        parts.append(g.op("Add", parts[-1], y) if shortcut else y)
    with g.scope("cv2"):
        return _conv_silu(g, g.op("Concat", *parts, axis=1), half * len(parts), channels_out, 1)


def _sppf(g: Graph, x: str, channels: int) -> str:
    """Adds three poolings in a row; the four sizes are concatenated."""
    with g.scope("cv1"):
        pools = [_conv_silu(g, x, channels, channels // 2, 1)]
    for _ in range(3):
        pools.append(max_pool(g, pools[-1], 5, 1, 2))
    with g.scope("cv2"):
        return _conv_silu(g, g.op("Concat", *pools, axis=1), 2 * channels, channels, 1)


def _detect(g: Graph, x: str, channels: int) -> str:
    """Adds a level's branches for boxes and classes: [1, 4 * BINS + CLASSES, cells]."""
    branches: list[str] = []
    for name, width in (("cv2", 4 * BINS), ("cv3", CLASSES)):
        with g.scope(name, "0"):
            y = _conv_silu(g, x, channels, width, 3)
        with g.scope(name, "1"):
            y = _conv_silu(g, y, width, width, 3)
        with g.scope(name, "2"):
            branches.append(conv(g, y, width, width, 1, bias=True, gain=1.0))
    return g.reshape(g.op("Concat", *branches, axis=1), 1, 4 * BINS + CLASSES, -1)


def _decode(g: Graph, levels: list[str]) -> str:
    """Converts distributions over distances to boxes in pixels, and scores to probabilities."""
    with g.scope("detect", "dfl"):
        joined = g.op("Concat", *levels, axis=2)
        sides, scores = g.ops(2, "Split", joined, g.integers([4 * BINS, CLASSES]), axis=1)
        distribution = g.op("Softmax", g.transpose(g.reshape(sides, 1, 4, BINS, CELLS), 0, 2, 1, 3), axis=1)
        bins = g.weight("weight", np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
        distances = g.reshape(g.op("Conv", distribution, bins, kernel_shape=[1, 1]), 1, 4, CELLS)
    with g.scope("detect"):
        anchors, strides = map(g.floats, _anchors())
        to_near, to_far = g.ops(2, "Split", distances, g.integers([2, 2]), axis=1)
        near, far = g.op("Sub", anchors, to_near), g.op("Add", anchors, to_far)
        centre = g.op("Div", g.op("Add", near, far), g.floats(2.0))
        boxes = g.op("Mul", g.op("Concat", centre, g.op("Sub", far, near), axis=1), strides)
        return g.op("Concat", boxes, g.op("Sigmoid", scores), axis=1)


def _anchors() -> tuple[Array, Array]:
    """Returns the cells' centres [1, 2, CELLS], in cells, and their strides [1, CELLS], in pixels."""
    centres: list[Array] = []
    strides: list[Array] = []
    for stride in STRIDES:
        y, x = np.mgrid[: SIDE // stride, : SIDE // stride].reshape(2, -1)
        centres.append(np.stack([x, y]) + 0.5)
        strides.append(np.full((1, x.size), stride))
    return np.concatenate(centres, axis=1)[None], np.concatenate(strides, axis=1)

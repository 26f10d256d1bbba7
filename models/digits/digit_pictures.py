"""Draws pictures of the digits 0-9, handwritten or in type, as grey 28x28 arrays.

A handwritten digit is a few strokes on a 6x10 grid, bent, sheared, rotated and inked with a round pen. A digit in
type is Pillow's built-in font under the same distortions. Ink may be darker or brighter than the paper; light, blur
and noise come last. A picture depends on its seed alone.
"""

from __future__ import annotations

import math
from enum import Enum
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Floats = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]

SIDE: Final = 28
GRID: Final = np.array([6.0, 10.0], np.float32)
GLYPH_PX: Final = 64
SPLINE_STEPS: Final = 8

# digit -> ways to write it -> strokes -> points "x y"; a corner is where one stroke ends and the next begins
SHAPES: Final[tuple[tuple[tuple[str, ...], ...], ...]] = (
    (
        ("3 0, .7 2, 0 5, .7 8, 3 10, 5.3 8, 6 5, 5.3 2, 3 0",),
        ("3.8 0, 1 1.6, 0 5.5, 1 9, 3 10, 5 8.4, 6 5, 5.4 1.8, 3.2 .4",),
    ),
    (
        ("3 0, 3 10",),
        ("1 2.6, 3.2 0", "3.2 0, 3 10"),
        ("1 2.2, 3 0", "3 0, 3 10", ".8 10, 5.2 10"),
    ),
    (
        (".4 2.6, 1.4 .6, 3.4 0, 5.4 1.5, 5.2 3.6, 3 6.6, .2 10", ".2 10, 6 10"),
        (".5 2, 2.8 0, 5.2 1.4, 5 4, 2.6 7.6, .6 9.6, 1 8.4, 2.6 8.8, 4.4 9.9, 6 9.4",),
    ),
    (
        (".4 1.4, 2.8 0, 5.3 1.4, 5 3.7, 2.4 4.7", "2.4 4.7, 5.2 5.6, 5.8 8, 3.4 10, .2 8.8"),
        (".4 0, 5.6 0", "5.6 0, 2.4 4.2", "2.4 4.2, 5.2 5.2, 5.7 8, 3.2 10, .2 8.8"),
    ),
    (
        ("4 0, 0 6.8", "0 6.8, 6 6.8", "4.3 .2, 4.3 10"),
        (".9 0, .2 5.4", ".2 5.4, 5.9 5.4", "4.9 1, 4.6 10"),
    ),
    (
        ("5.6 0, 1 0", "1 0, .6 4.6", ".6 4.6, 3 3.8, 5.6 5.5, 5.5 8.4, 2.9 10, .2 8.8"),
        ("5.4 .2, 1.2 0", "1.2 0, 1 4", "1 4, 4 4.4, 5.8 6.6, 4.4 9.4, .4 9.8"),
    ),
    (
        ("4.9 .2, 2 2.5, .3 6, .8 9, 3 10, 5.4 8.7, 5.5 6.3, 3.2 4.9, .6 6.6",),
        ("3.6 0, 1 4.6, .3 7.6, 2.6 10, 5.4 8.4, 5 5.8, 2.8 5, .5 7",),
    ),
    (
        (".3 0, 5.8 0", "5.8 0, 3.4 5, 2.2 10"),
        (".3 0, 5.8 0", "5.8 0, 3.6 5, 2.4 10", "1.6 5.2, 5.4 5.2"),
        (".3 1.4, .4 0", ".4 0, 5.8 0", "5.8 0, 2 10"),
    ),
    (
        ("3 4.6, .8 2.9, 1.1 .9, 3 0, 4.9 .9, 5.2 2.9, 3 4.6, .3 6.8, .8 9.2, 3 10, 5.2 9.2, 5.7 6.8, 3 4.6",),
        ("5 1.4, 3 0, .8 1.4, 1.4 3.4, 4.8 6, 5.4 8.4, 3 10, .6 8.4, 1.4 6, 4.6 3.6, 5 1.4",),
    ),
    (
        ("5.4 1.8, 3 0, .6 1.5, .6 3.8, 2.8 5.2, 5 4, 5.4 1.8", "5.4 1.8, 5.3 6, 4.6 10"),
        ("5.4 1.8, 3 0, .6 1.5, .6 3.8, 2.8 5.2, 5 4, 5.4 1.8", "5.4 1.8, 5.4 6.4, 4 9.4, 1 9.6"),
    ),
)


class Style(Enum):
    HANDWRITTEN = "handwritten"
    TYPE = "type"


def draw_digit(digit: int, style: Style, seed: tuple[int, ...]) -> Pixels:
    """Returns the picture of a digit that belongs to `seed`."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    coverage = _ink_strokes(digit, rng) if style is Style.HANDWRITTEN else _ink_glyph(digit, rng)
    return _photograph(coverage, rng)


def _ink_strokes(digit: int, rng: np.random.Generator) -> Floats:
    """Returns the fraction of each pixel covered by a round pen that follows the digit's strokes."""
    shape = SHAPES[digit][rng.integers(len(SHAPES[digit]))]
    strokes = [_spline(_points(text)) for text in shape]
    stroke_ends = np.cumsum([len(stroke) for stroke in strokes])[:-1]
    matrix, centre = _random_placement(rng)
    points = _wobble(np.concatenate(strokes) / GRID - 0.5, rng) @ matrix.T + centre
    paths = np.split(points.astype(np.float32), stroke_ends)
    starts = np.concatenate([path[:-1] for path in paths])
    steps = np.concatenate([np.diff(path, axis=0) for path in paths])
    reach = rng.uniform(0.75, 1.9)
    coverage: Floats = np.clip(np.float32(reach + 0.5) - _distance_to(starts, steps), 0, 1)
    return coverage


def _points(text: str) -> Floats:
    return np.array([point.split() for point in text.split(",")], np.float32)


def _spline(points: Floats) -> Floats:
    """Returns points along the Catmull-Rom curve through `points`; two points make a straight line."""
    before = np.concatenate([2 * points[:1] - points[1:2], points[:-2]])
    after = np.concatenate([points[2:], 2 * points[-1:] - points[-2:-1]])
    start, end = points[:-1], points[1:]
    t = np.linspace(0.0, 1.0, SPLINE_STEPS, endpoint=False, dtype=np.float32)[:, None, None]
    tangent_in, tangent_out = (end - before) / 2, (after - start) / 2
    curve = (
        (2 * t**3 - 3 * t**2 + 1) * start
        + (t**3 - 2 * t**2 + t) * tangent_in
        + (3 * t**2 - 2 * t**3) * end
        + (t**3 - t**2) * tangent_out
    )
    return np.concatenate([curve.transpose(1, 0, 2).reshape(-1, 2), points[-1:]]).astype(np.float32)


def _wobble(points: Floats, rng: np.random.Generator) -> Floats:
    """Bends the plane in two slow waves, which keep strokes connected."""
    bent = points.astype(np.float64)
    for _ in range(2):
        direction, phase = rng.normal(0.0, 2.5, 2), rng.uniform(0.0, 2 * math.pi)
        bent = bent + rng.normal(0.0, 0.025, 2) * np.sin(points @ direction + phase)[:, None]
    return bent.astype(np.float32)


def _random_placement(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Returns the matrix from the unit square to pixels, and the digit's centre in pixels."""
    height = rng.uniform(13.0, 22.0)
    width = height * rng.uniform(0.48, 0.8)
    angle, shear = rng.normal(0.0, math.radians(8.0)), rng.normal(0.05, 0.14)
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    slant = np.array([[1.0, -shear], [0.0, 1.0]])
    slack = (SIDE - 2 - height) / 2
    centre = (SIDE - 1) / 2 + rng.uniform(-slack, slack, 2)
    return (rotation @ slant @ np.diag([width, height])).astype(np.float32), centre.astype(np.float32)


def _distance_to(starts: Floats, steps: Floats) -> Floats:
    """Returns each pixel's distance to the nearest of the segments."""
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32).reshape(2, -1, 1)
    across, down = x - starts[:, 0], y - starts[:, 1]
    length = np.maximum((steps**2).sum(axis=1), 1e-12)
    along = np.clip((across * steps[:, 0] + down * steps[:, 1]) / length, 0.0, 1.0)
    squared = (across - along * steps[:, 0]) ** 2 + (down - along * steps[:, 1]) ** 2
    nearest: Floats = np.sqrt(squared.min(axis=1)).reshape(SIDE, SIDE)
    return nearest


def _ink_glyph(digit: int, rng: np.random.Generator) -> Floats:
    """Returns the digit in type, thinner or bolder than the font."""
    glyph = _glyph(digit)
    match rng.integers(4):
        case 0:
            glyph = glyph.filter(ImageFilter.MinFilter(3))
        case 1:
            glyph = glyph.filter(ImageFilter.MaxFilter(3))
        case 2:
            glyph = glyph.filter(ImageFilter.MaxFilter(5))
    matrix, centre = _random_placement(rng)
    # Pillow maps output pixels to glyph positions, so the matrix is inverted.
    back = np.linalg.inv(matrix.astype(np.float64)) * np.array(glyph.size)[:, None]
    origin = np.array(glyph.size) / 2 - back @ (centre + 0.5)
    coefficients = (*back[0], origin[0], *back[1], origin[1])
    # Drawn at four times the size and averaged, since Pillow's sampling would leave gaps in thin lines.
    enlarged = tuple(value if index % 3 == 2 else value / 4 for index, value in enumerate(coefficients))
    drawn = glyph.transform((4 * SIDE, 4 * SIDE), Image.Transform.AFFINE, enlarged, Image.Resampling.BILINEAR)
    return np.asarray(drawn.reduce(4), np.float32) / np.float32(255)


@cache
def _glyph(digit: int) -> Image.Image:
    """Returns the digit of the built-in font, white on black, cut to its box."""
    font = ImageFont.load_default(GLYPH_PX)
    canvas = Image.new("L", (2 * GLYPH_PX, 2 * GLYPH_PX))
    ImageDraw.Draw(canvas).text((GLYPH_PX // 2, GLYPH_PX // 4), str(digit), fill=255, font=font)
    box = canvas.getbbox()
    if box is None:
        raise RuntimeError(f"Pillow's built-in font draws nothing for {digit}")
    return canvas.crop((box[0] - 3, box[1] - 3, box[2] + 3, box[3] + 3))


def _photograph(coverage: Floats, rng: np.random.Generator) -> Pixels:
    """Chooses paper and ink, lights the page from one side, and adds blur and noise."""
    paper, ink = rng.uniform(170.0, 255.0), rng.uniform(0.0, 90.0)
    if rng.random() < 0.5:
        paper, ink = ink, paper
    soft = Image.fromarray((coverage * 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(rng.uniform(0.0, 0.7)))
    page = paper + (ink - paper) * np.asarray(soft, np.float64) / 255
    y, x = np.mgrid[-1.0 : 1.0 : SIDE * 1j, -1.0 : 1.0 : SIDE * 1j]
    light = rng.normal(0.0, 10.0, 2)
    page += light[0] * x + light[1] * y + rng.normal(0.0, rng.uniform(0.0, 12.0), page.shape)
    return np.clip(np.rint(page), 0, 255).astype(np.uint8)

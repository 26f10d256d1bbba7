"""Col2Im and CenterCropPad against the ONNX reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import ISAS
from tests.ops.exact import arange, assert_same

Attrs = dict[str, object]


@st.composite
def blocks(draw: st.DrawFn) -> tuple[list[Array], Attrs]:
    """Columns and attributes that fit an image of one to three dims."""
    size, rank = st.integers, draw(st.integers(1, 3))
    block = [draw(size(1, 3)) for _ in range(rank)]
    dilations, strides = [draw(size(1, 2)) for _ in block], [draw(size(1, 3)) for _ in block]
    begins, ends = [draw(size(0, 1)) for _ in block], [draw(size(0, 1)) for _ in block]
    image = [(k - 1) * d + 1 + draw(size(0, 4)) for k, d in zip(block, dilations, strict=True)]
    reach = [(k - 1) * d + 1 for k, d in zip(block, dilations, strict=True)]
    columns = [
        (i + b + e - r) // s + 1 for i, b, e, r, s in zip(image, begins, ends, reach, strides, strict=True)
    ]  # fmt: skip
    shape = (draw(size(1, 2)), draw(size(1, 2)) * int(np.prod(block)), int(np.prod(columns)))
    x = np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype(draw(st.sampled_from(["f4", "f8"])))
    attrs: Attrs = {"dilations": tuple(dilations), "strides": tuple(strides), "pads": (*begins, *ends)}
    return [x, np.array(image), np.array(block)], attrs


@settings(max_examples=trials(50), deadline=None)
@given(case=blocks())
def test_col2im_agrees_with_the_reference(case: tuple[list[Array], Attrs]) -> None:
    arrays, attrs = case
    node = make_node("Col2Im", arrays, attrs, constants=(1, 2))
    np.testing.assert_array_equal(run_op(node, arrays, threads=2)[0], reference_op(node, arrays)[0])


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[list[Array], Attrs]:
    """Blocks side by side, of an image some vectors wide: planes that vector kernels sum in registers."""
    size, rank = st.integers, draw(st.integers(1, 3))
    block = [draw(size(1, 3)) for _ in range(rank - 1)] + [draw(st.sampled_from([1, 2, 3, 5, 16, 17]))]
    dilations = [draw(size(1, 2)) for _ in block[1:]] + [draw(st.sampled_from([1, 1, 2, 4, 5]))]
    pads = [draw(size(0, 3)) for _ in range(2 * rank)]
    columns = [draw(size(1, 4)) for _ in block[1:]] + [draw(st.sampled_from([1, 2, 15, 16, 17, 31, 63, 64, 65, 100]))]
    image = [
        max(c - 1 + (k - 1) * d + 1 - pads[i] - pads[rank + i], 1)
        for i, (c, k, d) in enumerate(zip(columns, block, dilations, strict=True))
    ]
    columns = [
        i + pads[n] + pads[rank + n] - (k - 1) * d
        for n, (i, k, d) in enumerate(zip(image, block, dilations, strict=True))
    ]
    x = np.random.default_rng(sum(columns)).standard_normal((1, 2 * int(np.prod(block)), int(np.prod(columns))))
    return [x.astype(np.float32), np.array(image), np.array(block)], {
        "dilations": tuple(dilations), "pads": tuple(pads),
    }  # fmt: skip


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(80), deadline=None)
@given(case=neighbours())
def test_sums_do_not_depend_on_the_kernel(isa: str, case: tuple[list[Array], Attrs]) -> None:
    """Bit for bit those of the scalar kernel."""
    arrays, attrs = case
    node = make_node("Col2Im", arrays, attrs, constants=(1, 2))
    assert_same(run_op(node, arrays, isa=isa, threads=2), run_op(node, arrays, isa="scalar", threads=2))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("side", [8, 180])
def test_planes_that_caches_hold_and_larger_ones(side: int, isa: str) -> None:
    x = np.random.default_rng(side).standard_normal((1, 2 * 9, side * side), np.float32)
    x[0, 4, 5], x[0, 3, 7], x[0, 2, 9] = np.nan, np.inf, -0.0
    arrays = [x, np.array([side, side]), np.array([3, 3])]
    node = make_node("Col2Im", arrays, {"pads": (1, 1, 1, 1)}, constants=(1, 2))
    columns = x.reshape(2, 3, 3, side, side)
    expected = np.zeros((1, 2, side + 2, side + 2), np.float32)
    for h, w in np.ndindex(3, 3):
        expected[0, :, h : h + side, w : w + side] += columns[:, h, w]
    np.testing.assert_array_equal(run_op(node, arrays, isa=isa)[0], expected[:, :, 1:-1, 1:-1])


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float16])
@pytest.mark.parametrize(
    ("sizes", "axes"), [((3, 4, 8), None), ((9, 2), (-1, 0)), ((5, 6, 7), None), ((1, 11, 6), None), ((0,), (1,))]
)
def test_crop_and_pad_agree_with_the_reference(
    dtype: type, sizes: tuple[int, ...], axes: tuple[int, ...] | None
) -> None:
    arrays = [arange((5, 6, 7), dtype), np.array(sizes)]
    node = make_node("CenterCropPad", arrays, {} if axes is None else {"axes": axes}, constants=(1,))
    assert_same(run_op(node, arrays), reference_op(node, arrays))

"""ConvTranspose: every row against ONNX Runtime over odd windows, groups, tails and paddings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.ops.conv.conv_transpose import evaluate_conv_transpose
from tests.harness import make_node, run_op
from tests.isa import ISAS
from tests.ops.exact import onnxruntime_op

Case = tuple[Array, Array, Array | None, dict[str, object]]


def operands(rng: np.random.Generator, sizes: tuple[int, ...], kernel: tuple[int, int], group: int) -> list[Array]:
    """x, w and bias for sizes [n, c, m, h, w]; m is the number of output channels per group."""
    n, c, m, h, w = sizes
    shapes = [(n, c * group, h, w), (c * group, m, *kernel), (m * group,)]
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def check(x: Array, w: Array, bias: Array | None, attrs: dict[str, object], isa: str) -> None:
    """Assert that our ConvTranspose agrees with ONNX Runtime's."""
    arrays = [x, w, bias]
    node = make_node("ConvTranspose", arrays, attrs, constants=(1, 2))
    expected = onnxruntime_op(node, arrays)[0]
    assert node.output.desc.static_shape == expected.shape
    ours = run_op(node, arrays, blocked=True, isa=isa, threads=2)[0]
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5 * scale)


@st.composite
def windows(draw: st.DrawFn) -> Case:
    """Operands and attributes of a ConvTranspose whose result is not empty."""
    size = st.integers
    group = draw(st.sampled_from([1, 1, 1, 2, 3, 5]))
    kernel = (draw(size(1, 5)), draw(size(1, 4)))
    strides, dilations = (draw(size(1, 4)), draw(size(1, 3))), (draw(size(1, 3)), draw(size(1, 2)))
    padding = (draw(size(0, strides[0] - 1)), draw(size(0, strides[1] - 1)))
    h, w = draw(size(1, 9)), draw(size(1, 33))
    room = [
        s * (i - 1) + p + (k - 1) * d for s, i, p, k, d in zip(strides, (h, w), padding, kernel, dilations, strict=True)
    ]
    begins = [draw(size(0, min(3, room[axis]))) for axis in (0, 1)]
    ends = [draw(size(0, min(3, room[axis] - begins[axis]))) for axis in (0, 1)]
    rng = np.random.default_rng(draw(size(0, 2**32)))
    x, weights, bias = operands(rng, (draw(size(1, 2)), draw(size(1, 35)), draw(size(1, 35)), h, w), kernel, group)
    attrs: dict[str, object] = {
        "strides": strides, "dilations": dilations, "pads": (*begins, *ends), "group": group,
        "output_padding": padding,
    }  # fmt: skip
    return x, weights, bias if draw(st.booleans()) else None, attrs


@pytest.mark.parametrize("isa", ISAS)
@settings(deadline=None)
@given(case=windows())
def test_agrees_with_onnxruntime(isa: str, case: Case) -> None:
    check(*case, isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("kernel", "attrs"),
    [
        ((2, 2), {"strides": (2, 2)}),
        ((3, 3), {"strides": (2, 2), "auto_pad": "SAME_UPPER"}),
        ((4, 3), {"strides": (2, 3), "auto_pad": "SAME_LOWER"}),
        ((3, 3), {"strides": (2, 2), "auto_pad": "VALID"}),
        ((3, 3), {"strides": (2, 2), "output_shape": (12, 15)}),
        ((4, 4), {"strides": (3, 2), "output_shape": (16, 13), "auto_pad": "SAME_UPPER"}),
        ((3, 3), {"strides": (2, 2), "output_shape": (13, 15), "output_padding": (1, 1)}),
        ((1, 1), {"strides": (3, 3)}),
        ((5, 3), {"strides": (7, 5), "pads": (20, 15, 17, 15)}),  # fewer results than the strides have phases
    ],
)
def test_pads_as_onnxruntime_does(kernel: tuple[int, int], attrs: dict[str, object], isa: str) -> None:
    x, w, bias = operands(np.random.default_rng(2), (1, 20, 18, 6, 7), kernel, 1)
    check(x, w, bias, attrs, isa)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(("group", "c", "m"), [(1, 2, 3), (2, 1, 1), (3, 2, 1), (2, 3, 4)])
def test_constant_folding_evaluates_each_group_separately(group: int, c: int, m: int, has_bias: bool) -> None:
    x, w, bias = operands(np.random.default_rng(3), (2, c, m, 3, 4), (2, 3), group)
    attrs: dict[str, object] = {"group": group, "strides": (2, 2), "pads": (1, 0, 0, 1)}
    arrays = [x, w, bias if has_bias else None]
    node = make_node("ConvTranspose", arrays, attrs)
    (ours,) = evaluate_conv_transpose(node, arrays)
    np.testing.assert_allclose(ours, onnxruntime_op(node, arrays)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("isa", ISAS)
def test_fuses_bias_residual_and_activation(isa: str) -> None:
    rng = np.random.default_rng(4)
    x, w, bias = operands(rng, (1, 40, 40, 9, 9), (3, 3), 1)
    attrs: dict[str, object] = {"strides": (2, 2), "pads": (1, 1, 1, 1)}
    (plain,) = onnxruntime_op(make_node("ConvTranspose", [x, w, bias], attrs), [x, w, bias])
    residual = rng.standard_normal(plain.shape, np.float32)
    arrays = [x, w, bias, residual]
    node = make_node("FusedConvTranspose", arrays, attrs | {"activation": "LeakyRelu", "alpha": 0.5}, constants=(1, 2))
    total = plain + residual
    ours = run_op(node, arrays, blocked=True, isa=isa, threads=2)[0]
    np.testing.assert_allclose(ours, np.where(total < 0, 0.5 * total, total), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("shapes", "attrs", "what"),
    [
        ([(1, 4, 5, 5), (3, 2, 2, 2)], {}, "input has 4 channels, weights [3, 2, 2, 2] want 3"),
        ([(1, 4, 5, 5), (4, 2, 2)], {}, "input of rank 4 with weights of rank 3"),
        ([(1, 4, 5, 5), (4, 2, 2, 2)], {"group": 3}, "group = 3 does not divide 4 input channels"),
        ([(1, 4, 5, 5), (4, 2, 2, 2)], {"output_padding": (1,)}, "output_padding = [1]"),
        ([(1, 4, 5, 5), (4, 2, 2, 2)], {"output_shape": (0, 3)}, "output_shape = [0, 3]"),
        ([(1, 4, 5, 5), (4, 2, 2, 2)], {"pads": (3, 3, 3, 3)}, "spatial dim 0 of the result has size 0"),
    ],
)
def test_inconsistent_operands_are_refused(shapes: list[tuple[int, ...]], attrs: dict[str, object], what: str) -> None:
    with pytest.raises(ModelInvalid) as error:
        make_node("ConvTranspose", [np.zeros(shape, np.float32) for shape in shapes], attrs, constants=(1,))
    assert what in str(error.value)

"""MaxPool and AveragePool: every row against ONNX Runtime, and inference against ONNX's."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.ops.core.reference import infer_by_onnx, known_constant
from tests.effort import trials
from tests.harness import make_node, rejections, run_op
from tests.isa import ISAS
from tests.ops.exact import onnxruntime_op

Attrs = dict[str, object]


@st.composite
def pools(draw: st.DrawFn) -> tuple[Array, Attrs]:
    """Input and attributes of a pooling whose pads are smaller than its window, as ORT requires."""
    size = st.integers
    kh, kw = draw(size(1, 4)), draw(size(1, 4))
    (sh, sw), dh, dw = (draw(size(1, 4)) for _ in range(2)), draw(size(1, 3)), draw(size(1, 2))
    attrs: Attrs = {"kernel_shape": (kh, kw), "strides": (sh, sw), "dilations": (dh, dw)}
    attrs["ceil_mode"] = draw(size(0, 1))
    pads = [draw(size(0, k - 1)) for k in (kh, kw, kh, kw)]
    auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto_pad == "NOTSET":
        attrs["pads"] = tuple(pads)
    else:
        attrs["auto_pad"] = auto_pad
        pads = [0, 0, 0, 0]
        if auto_pad != "VALID":  # here ORT forgets dilations, and crops where the stride exceeds the window
            dh = dw = 1
            attrs |= {"dilations": (1, 1), "strides": (min(sh, kh), min(sw, kw))}
    h = max(1, (kh - 1) * dh + 1 - pads[0] - pads[2]) + draw(size(0, 9))
    w = max(1, (kw - 1) * dw + 1 - pads[1] - pads[3]) + draw(size(0, 40))
    rng = np.random.default_rng(draw(size(0, 2**32)))
    return rng.standard_normal((draw(size(1, 2)), draw(size(1, 33)), h, w), np.float32), attrs


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(150))
@given(case=pools(), blocked=st.booleans())
def test_max_agrees_with_onnxruntime(isa: str, case: tuple[Array, Attrs], blocked: bool) -> None:
    x, attrs = case
    ours = run_op(make_node("MaxPool", [x], attrs), [x], blocked=blocked, isa=isa, threads=2)[0]
    expected = onnxruntime_op(make_node("MaxPool", [x], attrs), [x])[0]
    # A dilated window entirely in the padding has no maximum: ORT gives the lowest float.
    np.testing.assert_array_equal(ours, np.where(expected == np.finfo(np.float32).min, -np.inf, expected))


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(150))
@given(case=pools(), blocked=st.booleans(), include_pad=st.integers(0, 1))
def test_average_agrees_with_onnxruntime(isa: str, case: tuple[Array, Attrs], blocked: bool, include_pad: int) -> None:
    x, attrs = case
    attrs = attrs | {"count_include_pad": include_pad}
    ours = run_op(make_node("AveragePool", [x], attrs), [x], blocked=blocked, isa=isa, threads=2)[0]
    np.testing.assert_allclose(ours, onnxruntime_op(make_node("AveragePool", [x], attrs), [x])[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["f8", "i1", "u1"])
@pytest.mark.parametrize("blocked", [False, True])
def test_max_of_other_types_agrees_with_onnxruntime(isa: str, dtype: str, blocked: bool) -> None:
    x = np.random.default_rng(1).integers(0, 128, (2, 19, 7, 9)).astype(dtype)
    attrs: Attrs = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 1, 1, 0)}
    ours = run_op(make_node("MaxPool", [x], attrs), [x], blocked=blocked, isa=isa)[0]
    np.testing.assert_array_equal(ours, onnxruntime_op(make_node("MaxPool", [x], attrs), [x])[0])


def test_double_average_agrees_with_the_mean() -> None:
    x = np.random.default_rng(1).standard_normal((1, 3, 6, 8))
    ours = run_op(make_node("AveragePool", [x], {"kernel_shape": (3, 4), "strides": (3, 4)}), [x])[0]
    np.testing.assert_allclose(ours, x.reshape(1, 3, 2, 3, 2, 4).mean((3, 5)), rtol=1e-14)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("blocked", [False, True])
def test_nan_and_infinity_propagate(isa: str, blocked: bool) -> None:
    x = np.random.default_rng(1).standard_normal((1, 17, 20, 39), np.float32)
    x[0, :, 4, 5], x[0, 3, 10, 30], x[0, :, 15:18, 20:23] = np.nan, np.inf, -np.inf
    attrs: Attrs = {"kernel_shape": (3, 3)}
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).reshape(1, 17, 18, 37, 9)
    largest, mean = (
        run_op(make_node(op, [x], attrs), [x], blocked=blocked, isa=isa)[0] for op in ("MaxPool", "AveragePool")
    )
    np.testing.assert_array_equal(largest, windows.max(-1))
    np.testing.assert_allclose(mean, windows.mean(-1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_long_rows_agree_with_onnxruntime(isa: str, op_type: str) -> None:
    """Kernels with and without loops of their own, by more rows and results than are counted at once."""
    x = np.random.default_rng(1).standard_normal((1, 2, 21, 1603), np.float32)
    for kernel, stride, dilation in itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2)):
        attrs: Attrs = {
            "kernel_shape": (3, kernel), "strides": (1, stride), "dilations": (1, dilation),
            "pads": (1, kernel // 2, 1, (kernel - 1) // 2),
        }  # fmt: skip
        node = make_node(op_type, [x], attrs)
        ours, expected = run_op(node, [x], isa=isa)[0], onnxruntime_op(node, [x])[0]
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6 * (op_type == "AveragePool"))


def test_padding_channels_do_not_affect_results() -> None:
    x = np.random.default_rng(1).standard_normal((1, 3, 5, 5), np.float32)
    node = make_node("MaxPool", [x], {"kernel_shape": (2, 2)})
    assert run_op(node, [x], blocked=True)[0].tobytes() == run_op(node, [x], blocked=True, isa="scalar")[0].tobytes()


@given(case=pools(), op_type=st.sampled_from(["MaxPool", "AveragePool"]))
@settings(max_examples=trials(60))
def test_inference_agrees_with_onnx(case: tuple[Array, Attrs], op_type: str) -> None:
    x, attrs = case
    node = make_node(op_type, [x], attrs)
    assert node.output.desc == infer_by_onnx(node, known_constant)[0]


def reasons(op_type: str, x: Array, attrs: Attrs, outputs: int = 1) -> list[str]:
    return rejections(make_node(op_type, [x], attrs, outputs=outputs))


def test_indices_are_of_type_int64() -> None:
    x = np.zeros((1, 2, 4, 4), np.float32)
    node = make_node("MaxPool", [x], {"kernel_shape": (2, 2)}, outputs=2)
    assert [value.desc for value in node.outputs] == infer_by_onnx(node, known_constant)


def test_each_unsupported_variant_is_rejected_with_its_reason() -> None:
    image = np.zeros((1, 2, 4, 4), np.float32)
    assert reasons("MaxPool", image, {"kernel_shape": (2, 2)}) == []
    assert reasons("MaxPool", image[None, None], {"kernel_shape": (1, 1, 2, 2)}) == ["rank"]
    assert reasons("AveragePool", image.astype(np.float16), {"kernel_shape": (2, 2)}) == ["dtype"]


@pytest.mark.parametrize(
    ("attrs", "part"),
    [
        ({}, "kernel_shape = []"),
        ({"kernel_shape": (2,)}, "kernel_shape = [2]"),
        ({"kernel_shape": (2, 0)}, "kernel_shape = [2, 0]"),
        ({"kernel_shape": (9, 2)}, "window of 9 is larger"),
        ({"kernel_shape": (2, 2), "strides": (0, 1)}, "strides"),
    ],
)
def test_bad_windows_are_refused(attrs: Attrs, part: str) -> None:
    with pytest.raises(ModelInvalid, match=re.escape(part)):
        make_node("MaxPool", [np.zeros((1, 2, 4, 4), np.float32)], attrs)

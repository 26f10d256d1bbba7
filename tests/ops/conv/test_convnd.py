"""Conv and ConvTranspose on plain tensors: every row against ONNX Runtime in one to three spatial dims."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from tests.effort import trials
from tests.harness import make_node, rejections, run_op
from tests.isa import ISAS, LOOP_ISAS
from tests.ops.exact import assert_same, onnxruntime_op

Attrs = dict[str, object]
Case = tuple[list[Array | None], Attrs]


@st.composite
def windows(draw: st.DrawFn, op_type: str) -> Case:
    """Operands and attributes of a convolution whose result is not empty."""
    size, rank = st.integers, draw(st.integers(1, 3))
    group, n = draw(st.sampled_from([1, 1, 2, 3])), draw(size(1, 2))
    c, m = draw(size(1, 12)), draw(size(1, 12))  # packed at once, and by parts; by channel, and some together
    kernel = tuple(draw(size(1, 3)) for _ in range(rank))
    strides, dilations = tuple(draw(size(1, 3)) for _ in kernel), tuple(draw(size(1, 2)) for _ in kernel)
    begins, ends = [draw(size(0, 2)) for _ in kernel], [draw(size(0, 2)) for _ in kernel]
    attrs: Attrs = {"strides": strides, "dilations": dilations, "group": group}
    if draw(st.booleans()) and op_type == "Conv":
        attrs["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
        if attrs["auto_pad"] != "VALID":
            attrs["dilations"] = dilations = (1,) * rank  # ORT forgets them here
    else:
        attrs["pads"] = (*begins, *ends)
    spatial = [(k - 1) * d + 1 + draw(size(0, 9)) for k, d in zip(kernel, dilations, strict=True)]
    w_shape: tuple[int, ...] = (group * m, c)
    if op_type == "ConvTranspose":
        w_shape = (group * c, m)
        spatial = [size + 5 for size in spatial]  # larger than what the pads crop
        attrs["output_padding"] = tuple(draw(size(0, stride - 1)) for stride in strides)
    rng = np.random.default_rng(draw(size(0, 2**32)))
    shapes = [(n, group * c, *spatial), (*w_shape, *kernel), (group * m,)]
    arrays: list[Array | None] = [rng.standard_normal(shape) for shape in shapes]
    return arrays if draw(st.booleans()) else [*arrays[:2], None], attrs


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
@settings(max_examples=trials(25), deadline=None)
@given(data=st.data(), double=st.booleans())
def test_agrees_with_onnxruntime(op_type: str, isa: str, data: st.DataObject, double: bool) -> None:
    arrays, attrs = data.draw(windows(op_type))
    dtype = np.float64 if double else np.float32
    singles, typed = ([None if array is None else array.astype(kind) for array in arrays] for kind in ("f4", dtype))
    (expected,) = onnxruntime_op(make_node(op_type, singles, attrs), singles)
    ours = run_op(make_node(op_type, typed, attrs), typed, isa=isa, threads=2)[0]
    assert ours.dtype == dtype
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5 * scale)


@st.composite
def wide_windows(draw: st.DrawFn) -> Case:
    """Operands and attributes of a convolution with few output channels, many taps, and rows of some vectors."""
    size = st.integers
    kernel = draw(st.sampled_from([(3, 3, 3), (2, 3, 4), (4, 4, 1), (1, 8, 2), (1, 4, 5), (2, 1, 16), (1, 2, 17)]))
    strides, dilations = (draw(size(1, 2)), draw(size(1, 2)), draw(st.sampled_from([1, 1, 2]))), (1, draw(size(1, 2)))
    attrs: Attrs = {"strides": strides, "dilations": (*dilations, draw(st.sampled_from([1, 1, 2, 7])))}
    attrs["pads"] = (*(draw(size(0, 3)) for _ in range(5)), draw(st.sampled_from([0, 1, 40])))
    attrs["group"] = group = draw(size(1, 3))
    c, m = draw(size(1, 3)), draw(size(1, 3))
    spatial = [8, draw(size(15, 18)), draw(st.sampled_from([1, 2, 15, 16, 17, 33, 95, 96, 97, 120]))]
    spatial[2] += (kernel[2] - 1) * draw(st.sampled_from([0, 1])) * 7
    rng = np.random.default_rng(draw(size(0, 2**32)))
    x, w, bias = (
        rng.standard_normal(shape, np.float32)
        for shape in ((1, group * c, *spatial), (group * m, c, *kernel), (group * m,))
    )
    w.flat[draw(size(0, w.size - 1))] = draw(st.sampled_from([np.inf, -0.0, 1.0]))
    return [x, w, bias] if draw(st.booleans()) else [x, w, None], attrs


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60), deadline=None)
@given(case=wide_windows())
def test_sums_of_few_channels_do_not_depend_on_the_kernel(isa: str, case: Case) -> None:
    """Bit for bit those of the scalar kernel; no infinite weight counts where its window is in the padding."""
    arrays, attrs = case
    x, w = arrays[:2]
    assert x is not None
    assert w is not None
    reach = 1 + (w.shape[4] - 1) * attrs["dilations"][2]  # type: ignore[index]
    assume(x.shape[4] + attrs["pads"][2] + attrs["pads"][5] >= reach)  # type: ignore[index]
    node = make_node("Conv", arrays, attrs)
    assert_same(run_op(node, arrays, isa=isa, threads=2), run_op(node, arrays, isa="scalar", threads=2))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("op_type", "m"), [("Conv", 9), ("ConvTranspose", 9), ("Conv", 2)])
def test_kernels_of_more_taps_than_are_packed_at_once_agree_with_onnxruntime(op_type: str, m: int, isa: str) -> None:
    rng = np.random.default_rng(0)
    shape = (m, 2, 300) if op_type == "Conv" else (2, m, 600)
    arrays = [rng.standard_normal((2, 2, 500)).astype("f4"), rng.standard_normal(shape).astype("f4")]
    node = make_node(op_type, arrays, {"strides": (2,), "pads": (7, 3)})
    (expected,) = onnxruntime_op(node, arrays)
    (ours,) = run_op(node, arrays, isa=isa, threads=2)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize(
    ("op_type", "attrs"),
    [
        ("Conv", {}),
        ("Conv", {"strides": (1, 1, 2)}),
        ("Conv", {"pads": (0, 1, 0, 0, 0, 0)}),
        ("ConvTranspose", {}),
        ("ConvTranspose", {"pads": (0, 0, 0, 0, 1, 0)}),
    ],
)
def test_kernels_of_one_tap(op_type: str, attrs: Attrs, isa: str) -> None:
    """Without strides and padding, the dims are one long row."""
    rng = np.random.default_rng(2)
    shapes = [(2, 8, 3, 5, 11), (8, 4, 1, 1, 1) if op_type == "Conv" else (8, 5, 1, 1, 1)]
    arrays = [rng.standard_normal(shape).astype("f4") for shape in shapes]
    node = make_node(op_type, arrays, {**attrs, "group": 2})
    (expected,) = onnxruntime_op(node, arrays)
    np.testing.assert_allclose(run_op(node, arrays, isa=isa, threads=2)[0], expected, rtol=0, atol=2e-5)


def test_empty_operands_give_the_bias() -> None:
    bias = np.arange(4, dtype=np.float32)
    arrays = [np.ones((2, 0, 5), np.float32), np.ones((4, 0, 3), np.float32), bias]
    ours = run_op(make_node("Conv", arrays, {}), arrays)[0]
    np.testing.assert_array_equal(ours, np.broadcast_to(bias[:, None], (2, 4, 3)))
    arrays[0] = np.ones((0, 0, 5), np.float32)
    assert run_op(make_node("Conv", arrays, {}), arrays)[0].shape == (0, 4, 3)


def test_nan_affects_only_the_windows_that_contain_it() -> None:
    x, w = np.ones((1, 1, 9), np.float32), np.ones((1, 1, 3), np.float32)
    x[0, 0, 4] = np.nan
    ours = run_op(make_node("Conv", [x, w], {"pads": (1, 1)}), [x, w])[0]
    assert list(np.flatnonzero(np.isnan(ours))) == [3, 4, 5]


def test_each_unsupported_variant_is_rejected_with_its_reason() -> None:
    x, w = np.ones((1, 1, 1, 2, 2, 2), np.float32), np.ones((1, 1, 1, 1, 1, 1), np.float32)
    for arrays, reason in (([x, w], "rank"), ([x[0], w[0]], None), ([x.astype("f2"), w.astype("f2")], "dtype")):
        assert next(iter(rejections(make_node("Conv", arrays, {}))), None) == reason

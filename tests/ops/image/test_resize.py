"""Resize against ONNX Runtime, which also computes coordinates in float32, and the ONNX reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atcpy
from atcpy.errors import ModelInvalid
from atcpy.ir import Sym, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.ops.core.reference import infer_by_onnx, known_constant
from atcpy.ops.image.resize import infer_resize, supports_resize
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import ISAS
from tests.ops.exact import arange, assert_same, onnxruntime_op

COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
Case = tuple[list[Array | None], dict[str, object]]


@st.composite
def resizes(draw: st.DrawFn, dtypes: list[type]) -> Case:
    """Operands and attributes: by scales or by sizes, of all dims or of the spatial ones."""
    h, w = draw(st.integers(1, 9)), draw(st.integers(1, 21))
    x = arange((draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 17])), h, w), draw(st.sampled_from(dtypes)))
    if x.dtype == np.float32:
        x = np.random.default_rng(h * w).standard_normal(x.shape, np.float32)
    attrs: dict[str, object] = {
        "coordinate_transformation_mode": draw(st.sampled_from(COORDINATES)),
        "nearest_mode": draw(st.sampled_from(NEAREST)),
    }
    leading: list[int] = [x.shape[0], x.shape[1]]
    if draw(st.booleans()):
        leading, attrs["axes"] = [], (2, 3)
    if draw(st.booleans()):
        sizes = np.array([*leading, draw(st.integers(1, 20)), draw(st.integers(1, 40))])
        return [x, None, None, sizes], attrs
    scale = st.sampled_from([2.0, 2.0, 1.0, 3.0, 0.5, 1.5, 0.7, 1.3])
    scales = [max(draw(scale), 1 / h), max(draw(scale), 1 / w)]
    return [x, None, np.array([1.0] * len(leading) + scales, np.float32)], attrs


def resized(case: Case, mode: str, isa: str, *, blocked: bool) -> tuple[Array, Array]:
    """The results of atcpy and of ONNX Runtime, or of the ONNX reference where ONNX Runtime ignores the scales."""
    arrays, attrs = case
    nodes = [make_node("Resize", arrays, attrs | {"mode": mode}, constants=(2, 3)) for _ in range(2)]
    assert not list(supports_resize(nodes[0]))
    if arrays[2] is None:  # with scales, ONNX multiplies in float64 and the runtime in float32
        assert nodes[0].output.desc == infer_by_onnx(nodes[0], known_constant)[0]
    ours = run_op(nodes[0], arrays, isa=isa, blocked=blocked, threads=2)[0]
    # A result of the input's shape is a copy of the input there, though a scale of 1.3 moves its coordinates.
    is_copied = arrays[0] is not None and ours.shape == arrays[0].shape
    oracle = reference_op if is_copied and arrays[2] is not None else onnxruntime_op
    return ours, oracle(nodes[1], arrays)[0]


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60))
@given(case=resizes([np.float32, np.uint8, np.int32]), blocked=st.booleans())
def test_nearest(isa: str, case: Case, blocked: bool) -> None:
    ours, theirs = resized(case, "nearest", isa, blocked=blocked)
    assert_same([ours], [theirs])


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(60))
@given(case=resizes([np.float32]), blocked=st.booleans())
def test_linear(isa: str, case: Case, blocked: bool) -> None:
    ours, theirs = resized(case, "linear", isa, blocked=blocked)
    # Four products and three sums of float32, and coordinates of up to 40 in float32.
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * max(1.0, float(np.abs(theirs).max())))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64])
@pytest.mark.parametrize("blocked", [False, True])
def test_doubling(isa: str, dtype: type, blocked: bool) -> None:
    """Pairs of rows are written together, unless a thread's items end between them."""
    attrs = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    for rows, width, threads in ((1, 1, 1), (3, 7, 2), (5, 40, 3)):
        for scale in (1, 2, 3):
            arrays = [arange((1, 18, rows, width), dtype), None, np.array([1, 1, scale, 2], np.float32)]
            node = make_node("Resize", arrays, attrs, constants=(2,))
            expected = arrays[0].repeat(scale, 2).repeat(2, 3)
            assert_same(run_op(node, arrays, isa=isa, blocked=blocked, threads=threads), [expected])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("dtype", "width", "scale"),
    [
        (np.uint8, 255, 2), (np.uint8, 256, 2), (np.uint8, 171, 3), (np.float32, 333, 2), (np.float32, 1365, 3),
        (np.float32, 2048, 2), (np.float32, 2049, 2),
    ],
)  # fmt: skip
def test_results_larger_than_caches(dtype: type, width: int, scale: int, isa: str) -> None:
    """Rows that are streamed past the caches, and those that are too short or too long for it."""
    height = (1 << 25) // (scale * scale * width * np.dtype(dtype).itemsize) // 2 + 1
    x = np.resize(np.arange(251, dtype=dtype), (1, 2, height, width))
    arrays = [x, None, np.array([1, 1, scale, scale], np.float32)]
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    results = run_op(make_node("Resize", arrays, attrs, constants=(2,)), arrays, isa=isa, threads=2)
    assert_same(results, [x.repeat(scale, 2).repeat(scale, 3)])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(
    ("shape", "scales", "family"),
    [
        ((2, 5, 7, 3), (1, 2, 3, 1), "resize2d"),
        ((1, 4, 3, 16), (1, 2, 2, 1), "resize2d"),
        ((1, 4, 3, 32), (1, 2, 2, 1), "resize2d"),
        ((1, 3, 2, 8, 8), (1, 3, 2, 1, 1), "resize2d"),
        ((2, 3, 9), (1, 1, 2), "resize2d"),
        ((2, 3, 9), (1, 2, 1), "resize2d"),
        ((7,), (2,), "resize2d"),
        ((2, 3, 65), (1, 2, 1), "interp"),
        ((2, 8192), (1, 2), "resize2d"),
        ((2, 8193), (1, 2), "interp"),
        ((2, 3, 4, 5), (1, 2, 2, 2), "interp"),
    ],
)
def test_one_or_two_dims_are_a_picture_whose_pixels_are_the_dims_behind_them(
    shape: tuple[int, ...], scales: tuple[float, ...], family: str, mode: str, isa: str
) -> None:
    x = np.random.default_rng(len(shape)).standard_normal(shape, np.float32)
    arrays = [x, None, np.array(scales, np.float32)]
    nodes = [make_node("Resize", arrays, {"mode": mode}, constants=(2,)) for _ in range(2)]
    rows: list[str] = []
    ours = run_op(nodes[0], arrays, isa=isa, threads=2, rows=rows)[0]
    assert [row.partition("_")[0] for row in rows] == [family]
    np.testing.assert_allclose(ours, reference_op(nodes[1], arrays)[0], rtol=0, atol=2e-5 if mode == "linear" else 0)


def test_a_scale_counts_where_the_sizes_stay() -> None:
    x = np.array([[[[1.0, -2.0]]]], np.float32)
    arrays = [x, None, np.array([1, 1, 1, 1.3], np.float32)]
    node = make_node("Resize", arrays, {"mode": "linear"}, constants=(2,))
    [y] = run_op(node, arrays)
    np.testing.assert_allclose(y, [[[[1.0, 1 - 3 * (1.5 / 1.3 - 0.5)]]]], rtol=1e-6)
    assert_same(onnxruntime_op(node, arrays), [x])  # if this fails, `resized` needs no other oracle any more


def test_output_sizes_agree_with_onnxruntime_where_the_product_is_rounded() -> None:
    arrays = [arange((1, 1, 1, 10)), None, np.array([1, 1, 1, 0.7], np.float32)]
    node = make_node("Resize", arrays, constants=(2,))
    assert node.output.desc.shape == onnxruntime_op(node, arrays)[0].shape == (1, 1, 1, 7)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_agrees_with_the_reference_too(mode: str) -> None:
    arrays = [arange((1, 2, 4, 5), np.float32) / 7, None, None, np.array([1, 2, 8, 15])]
    arrays[0].reshape(-1)[0] = 0
    node = make_node("Resize", arrays, {"mode": mode}, constants=(3,))
    np.testing.assert_allclose(run_op(node, arrays)[0], reference_op(node, arrays)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attrs", "roi", "reason"),
    [
        ({"coordinate_transformation_mode": "tf_crop_and_resize"}, np.zeros(3, np.float32), "coordinates"),
        ({"coordinate_transformation_mode": "somewhere"}, None, "coordinates"),
    ],
)
def test_rejections(attrs: dict[str, object], roi: Array | None, reason: str) -> None:
    arrays = [arange((1, 2, 4, 4)), roi, np.array([1, 1, 2, 2], np.float32)]
    node = make_node("Resize", arrays, attrs, constants=(1, 2))
    assert [reject.reason for reject in supports_resize(node)] == [reason]


def test_empty_operands_count_as_omitted() -> None:
    empty = np.zeros(0, np.float32)
    node = make_node("Resize", [arange((1, 1, 2, 2)), empty, empty, np.array([1, 1, 4, 6])], constants=(1, 2, 3))
    assert node.output.desc.shape == (1, 1, 4, 6)
    assert not list(supports_resize(node))


def test_named_sizes() -> None:
    arrays = [arange((1, 3, 4, 4)), None, np.array([1, 1, 2, 2], np.float32)]
    node = make_node("Resize", arrays, constants=(2,))
    x = node.operand(0)
    x.desc = TensorDesc.plain(x.desc.dtype, (Sym("n"), 3, Sym("h"), 4))
    assert infer_resize(node, known_constant)[0].shape == (Sym("n"), 3, Sym("Resize.2"), 8)


@pytest.mark.parametrize("scales", [None, [1, 1, 0, 1], [1, 1, 2]])
def test_what_onnx_forbids_is_refused(scales: list[float] | None) -> None:
    arrays = [arange((1, 1, 2, 2)), None, None if scales is None else np.array(scales, np.float32)]
    with pytest.raises(ModelInvalid):
        make_node("Resize", arrays, constants=(2,))


def test_a_crop_of_symbolic_dims() -> None:
    arrays = [arange((1, 3, 4, 4)), np.zeros(8, np.float32), None, np.array([1, 3, 2, 2])]
    for constants, reasons in (((1, 3), ["shape-unknown"]), ((3,), ["shape-unknown", "coordinates"])):
        node = make_node(
            "Resize", arrays, {"coordinate_transformation_mode": "tf_crop_and_resize"}, constants=constants
        )
        x = node.operand(0)
        x.desc = TensorDesc.plain(x.desc.dtype, (1, 3, Sym("h"), Sym("w")))
        assert [reject.reason for reject in supports_resize(node)] == reasons


# As tf2onnx writes tf.image.crop_and_resize.
CROPS = """
<ir_version: 10, opset_import: ["" : 13]>
crops (float[n,h,w,3] image, float[b,4] boxes, int32[b] of) => (float[b,4,5,3] y)
<int64 zero = {0}, int64[1] first = {0},
 int64[4] shape = {1, 3, 4, 5}, float[2] low = {0, 0}, float[2] high = {1, 1}, bool yes = {1}> {
  counts = Shape(boxes)
  count = Gather(counts, zero)
  y = Loop(count, yes) <body = crop (int64 i, bool go) => (bool on, float[4,5,3] out) {
    on = Identity(go)
    box = Gather(boxes, i)
    corner, end = Split(box)
    roi = Concat<axis = 0>(low, corner, high, end)
    which = Gather(of, i)
    one = Gather(image, which)
    batch = Unsqueeze(one, first)
    channels_first = Transpose<perm = [0, 3, 1, 2]>(batch)
    cropped = Resize<coordinate_transformation_mode = "tf_crop_and_resize", mode = "linear",
      extrapolation_value = 0.5>(channels_first, roi, "", shape)
    back = Transpose<perm = [0, 2, 3, 1]>(cropped)
    out = Squeeze(back, first)
  }>
}
"""


@pytest.mark.parametrize("level", ["O0", "O3"])
def test_crops_in_a_loop(level: str, tmp_path: Path) -> None:
    feeds = {
        "image": np.random.default_rng(7).standard_normal((2, 7, 9, 3)).astype(np.float32),
        "boxes": np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [0.5, 0.1, 1.2, 0.7]], np.float32),
        "of": np.array([0, 1, 1], np.int32),
    }
    model = onnx.parser.parse_model(CROPS)
    atcpy.convert(model, tmp_path / "m.om", oo_level=level)
    ours = atcpy.InferenceSession(tmp_path / "m.om").run(None, feeds)[0]
    expected = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)
    assert (ours == 0.5).any()

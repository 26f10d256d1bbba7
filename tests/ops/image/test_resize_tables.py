"""Resize by tables: any dims, cubic, filters, crops and element types, against the ONNX reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.ops.image.interpolate import TENSORFLOW
from atcpy.ops.image.resize import evaluate_resize, supports_resize
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import ISAS
from tests.ops.exact import arange, assert_same, onnxruntime_op

Attrs = dict[str, object]
COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]


@st.composite
def resizes(draw: st.DrawFn) -> tuple[list[Array | None], Attrs]:
    """Operands and attributes in one to four dims, all of which may change."""
    size = st.integers
    shape = tuple(draw(size(1, 6)) for _ in range(draw(size(1, 4))))
    axes = draw(st.permutations(range(len(shape))))[: draw(size(1, len(shape)))]
    mode = draw(st.sampled_from(["linear", "cubic"]))
    attrs: Attrs = {
        "mode": mode, "axes": tuple(axes), "coordinate_transformation_mode": draw(st.sampled_from(COORDINATES)),
        "antialias": draw(size(0, 1)), "exclude_outside": draw(size(0, 1)) if mode == "cubic" else 0,
        "cubic_coeff_a": draw(st.sampled_from([-0.75, -0.5])),
    }  # fmt: skip
    x = np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)
    # Sizes with an integer ratio: otherwise float32 and float64 disagree on coordinates.
    sizes = np.array([draw(size(1, 3)) * shape[axis] for axis in axes])
    if draw(st.booleans()):
        sizes = np.array([-(-shape[axis] // draw(size(1, 3))) for axis in axes])
    return [x, None, None, sizes], attrs


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(40), deadline=None)
@given(case=resizes())
def test_agrees_with_the_reference(isa: str, case: tuple[list[Array | None], Attrs]) -> None:
    arrays, attrs = case
    node = make_node("Resize", arrays, attrs, constants=(3,))
    assert not list(supports_resize(node))
    if attrs["coordinate_transformation_mode"] == "pytorch_half_pixel" and 1 in node.output.desc.static_shape:
        return  # the reference takes −½ where the standard says 0
    expected = reference_op(make_node("Resize", arrays, attrs, constants=(3,)), arrays)[0]
    np.testing.assert_allclose(run_op(node, arrays, isa=isa, threads=2)[0], expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("dtype", ["f8", "i1", "u1", "i2", "u2", "i4", "i8"])
@pytest.mark.parametrize("signed", [False, True])
def test_integer_results_are_truncated(dtype: str, signed: bool) -> None:
    """Integers are truncated towards zero."""
    x = np.random.default_rng(5).integers(-60 if signed and dtype[0] != "u" else 0, 60, (2, 3, 5)) * 2
    arrays = [x.astype(dtype), None, np.array([1, 2, 3], np.float32)]
    exact = [x.astype("f8"), *arrays[1:]]
    expected = reference_op(make_node("Resize", exact, {"mode": "linear"}, constants=(2,)), exact)[0]
    ours = run_op(make_node("Resize", arrays, {"mode": "linear"}, constants=(2,)), arrays)[0]
    assert ours.dtype == dtype
    if dtype == "f8":
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-4)  # coordinates are float32
        return
    certain = np.abs(expected - np.rint(expected)) > 1e-4
    assert certain.mean() > 0.5
    np.testing.assert_array_equal(ours[certain], np.trunc(expected[certain]))
    np.testing.assert_allclose(ours[~certain], expected[~certain], rtol=0, atol=1.001)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("sizes", [(1, 2, 3, 4), (1, 2, 1, 7)])
def test_crops_as_onnxruntime_does(mode: str, sizes: tuple[int, ...]) -> None:
    x = np.random.default_rng(7).standard_normal((1, 2, 5, 6)).astype(np.float32)
    roi = np.array([0, 0, 0.3, -0.2, 1, 1, 0.7, 1.1], np.float32)
    attrs: Attrs = {
        "mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5,
    }  # fmt: skip
    arrays = [x, roi, None, np.array(sizes)]
    nodes = [make_node("Resize", arrays, attrs, constants=(1, 3)) for _ in range(2)]
    ours = run_op(nodes[0], arrays)[0]
    np.testing.assert_allclose(ours, onnxruntime_op(nodes[1], arrays)[0], rtol=0, atol=1e-5)
    assert (ours == 7.5).any()


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64, np.float16, np.bool_])
def test_nearest_of_any_dim(dtype: type) -> None:
    arrays = [arange((2, 3, 4), np.int32).astype(dtype), None, np.array([2, 2, 0.5], np.float32)]
    attrs: Attrs = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    node = make_node("Resize", arrays, attrs, constants=(2,))
    assert_same(run_op(node, arrays, threads=2), [arrays[0].repeat(2, 0).repeat(2, 1)[:, :, ::2]])


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_keeps_the_aspect_ratio(policy: str, mode: str) -> None:
    x = np.random.default_rng(7).standard_normal((1, 2, 4, 6)).astype(np.float32)
    attrs: Attrs = {"mode": mode, "keep_aspect_ratio_policy": policy, "axes": (2, 3)}
    arrays = [x, None, None, np.array([7, 8])]
    nodes = [make_node("Resize", arrays, attrs, constants=(3,)) for _ in range(2)]
    expected = reference_op(nodes[1], arrays)[0]
    assert nodes[0].output.desc.static_shape == expected.shape
    np.testing.assert_allclose(run_op(nodes[0], arrays)[0], expected, rtol=0, atol=1e-5)


def by_tensorflow(x: Array, sizes: tuple[int, ...], mode: str, coordinates: str) -> Array:
    """TensorFlow's definition in its float32, axis by axis."""
    y = x.astype("f8")
    for axis, (size, length) in enumerate(zip(x.shape, sizes, strict=True)):
        aligned = coordinates == "tf_align_corners" and length > 1
        scale = np.float32(size - 1) / np.float32(length - 1) if aligned else np.float32(size) / np.float32(length)
        index = np.arange(length, dtype=np.float32)
        half = np.float32(0.5)
        match coordinates:
            case "tf_half_pixel":
                at = (index + half) * scale - half
            case "tf_half_pixel_for_nn":
                at = (index + half) * scale
            case _:
                at = index * scale
        low = np.floor(at)
        share = np.zeros_like(at) if mode == "nearest" else at - low
        first, second = (np.clip(low + step, 0, size - 1).astype(int) for step in (0, 1))
        share = share.reshape(-1, *[1] * (x.ndim - 1 - axis))
        y = y.take(first, axis) * (1 - share) + y.take(second, axis) * share
    return y


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("mode", "coordinates"),
    [
        *(("nearest", coordinates) for coordinates in sorted(TENSORFLOW)),
        *(("linear", coordinates) for coordinates in sorted(TENSORFLOW - {"tf_half_pixel_for_nn"})),
    ],
)
def test_tensorflow_coordinate_modes_agree_with_their_definition(isa: str, mode: str, coordinates: str) -> None:
    x = np.random.default_rng(8).standard_normal((2, 3, 10, 7)).astype(np.float32)
    attrs: Attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
    for sizes in ((2, 3, 410, 5), (2, 3, 1, 49), (2, 3, 3, 1), (2, 3, 10, 7)):
        arrays = [x, None, None, np.array(sizes)]
        ours = run_op(make_node("Resize", arrays, attrs, constants=(3,)), arrays, isa=isa, threads=2)[0]
        np.testing.assert_allclose(ours, by_tensorflow(x, sizes, mode, coordinates), rtol=0, atol=1e-5)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("coordinates", sorted(TENSORFLOW))
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_tensorflow_coordinates_with_and_without_tables(isa: str, mode: str, coordinates: str) -> None:
    """Coordinates exactly on a border are treated alike."""
    x = np.random.default_rng(8).standard_normal((2, 3, 10, 7)).astype(np.float32)
    attrs: Attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
    for sizes in ((2, 3, 410, 5), (2, 3, 1, 49), (2, 3, 3, 1)):
        arrays = [x, None, None, np.array(sizes)]
        node = make_node("Resize", arrays, attrs, constants=(3,))
        expected = evaluate_resize(node, arrays)[0]
        np.testing.assert_allclose(run_op(node, arrays, isa=isa, threads=2)[0], expected, rtol=0, atol=2e-6)

"""Resize by tables: any dims, cubic, filters, crops and element types, against the ONNX reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table
from atcpy.ops.image.interpolate import TENSORFLOW
from atcpy.ops.image.resize import evaluate_resize, supports_resize
from tests.effort import trials
from tests.harness import load_task, make_node, reference_op, run_op
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


@st.composite
def pictures(draw: st.DrawFn) -> tuple[list[Array | None], Attrs]:
    """Integers of 8 bits in two to five dims, of which the last two or three are resized, or some of them."""
    rank = draw(st.sampled_from([2, 3, 4, 5]))
    spatial = 2 if rank % 2 == 0 else 3
    shape = [*[2] * (rank - spatial), *(draw(st.integers(1, 9)) for _ in range(spatial))]
    sizes = [*shape[: rank - spatial], *(draw(st.one_of(st.just(n), st.integers(1, 12))) for n in shape[-spatial:])]
    dtype = draw(st.sampled_from([np.uint8, np.int8]))
    x = np.random.default_rng(sum(sizes)).integers(
        np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True
    )
    return [x, None, None, np.array(sizes)], {"coordinate_transformation_mode": draw(st.sampled_from(COORDINATES))}


@settings(max_examples=trials(80), deadline=None)
@given(case=pictures())
def test_pictures_of_integers_have_the_bits_of_onnxruntime(case: tuple[list[Array | None], Attrs]) -> None:
    arrays, attrs = case
    node, other = (make_node("Resize", arrays, {**attrs, "mode": "linear"}, constants=(3,)) for _ in range(2))
    expected = onnxruntime_op(other, arrays)
    assert_same(run_op(node, arrays, threads=2), expected)
    assert_same(evaluate_resize(node, arrays), expected)  # what is folded is what would be computed


@settings(max_examples=trials(40), deadline=None)
@given(
    case=pictures(), mode=st.sampled_from(["linear", "cubic"]), dtype=st.sampled_from(["u1", "i1", "i2", "i4", "i8"])
)
def test_filtered_integers_are_rounded_as_by_the_reference(
    case: tuple[list[Array | None], Attrs], mode: str, dtype: str
) -> None:
    arrays, attrs = case
    assert arrays[0] is not None
    x = arrays[0].view(np.uint8) % 120
    arrays = [x.astype(dtype), *arrays[1:]]
    node, other = (
        make_node("Resize", arrays, {**attrs, "mode": mode, "antialias": 1}, constants=(3,)) for _ in range(2)
    )
    if attrs["coordinate_transformation_mode"] == "pytorch_half_pixel" and 1 in node.output.desc.static_shape:
        return  # the reference takes −½ where the standard says 0
    ours, theirs = run_op(node, arrays)[0], reference_op(other, arrays)[0]
    assert_same(evaluate_resize(node, arrays), [ours])
    exact = [x.astype("f8"), *arrays[1:]]
    doubles = make_node("Resize", exact, {**attrs, "mode": mode, "antialias": 1}, constants=(3,))
    is_tie = np.abs(np.abs(np.modf(reference_op(doubles, exact)[0])[0]) - 0.5) < 1e-9
    assert_same([np.where(is_tie, 0, ours)], [np.where(is_tie, 0, theirs)])
    np.testing.assert_allclose(ours.astype("f8"), theirs.astype("f8"), rtol=0, atol=1)


def test_integers_of_16_bits_are_mixed_as_their_numbers() -> None:
    """ONNX Runtime has no Resize of theirs; small ones give what those of 8 bits give."""
    arrays = [np.arange(0, 240, 5, dtype=np.uint8).reshape(1, 1, 6, 8), None, None, np.array([1, 1, 9, 13])]
    expected = onnxruntime_op(make_node("Resize", arrays, {"mode": "linear"}, constants=(3,)), arrays)[0]
    for dtype in (np.int16, np.uint16):
        wide = [arrays[0].astype(dtype), *arrays[1:]]
        assert_same(
            run_op(make_node("Resize", wide, {"mode": "linear"}, constants=(3,)), wide), [expected.astype(dtype)]
        )


@pytest.mark.parametrize(
    ("dtype", "sums", "weights"),
    [("f4", "nearest", "f4"), ("f8", "nearest", "f8"), ("f4", "cut_f32", "f4"), ("i4", "cut_f32", "f4"),
     ("i4", "cut_f32", "f8"), ("u1", "cut_f32", "f8"), ("u1", "cut", "f4"), ("i8", "nearest", "f4")],
)  # fmt: skip
def test_weights_of_another_type_are_refused(dtype: str, sums: str, weights: str) -> None:
    x, item = np.zeros(4, dtype), np.dtype(dtype).itemsize
    params: dict[str, table.ParamValue] = {
        "outer": 1, "inner": 1, "item": item, "sums": sums, "fill": 0,
        "in": [1, 1, 1, 1, 4], "out": [1, 1, 1, 1, 4], "taps": [1, 1, 1, 1, 2],
    }  # fmt: skip
    fits = {"f4": "f4", "f8": "f8"}.get(dtype, "f4" if sums == "cut_f32" else "f8")
    if (dtype, sums) in (("u1", "cut_f32"), ("u1", "cut"), ("i8", "nearest")):
        load_task("interp", params, [x, np.zeros(12, np.int32), np.zeros(12, fits)], x)
    with pytest.raises(_kernels.Refused, match="weights do not fit the type"):
        load_task("interp", params, [x, np.zeros(12, np.int32), np.zeros(12, weights)], x)


@pytest.mark.parametrize(("at", "index"), [(0, 7), (4999, 7), (4096, -2), (17, 2**31 - 1), (4999, -(2**31))])
@pytest.mark.parametrize("dim", [3, 4])
def test_moves_by_tables_and_notes_indices_outside(dim: int, at: int, index: int) -> None:
    """Single taps, of which blocks are checked and moved at once; −1 is the fill."""
    x = np.random.default_rng(8).standard_normal((7, 7)).astype(np.float32)
    out = [1, 1, 1, 3, 5000] if dim == 4 else [1, 1, 1, 5000, 3]
    params: dict[str, table.ParamValue] = {
        "outer": 1, "inner": 1, "item": 4, "sums": "cut", "fill": 0,
        "in": [1, 1, 1, 7, 7], "out": out, "taps": [1] * 5,
    }  # fmt: skip
    rows, columns = (np.random.default_rng(dim).integers(0, 7, out[i]).astype(np.int32) for i in (3, 4))
    changed = columns if dim == 4 else rows
    y = np.empty(out[3:], np.float32)

    def run() -> None:
        indices = np.concatenate([np.zeros(3, np.int32), rows, columns])
        load_task("interp", params, [x, indices, None], y).start([x, indices], [y]).execute(0, 1)

    run()
    np.testing.assert_array_equal(y, x[rows[:, None], columns])
    changed[at] = -1
    run()
    np.testing.assert_array_equal(y, np.where((rows[:, None] < 0) | (columns < 0), 0, x[rows[:, None], columns]))
    changed[at] = index
    with pytest.raises(_kernels.Fault):
        run()

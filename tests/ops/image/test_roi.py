"""RoiAlign against the ONNX reference, MaxRoiPool against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from tests.harness import make_node, reference_op, run_op
from tests.ops.exact import onnxruntime_op

Attrs = dict[str, object]


def regions(rng: np.random.Generator, count: int) -> Array:
    """Regions inside an image of 12 by 10, and some that reach beyond it."""
    corners = rng.uniform(-4, 14, (count, 2, 2))
    return np.concatenate([corners.min(1), corners.max(1)], 1).astype(np.float32)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("sampling", [0, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_align_agrees_with_the_reference(mode: str, coordinates: str, sampling: int, dtype: str) -> None:
    rng = np.random.default_rng(4)
    x, rois = rng.standard_normal((2, 3, 10, 12)).astype(dtype), regions(rng, 6).astype(dtype)
    attrs: Attrs = {
        "mode": mode, "coordinate_transformation_mode": coordinates, "sampling_ratio": sampling,
        "output_height": 3, "output_width": 2, "spatial_scale": 0.75,
    }  # fmt: skip
    arrays = [x, rois, rng.integers(0, 2, 6)]
    node = make_node("RoiAlign", arrays, attrs)
    np.testing.assert_allclose(run_op(node, arrays, threads=2)[0], reference_op(node, arrays)[0], rtol=0, atol=2e-5)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # in the reference
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize(("size", "cells", "sampling"), [(40, 5, 2), (300, 3, 1), (300, 2, 0), (30, 300, 1)])
def test_align_agrees_with_the_reference_on_long_sides(size: int, cells: int, sampling: int, mode: str) -> None:
    """Taps that are near each other, far apart, and more than a region's planes share; infinite pixels beside them."""
    for axis in ("width", "height"):
        shape = (5, size) if axis == "width" else (size, 5)
        x = np.random.default_rng(6).standard_normal((1, 2, *shape)).astype(np.float32)
        if mode == "avg":
            x[..., 1, 3] = np.inf
            x[..., 2, 2] = -np.inf
            x[..., 3, 3] = np.nan
        rois = np.array([[0.3, 0.2, shape[1] + 1.1, shape[0] - 0.6], [-2, -1, shape[1] / 2, 3.9]], np.float32)
        sides = {"output_height": 2, "output_width": 2, f"output_{axis}": cells}
        arrays = [x, rois, np.array([0, 0])]
        node = make_node("RoiAlign", arrays, {"mode": mode, "sampling_ratio": sampling, **sides})
        np.testing.assert_allclose(run_op(node, arrays)[0], reference_op(node, arrays)[0], rtol=0, atol=2e-5)


def test_empty_and_nan_regions_give_finite_results() -> None:
    rois = np.array([[2, 2, 2, 2], [5, 5, 1, 1], [0, 0, 3e30, 3e30], [np.nan, 0, 1, 1]], np.float32)
    arrays = [np.ones((1, 1, 4, 4), np.float32), rois, np.zeros(4, np.int64)]
    ours = run_op(make_node("RoiAlign", arrays, {"output_height": 2, "output_width": 2}), arrays)[0]
    assert np.isfinite(ours).all()


def test_max_pool_agrees_with_onnxruntime() -> None:
    rng = np.random.default_rng(5)
    rois = np.concatenate([rng.integers(0, 2, (8, 1)), np.abs(regions(rng, 8))], 1).astype(np.float32)
    arrays = [rng.standard_normal((2, 3, 10, 12)).astype(np.float32), rois]
    attrs: Attrs = {"pooled_shape": (3, 4), "spatial_scale": 0.6}
    nodes = [make_node("MaxRoiPool", arrays, attrs) for _ in range(2)]
    np.testing.assert_array_equal(run_op(nodes[0], arrays, threads=2)[0], onnxruntime_op(nodes[1], arrays)[0])


def test_an_out_of_range_batch_index_is_refused() -> None:
    arrays = [np.ones((1, 1, 4, 4), np.float32), np.zeros((1, 4), np.float32), np.array([1])]
    with pytest.raises(_kernels.Fault):
        run_op(make_node("RoiAlign", arrays, {}), arrays)


def test_what_onnx_forbids_is_refused() -> None:
    with pytest.raises(ModelInvalid):
        make_node(
            "MaxRoiPool", [np.ones((1, 1, 4, 4), np.float32), np.zeros((1, 5), np.float32)], {"pooled_shape": (2,)}
        )

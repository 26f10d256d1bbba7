"""GridSample and AffineGrid against ONNX Runtime and the definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atcpy
from atcpy.ops import find_opdef
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.ops.exact import onnxruntime_op

Attrs = dict[str, object]


@settings(max_examples=trials(60), deadline=None)
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 5), st.integers(1, 6)),
    points=st.tuples(st.integers(1, 4), st.integers(1, 5)),
    mode=st.sampled_from(["nearest", "linear", "cubic"]),
    padding=st.sampled_from(["zeros", "border", "reflection"]),
    corners=st.integers(0, 1),
)
def test_images_agree_with_onnxruntime(
    shape: tuple[int, ...], points: tuple[int, ...], mode: str, padding: str, corners: int
) -> None:
    if corners and 1 in shape[2:] and padding == "reflection":
        return  # with one pixel there is nothing to reflect: ORT divides by zero
    rng = np.random.default_rng(sum(shape))
    arrays = [rng.standard_normal(shape, np.float32), rng.uniform(-1.7, 1.7, (shape[0], *points, 2)).astype(np.float32)]
    attrs: Attrs = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    node = make_node("GridSample", arrays, attrs)
    np.testing.assert_allclose(
        run_op(node, arrays, threads=2)[0], onnxruntime_op(make_node("GridSample", arrays, attrs), arrays)[0], 0, 2e-5
    )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_volumes_agree_with_the_reference(dtype: str, mode: str, padding: str, corners: int) -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((2, 2, 3, 4, 5)).astype(dtype), rng.uniform(-1.5, 1.5, (2, 2, 3, 2, 3)).astype(dtype)]
    node = make_node("GridSample", arrays, {"mode": mode, "padding_mode": padding, "align_corners": corners})
    np.testing.assert_allclose(run_op(node, arrays)[0], reference_op(node, arrays)[0], rtol=0, atol=2e-5)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("channels", [4, 5])  # so many are sampled together, or two by two
def test_large_images_are_sampled_as_their_channels_alone(mode: str, channels: int) -> None:
    rng = np.random.default_rng(channels)
    x = rng.standard_normal((2, channels, 1024, 1024), np.float32)
    grid = rng.uniform(-1.1, 1.1, (2, 3, 70, 2)).astype(np.float32)
    attrs: Attrs = {"mode": mode}
    alone = [x[:, [channel]] for channel in range(channels)]
    expected = [run_op(make_node("GridSample", [each, grid], attrs), [each, grid])[0] for each in alone]
    ours = run_op(make_node("GridSample", [x, grid], attrs), [x, grid], threads=2)[0]
    np.testing.assert_array_equal(ours, np.concatenate(expected, axis=1))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_nan_coordinates_read_inside_the_image(padding: str) -> None:
    grid = np.array([[[[np.nan, 0], [np.inf, 0], [-np.inf, 0], [3e38, -3e38]]]], np.float32)
    arrays = [np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3), grid]
    ours = run_op(make_node("GridSample", arrays, {"padding_mode": padding}), arrays)[0]
    assert (ours == 0).all() if padding == "zeros" else (ours >= 1).all()


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 1, 2, 3, 4)])
def test_affine_grids_agree_with_the_reference(size: tuple[int, ...], corners: int) -> None:
    dims = len(size) - 2
    theta = np.random.default_rng(3).standard_normal((size[0], dims, dims + 1)).astype(np.float32)
    arrays = [theta, np.array(size)]
    node = make_node("AffineGrid", arrays, {"align_corners": corners}, constants=(1,))
    opdef = find_opdef(node)
    assert opdef is not None and opdef.evaluate is not None
    (grid,) = opdef.evaluate(node, arrays)
    assert grid.shape == node.output.desc.static_shape
    np.testing.assert_allclose(grid, reference_op(node, arrays)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("theta", "sides", "corners"), [((2, 2, 3), (4, 5), 0), ((1, 3, 4), (2, 3, 4), 1), ((3, 2, 3), (1, 6), 1)]
)
def test_affine_grids_are_not_computed_on_the_host(
    theta: tuple[int, ...], sides: tuple[int, ...], corners: int, tmp_path: Path
) -> None:
    names = ",".join(["h", "w", "d"][: len(sides)])
    text = f"""<ir_version: 10, opset_import: ["" : 22]>
        g (float[n,{theta[1]},{theta[2]}] t, float[n,3,{names}] x) => (float[n,{names},{theta[1]}] y)
        {{ s = Shape(x) y = AffineGrid <align_corners = {corners}> (t, s) }}"""
    model = onnx.parser.parse_model(text)
    feeds = {
        "t": np.random.default_rng(1).normal(size=theta).astype(np.float32),
        "x": np.zeros((theta[0], 3, *sides), np.float32),
    }
    node = make_node("AffineGrid", [feeds["t"], np.array(feeds["x"].shape)], {"align_corners": corners}, constants=(1,))
    opdef = find_opdef(node)
    assert opdef is not None and opdef.evaluate is not None
    (expected,) = opdef.evaluate(node, [feeds["t"], np.array(feeds["x"].shape)])
    for shape in ({}, {"input_shape": {name: x.shape for name, x in feeds.items()}}):
        report = atcpy.convert(model, tmp_path / "m.om", **shape)
        assert not report.host_cpu_ops and not report.unplanned
        (own,) = atcpy.InferenceSession(tmp_path / "m.om").run(None, feeds)
        np.testing.assert_allclose(own, expected, rtol=0, atol=1e-5)

"""SpaceToBatchND, Conv, BatchToSpaceND become one convolution with dilations."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from atcpy.ir import Graph
from atcpy.options import ParseOptions
from atcpy.parsers.tensorflow import import_tensorflow
from tests.parsers.tensorflow.graphs import Array, TfBuilder

RNG = np.random.default_rng(3)
W2 = RNG.standard_normal((3, 2, 3, 4)).astype(np.float32)
X2 = RNG.standard_normal((2, 10, 9, 3)).astype(np.float32)


def _dilated(x: Array, w: Array, rates: Sequence[int], borders: Sequence[tuple[int, int]], *, depthwise: bool) -> Array:
    """A dilated convolution by its definition: a sum over the taps of its window."""
    padded = np.pad(x, [(0, 0), *[(max(a, 0), max(b, 0)) for a, b in borders], (0, 0)])
    padded = padded[
        (
            slice(None),
            *[slice(max(-a, 0), size - max(-b, 0)) for (a, b), size in zip(borders, padded.shape[1:], strict=False)],
        )
    ]
    window = w.shape[: len(rates)]
    sizes = [size - (k - 1) * rate for size, k, rate in zip(padded.shape[1:], window, rates, strict=False)]
    total: Array = np.zeros(())
    for at in np.ndindex(window):
        part = padded[(slice(None), *[slice(i * r, i * r + n) for i, r, n in zip(at, rates, sizes, strict=True)])]
        product = part[..., None] * w[at] if depthwise else part @ w[at]
        total = total + product.reshape(*part.shape[:-1], -1)
    return total


def _ops(folder: Path) -> Counter[str]:
    """Count the ops of the imported graph, before any pass."""
    graph = import_tensorflow(folder / "model.pb", ParseOptions(out_nodes=("y:0",))).graph
    return Counter(node.op_type for node in graph.nodes if node.op_type not in ("Const", "Data", "NetOutput"))


def _blocks(
    g: TfBuilder, x: str, w: Array, rates: Sequence[int], pads: object, crops: object, op: str, **attrs: object
) -> str:
    """Add SpaceToBatchND, the convolution and BatchToSpaceND."""
    count = len(rates)
    blocks = g.const(np.array(rates, np.int32))
    before, behind = (
        item if isinstance(item, str) else g.const(np.array(item, np.int32).reshape(count, 2)) for item in (pads, crops)
    )
    apart = g.add("SpaceToBatchND", x, blocks, before)
    attrs = {"strides": [1] * (w.ndim), "padding": "VALID", **attrs}
    if count == w.ndim - 2:
        conv = g.add(op, apart, g.const(w), **attrs)
    else:
        expanded = g.add("ExpandDims", apart, g.const(np.int32(-3)))
        conv = g.add("Squeeze", g.add(op, expanded, g.const(w), **attrs), squeeze_dims=[-3])
    return g.add("BatchToSpaceND", conv, blocks, behind, name="y")


@pytest.mark.parametrize(
    ("op", "x", "w", "rates", "pads", "crops"),
    [
        ("Conv2D", X2, W2, (2, 3), [(2, 2), (1, 2)], [(0, 0), (0, 0)]),
        ("Conv2D", X2, W2, (2, 2), [(2, 2), (1, 2)], [(0, 0), (0, 1)]),
        ("DepthwiseConv2dNative", X2, W2, (3, 1), [(1, 4), (0, 1)], [(1, 2), (0, 0)]),
        ("Conv2D", X2[:, 0], W2[:1], (4,), [(4, 3)], [(0, 3)]),
        ("Conv3D", X2[:, None], W2[None], (1, 2, 2), [(0, 0), (0, 0), (1, 0)], [(0, 0), (0, 0), (0, 0)]),
    ],
    ids=["pads", "crops", "depthwise", "one dim", "three dims"],
)
def test_convolutions_on_space_batches_become_dilated(
    op: str, x: Array, w: Array, rates: tuple[int, ...], pads: list[tuple[int, int]], crops: list[tuple[int, int]],
    tmp_path: Path,
) -> None:  # fmt: skip
    depthwise = op.startswith("Depth")
    g = TfBuilder()
    _blocks(g, g.input("x", "float32", x.shape), w, rates, pads, crops, op)
    (y,) = g.run(tmp_path, {"x": x}, "y")
    borders = [(a - c, b - d) for (a, b), (c, d) in zip(pads, crops, strict=True)]
    filters = w[0] if len(rates) == 1 else w
    np.testing.assert_allclose(y, _dilated(x, filters, rates, borders, depthwise=depthwise), rtol=0, atol=1e-5)
    ops = _ops(tmp_path)
    assert ops["Conv"] == 1 and not ops.keys() & {"Pad", "Slice"}
    assert ops["Reshape"] == depthwise  # reshapes the filter


@pytest.mark.parametrize("how", ["computed", "cropped more than padded"])
def test_unequal_pads_and_crops_stay_around_the_convolution(how: str, tmp_path: Path) -> None:
    pads, crops = np.array([[2, 2], [1, 0]], np.int32), np.array([[0, 1], [2, 0]], np.int32)
    feeds: dict[str, Array] = {"x": X2}
    g = TfBuilder()
    before: object = pads
    if how == "computed":
        before, feeds["pads"] = g.input("pads", "int32", (2, 2)), pads
    _blocks(g, g.input("x", "float32", X2.shape), W2, (2, 2), before, crops, "Conv2D")
    (y,) = g.run(tmp_path, feeds, "y")
    borders = [(2, 1), (-1, 0)]
    np.testing.assert_allclose(y, _dilated(X2, W2, (2, 2), borders, depthwise=False), rtol=0, atol=1e-5)
    ops = _ops(tmp_path)
    assert ops["Conv"] == ops["Pad"] == 1 and ops["Transpose"] == 3


@pytest.mark.parametrize(
    ("attrs", "others"),
    [
        ({"strides": [1, 2, 1, 1]}, (2, 2)),
        ({"dilations": [1, 1, 2, 1]}, (2, 2)),
        ({"padding": "SAME"}, (2, 2)),
        ({}, (4, 1)),
    ],
    ids=["strides", "dilations", "borders", "other blocks"],
)
def test_other_convolutions_on_space_batches_are_not_rewritten(
    attrs: dict[str, object], others: tuple[int, int], tmp_path: Path
) -> None:
    g = TfBuilder()
    none = np.zeros((2, 2), np.int32)
    name = _blocks(g, g.input("x", "float32", (2, 8, 8, 3)), W2, (2, 2), none, none, "Conv2D", **attrs)
    node = next(node for node in g.graph.node if node.name == name)
    node.input[1] = g.const(np.array(others, np.int32))
    (y,) = g.run(tmp_path, {"x": np.ones((2, 8, 8, 3), np.float32)}, "y")
    assert y.shape[0] == 2
    assert _ops(tmp_path)["Reshape"] == 4


def test_space_batches_of_channels_are_not_rewritten(tmp_path: Path) -> None:
    g = TfBuilder()
    w, none = RNG.standard_normal((1, 1, 2, 4)).astype(np.float32), np.zeros((3, 2), np.int32)
    blocks = g.const(np.array([1, 1, 2], np.int32))
    apart = g.add("SpaceToBatchND", g.input("x", "float32", (1, 2, 2, 4)), blocks, g.const(none))
    conv = g.add("Conv2D", apart, g.const(w), strides=[1] * 4, padding="VALID")
    g.add("BatchToSpaceND", conv, blocks, g.const(none), name="y")
    (y,) = g.run(tmp_path, {"x": np.ones((1, 2, 2, 4), np.float32)}, "y")
    assert y.shape == (1, 2, 2, 8)


def test_a_convolution_in_a_v1_branch_is_also_rewritten(tmp_path: Path) -> None:
    g = TfBuilder()
    x, p = g.input("x", "float32", X2.shape), g.input("p", "bool", ())
    switched = g.add("Switch", x, p)
    conv = _blocks(g, f"{switched}:1", W2, (2, 3), [(2, 2), (3, 3)], [(0, 0), (0, 0)], "Conv2D")
    other = g.add("Conv2D", switched, g.const(W2), strides=[1, 1, 1, 1], padding="SAME")
    g.graph.node[[item.name for item in g.graph.node].index("y")].name = "convolved"
    g.add("Merge", other, "convolved" if conv == "y" else conv, name="y", N=2)
    (taken,) = g.run(tmp_path, {"x": X2, "p": np.array(True)}, "y")
    np.testing.assert_allclose(taken, _dilated(X2, W2, (2, 3), [(2, 2), (3, 3)], depthwise=False), rtol=1e-4, atol=1e-4)
    graph = import_tensorflow(tmp_path / "model.pb", ParseOptions(out_nodes=("y:0",))).graph
    (branch,) = (node for node in graph.nodes if node.op_type == "If")
    inner = branch.attrs["then_branch"]
    assert isinstance(inner, Graph)
    assert [node.attrs["dilations"] for node in inner.nodes if node.op_type == "Conv"] == [(2, 3)]

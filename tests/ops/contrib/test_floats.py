"""Ops on floating-point numbers against ONNX Runtime's kernels, or numpy where it has none for CPUs."""

import numpy as np
import pytest

from atcpy.errors import ModelInvalid, Unsupported
from tests.ops.contrib.cases import assert_as_in_ort, expanded, floats, integers, make_model, results_of
from tests.parsers.onnx.canonical import Array, ops_of

X, W = floats(2, 6, 7, 7), floats(4, 3, 3, 3)


@pytest.mark.parametrize(
    ("op", "arrays", "attrs"),
    [
        ("Gelu", [floats(3, 5)], {}),
        ("BiasGelu", [floats(2, 3, 8), floats(8)], {}),
        ("FastGelu", [floats(2, 3, 8)], {}),
        ("FastGelu", [floats(2, 3, 8), floats(8)], {}),
        ("QuickGelu", [floats(3, 5)], {}),
        ("QuickGelu", [floats(3, 5)], {"alpha": 1.0}),
        ("TransposeMatMul", [floats(2, 4, 3), floats(2, 4, 5)], {"transA": 1, "alpha": 0.5}),
        ("FusedMatMul", [floats(2, 4, 3), floats(2, 5, 3)], {"transB": 1, "alpha": 2.5}),
        ("FusedMatMul", [floats(4, 3), floats(5, 4)], {"transA": 1, "transB": 1}),
        ("FusedMatMul", [floats(3, 2, 6, 4), floats(2, 6, 4, 5)], {"transBatchA": 1}),
        ("FusedMatMul", [floats(4, 2, 6, 3), floats(5, 2, 6, 4)],
         {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1}),
        ("FusedGemm", [floats(3, 4), floats(4, 5), floats(5)], {"activation": "Relu", "alpha": 0.5, "beta": 2.0}),
        ("FusedGemm", [floats(4, 3), floats(4, 5)], {"transA": 1, "activation": "LeakyRelu", "activation_alpha": 0.3}),
        ("CDist", [floats(3, 6), floats(4, 6)], {"metric": "euclidean"}),
        ("CDist", [floats(3, 6), floats(4, 6)], {"metric": "sqeuclidean"}),
        ("SkipLayerNormalization", [floats(2, 3, 8), floats(2, 3, 8, seed=1), floats(8)], {"epsilon": 1e-5}),
        ("SkipLayerNormalization", [floats(2, 3, 8), floats(1, 3, 8), floats(8), floats(8), floats(8)], {}),
        ("SkipLayerNormalization", [floats(2, 3, 8), floats(3, 8), floats(8), floats(8)], {}),
        ("SkipSimplifiedLayerNormalization", [floats(2, 3, 8), floats(2, 3, 8), floats(8)], {}),
        ("SkipSimplifiedLayerNormalization", [floats(2, 3, 8), floats(3, 8), floats(8), floats(8)], {"epsilon": 0.1}),
        ("Trilu", [floats(3, 4, 5), np.array(-1)], {"upper": 0}),
        ("GatherND", [floats(3, 4, 5), np.array([[0, 1], [2, 3]], np.int32)], {}),
        ("ExpandDims", [floats(3, 4), np.array(-1, np.int32)], {}),
        ("ExpandDims", [floats(3, 4), np.array(1, np.int32)], {}),
        ("Pad", [floats(3, 4), np.array([[1, 0, 2, 3]]), np.array([2.5], np.float32)], {}),
        ("Pad", [floats(3, 4), np.array([1, 0, 2, 3])], {"mode": "reflect"}),
        ("Range", [np.array([1.0], np.float32), np.array(7.5, np.float32)], {}),
        ("Range", [np.array(1), np.array(9), np.array([3])], {}),
        ("GatedAdd", [floats(2, 3, 8), floats(2, 3, 8, seed=1), floats(2, 3, 1)], {}),
        ("ScaledSiLU", [floats(2, 3)], {"alpha": 2.0}),
        ("ScaledSiLU", [floats(2, 3), np.array(0.5, np.float32)], {}),
        ("GatedRMSNorm", [floats(2, 3, 8), floats(4), floats(2, 3, 8, seed=1)], {}),
        ("GatedRMSNorm", [floats(2, 3, 8), floats(8), floats(2, 3, 8, seed=1)], {"activation": "sigmoid"}),
        ("UnfoldTensor", [floats(2, 9, 3)], {"dim": 1, "size": 3, "step": 2}),
        ("UnfoldTensor", [floats(2, 9)], {"size": 4}),
        ("SampleOp", [floats(2, 9)], {}),
        ("GridSample", [floats(2, 3, 4, 5), np.tanh(floats(2, 3, 3, 2))], {"padding_mode": "border"}),
    ],
)  # fmt: skip
def test_it_computes_what_onnx_runtime_computes(op: str, arrays: list[Array], attrs: dict[str, object]) -> None:
    assert_as_in_ort(op, arrays, attrs, symbolic=True, constants=(1,) if op in ("Pad", "ExpandDims") else ())


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Affine", {}),
        ("Affine", {"alpha": 0.5, "beta": 2.0}),
        ("Scale", {"scale": 0.5}),
        ("ScaledTanh", {"alpha": 0.5, "beta": 2.0}),
        ("ParametricSoftplus", {"alpha": 0.5, "beta": 2.0}),
        ("ImageScaler", {"scale": 0.5, "bias": [1.0, -2.0, 3.0, 0.0, 5.0, 6.0]}),
        ("Crop", {"border": [1, 2, 3, 0]}),
        ("Crop", {"border": [1, 2, 0, 0], "scale": [5, 6]}),  # up to the last row and column
    ],
)
@pytest.mark.parametrize("symbolic", [True, False])
def test_deprecated_standard_ops(op: str, attrs: dict[str, object], symbolic: bool) -> None:
    assert_as_in_ort(op, [X], attrs, domain="", opset=8, symbolic=symbolic)


@pytest.mark.parametrize(
    ("op", "attrs", "what"),
    [
        ("ScaledTanh", {"alpha": 0.5}, "attribute beta is missing"),
        ("ImageScaler", {"bias": [1.0] * 5}, "5 biases for an image of shape"),
        ("Crop", {"border": [1, 2, 3]}, r"border \[1, 2, 3\]"),
        ("Crop", {"border": [4, 0, 4, 0]}, r"a side of 7 is shorter than 4 \+ 4"),
        ("Crop", {"border": [1, 2, 0, 0], "scale": [6, 6]}, r"a side of 7 is shorter than 2 \+ 6"),
    ],
)
def test_deprecated_standard_ops_are_checked(op: str, attrs: dict[str, object], what: str) -> None:
    with pytest.raises(ModelInvalid, match=what):
        expanded(make_model(op, [X], attrs, domain="", opset=8))


TINY = [floats(2, 3, 8) * np.float32(1e-4), floats(2, 3, 8, seed=1) * np.float32(1e-4), floats(8)]


@pytest.mark.parametrize(
    ("op", "arrays", "domain"),
    [
        ("SkipLayerNormalization", TINY, "com.microsoft"),
        ("SkipSimplifiedLayerNormalization", TINY, "com.microsoft"),
        ("SimplifiedLayerNormalization", TINY[::2], ""),
        ("LayerNormalization", TINY[::2], ""),
    ],
)
def test_a_missing_epsilon_takes_the_default_of_the_schema(op: str, arrays: list[Array], domain: str) -> None:
    """Variances near 1e-8 make any other default visible."""
    assert_as_in_ort(op, arrays, domain=domain)


@pytest.mark.parametrize(
    ("activation", "params"),
    [("Relu", []), ("Sigmoid", []), ("Tanh", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.75]),
     ("HardSigmoid", [0.25, 0.4])],
)  # fmt: skip
def test_fused_conv_becomes_a_conv_and_its_activation(activation: str, params: list[float]) -> None:
    attrs = {"group": 2, "pads": [1, 1, 1, 1], "activation": activation}
    attrs |= {"activation_params": params} if params else {}
    graph = assert_as_in_ort("FusedConv", [X, W, floats(4)], attrs, constants=(1, 2))
    assert ops_of(graph) == ["Conv", activation]


def test_fused_conv_adds_before_its_activation() -> None:
    attrs = {"group": 2, "strides": [2, 2], "activation": "Relu", "kernel_shape": [3, 3]}
    graph = assert_as_in_ort("FusedConv", [X, W, floats(4), floats(2, 4, 3, 3)], attrs)
    assert ops_of(graph) == ["Conv", "Add", "Relu"]


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(Unsupported, match='activation "Mystery"') as raised:
        expanded(make_model("FusedConv", [X, W], {"group": 2, "activation": "Mystery"}))
    assert "without ONNX Runtime's optimization" in raised.value.hint


def test_the_last_output_is_the_sum_of_input_and_skip() -> None:
    arrays = [floats(2, 3, 8), floats(2, 3, 8, seed=1), floats(8), floats(8), floats(8)]
    assert_as_in_ort("SkipLayerNormalization", arrays, outputs=("y", "", "", "s"))
    assert_as_in_ort("SkipSimplifiedLayerNormalization", arrays[:4], outputs=("y", "", "", "s"))


@pytest.mark.parametrize("opset", [9, 12, 17, 21])
def test_norms_in_the_domain_of_the_standard(opset: int) -> None:
    arrays = [floats(2, 3, 8), floats(8)]
    graph = assert_as_in_ort(
        "SimplifiedLayerNormalization", arrays, {"epsilon": 1e-4}, domain="", opset=opset, outputs=2
    )
    assert "RMSNormalization" in ops_of(graph)
    assert_as_in_ort(
        "LayerNormalization", [*arrays, floats(8)], {"axis": 1 if opset > 30 else -1}, domain="", opset=opset
    )


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4), (2, 3, 7, 7)])
def test_inverse_has_a_step_for_each_column(shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    x[..., 0, 0] = 0 if shape[-1] > 1 else 2  # a zero pivot: elimination must swap rows
    assert_as_in_ort("Inverse", [x], rtol=1e-3, atol=1e-3)
    with pytest.raises(Unsupported, match="matrices of unknown columns"):
        expanded(make_model("Inverse", [x], symbolic=True))


def test_unique_keeps_the_order_of_the_input() -> None:
    assert_as_in_ort("Unique", [np.array([2, 1, 1, 3, 4, 3], np.float32)], outputs=3)


def test_nhwc_max_pool_works_on_channels_last() -> None:
    attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    graph = assert_as_in_ort("NhwcMaxPool", [integers(0, 255, 2, 7, 7, 5)], attrs)
    assert ops_of(graph) == ["Transpose", "MaxPool", "Transpose"]


def test_dynamic_pads_must_be_constant() -> None:
    arrays = [floats(1, 3, 5, 5), floats(3, 2, 3, 3), np.array([1, 0, 1, 0]), floats(2)]
    assert_as_in_ort("ConvTransposeWithDynamicPads", arrays, {"strides": [2, 2]}, constants=(2,))
    with pytest.raises(Unsupported, match="computed at run time"):
        expanded(make_model("ConvTransposeWithDynamicPads", arrays))


# --- ops without a CPU kernel in ONNX Runtime: numpy written from their schemas --------------------


def ours(op: str, arrays: list[Array | None], attrs: dict[str, object] | None = None, outputs: int = 1) -> list[Array]:
    return results_of(make_model(op, arrays, attrs, outputs=outputs), arrays)[1]


def normalized(x: Array, groups: int, gamma: Array, beta: Array, epsilon: float) -> Array:
    """Group normalization of [N, C, H, W] in float64."""
    parts = x.astype(np.float64).reshape(x.shape[0], groups, -1)
    parts = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + epsilon)
    y: Array = parts.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
    return y


@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("is_last", [0, 1])
@pytest.mark.parametrize("skip_rank", [0, 2, 4])
def test_group_norm(activation: int, is_last: int, skip_rank: int) -> None:
    x, gamma, beta = floats(2, 6, 3, 4), floats(6), floats(6, seed=1)
    skip, bias = floats(2, 6, 1, 1, seed=3), floats(6, seed=2)
    total = x + skip + bias[:, None, None] if skip_rank else x
    want = normalized(total, 3, gamma, beta, 1e-3)
    want = want / (1 + np.exp(-want)) if activation else want
    if is_last:
        x, skip, want, total = (array.transpose(0, 2, 3, 1) for array in (x, skip, want, total))
    attrs: dict[str, object] = {"activation": activation, "groups": 3, "channels_last": is_last, "epsilon": 1e-3}
    if skip_rank:
        skip = skip.reshape(2, 6) if skip_rank == 2 else skip
        y, s = ours("SkipGroupNorm", [x, gamma, beta, skip, bias], attrs, outputs=2)
        np.testing.assert_allclose(s, total, rtol=1e-6)
    else:
        (y,) = ours("GroupNorm", [x, gamma, beta], attrs)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    y: Array = powers / powers.sum(-1, keepdims=True)
    return y


def test_biases_before_other_ops() -> None:
    x, bias, skip = floats(2, 3, 8), floats(8), floats(2, 3, 8, seed=5)
    (y,) = ours("BiasAdd", [x, bias, skip])
    np.testing.assert_allclose(y, x + bias + skip, rtol=1e-6)
    (y,) = ours("BiasDropout", [x, bias, skip, np.array(0.5, np.float32)])
    np.testing.assert_allclose(y, x + bias + skip, rtol=1e-6)
    (y,) = ours("BiasSoftmax", [x, skip[:, :1]], {"axis": 2, "is_inner_broadcast": 1})
    np.testing.assert_allclose(y, softmax(x + skip[:, :1]), rtol=1e-5)
    (y,) = ours("BiasSoftmax", [x, skip[:1]], {"axis": 1, "is_inner_broadcast": 0})
    np.testing.assert_allclose(y, softmax((x + skip[:1]).reshape(2, -1)).reshape(x.shape), rtol=1e-5)
    (y,) = ours("BiasSplitGelu", [x, bias])
    a, b = np.split(x + bias, 2, -1)
    (gelu,) = ours("Gelu", [b])
    np.testing.assert_allclose(y, a * gelu, rtol=1e-5, atol=1e-6)
    with pytest.raises(Unsupported, match="the mask is made in training only"):
        expanded(make_model("BiasDropout", [x, bias], outputs=2))


def test_matmul_with_a_fused_activation() -> None:
    a, b, bias = floats(3, 4), floats(4, 5), floats(5)
    (y,) = ours("FusedMatMulActivation", [a, b], {"activation": "Relu", "alpha": 0.5})
    np.testing.assert_allclose(y, np.maximum(0.5 * (a @ b), 0), rtol=1e-5)
    (y,) = ours("FusedMatMulActivation", [a, b], {"activation": "Softmax", "activation_axis": -1})
    np.testing.assert_allclose(y, softmax(a @ b), rtol=1e-5)
    (y,) = ours("GemmFastGelu", [a, b, bias])
    (gelu,) = ours("FastGelu", [a @ b + bias])
    np.testing.assert_allclose(y, gelu, rtol=1e-5, atol=1e-6)


def test_channels_last_convolutions() -> None:
    x = X.transpose(0, 2, 3, 1)
    attrs: dict[str, object] = {"group": 2, "pads": [1, 0, 1, 0]}
    (want,) = ours("FusedConv", [X, W], attrs)
    (y,) = ours("NhwcConv", [x, W], attrs)
    np.testing.assert_allclose(y, want.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-6)
    z = floats(*y.shape)
    (y,) = ours("NhwcFusedConv", [x, W, None, z], {**attrs, "activation": "Relu"})
    np.testing.assert_allclose(y, np.maximum(want.transpose(0, 2, 3, 1) + z, 0), rtol=1e-5, atol=1e-6)


def test_complex_numbers_are_pairs() -> None:
    x = floats(3, 8)
    (y,) = ours("Rfft", [x], {"signal_ndim": 1})
    want = np.fft.rfft(x)
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], want, rtol=1e-4, atol=1e-5)
    a, b = floats(3, 4, 2), floats(3, 4, 2, seed=2)
    u, v = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    (y,) = ours("ComplexMul", [a, b])
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], u * v, rtol=1e-5, atol=1e-6)
    (y,) = ours("ComplexMulConj", [a, b])
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], u * v.conj(), rtol=1e-5, atol=1e-6)


def test_aten_embedding_becomes_a_gather() -> None:
    table, at = floats(5, 3), np.array([[0, 4], [1, 1]])
    (y,) = ours("TorchEmbedding", [table, at])
    np.testing.assert_array_equal(y, table[at])

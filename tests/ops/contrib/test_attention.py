"""Attention ops, embeddings and rotary positions of com.microsoft against ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.errors import ModelInvalid, Unsupported
from tests.ops.contrib.cases import assert_as_in_ort, expanded, feeds_of, floats, integers, make_model, results_of
from tests.parsers.onnx.canonical import Array, run_ort

B, S, N, H, P = 2, 4, 2, 8, 3
D = N * H
QKV = [floats(B, S, D), floats(D, 3 * D) / 4, floats(3 * D)]
LENGTHS = np.array([2, 4], np.int32)
STARTS = np.array([2, 4, 1, 0], np.int32)
ROWS = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], np.int32)
PLANES = np.tril(np.ones((B, S, S), np.int32))


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    "mask", [None, LENGTHS, STARTS, ROWS, PLANES], ids=["none", "ends", "starts", "rows", "planes"]
)
def test_attention_takes_every_mask(symbolic: bool, mask: Array | None) -> None:
    attrs = {"num_heads": N, "unidirectional": int(symbolic)}
    assert_as_in_ort("Attention", [*QKV, mask], attrs, symbolic=symbolic, constants=(1, 2))


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_continues_a_past(causal: int) -> None:
    past = floats(2, B, N, P, H)
    mask = np.ones((B, P + S), np.int32)
    mask[0, :2] = 0
    attrs = {"num_heads": N, "unidirectional": causal, "scale": 0.25}
    for symbolic in (False, True):
        assert_as_in_ort("Attention", [*QKV, mask, past], attrs, outputs=2, symbolic=symbolic)


@pytest.mark.parametrize("low", [-10000.0, float(np.finfo(np.float32).min)])
def test_a_query_that_sees_no_key_takes_as_much_of_each_as_in_ort(low: float) -> None:
    """Batches that are padded on the left have such queries; which keys they mix depends on the filter value."""
    mask = np.ones((B, P + S), np.int32)
    mask[0, : P + 2] = 0
    attrs = {"num_heads": N, "unidirectional": 1, "mask_filter_value": low}
    for symbolic in (False, True):
        assert_as_in_ort("Attention", [*QKV, mask, floats(2, B, N, P, H)], attrs, outputs=2, symbolic=symbolic)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("rows", [1, B])
def test_a_mask_of_one_column_hides_nothing(rows: int, value: int, symbolic: bool) -> None:
    """Only where there is one key it is a mask of this key."""
    mask = np.full((rows, 1), value, np.int32)
    attrs = {"num_heads": N, "mask_filter_value": float(np.finfo(np.float32).min)}
    past = floats(2, B, N, P, H)
    for causal in (0, 1):
        inputs = [*QKV, mask, past]
        assert_as_in_ort("Attention", inputs, attrs | {"unidirectional": causal}, outputs=2, symbolic=symbolic)
    assert_as_in_ort("Attention", [floats(B, 1, D), *QKV[1:], mask], attrs, symbolic=symbolic)


def _continued(causal: int, mask_dims: list[str | int] | None, past_dim: str | int = "past") -> onnx.ModelProto:
    """Attention behind a past, of a mask [batch, …] and of an open number of keys."""
    past = floats(2, B, N, P, H)
    attrs = {"num_heads": N, "unidirectional": causal}
    model = make_model("Attention", [*QKV, np.ones((B, P + S), np.int32), past], attrs, constants=(1, 2), outputs=2)
    dims: dict[str, list[str | int]] = {
        "i0": ["batch", "new", D],
        "i3": mask_dims or ["batch", "total"],
        "i4": [2, "batch", N, past_dim, H],
    }
    for info in model.graph.input:
        for dim, size in zip(info.type.tensor_type.shape.dim, dims[info.name], strict=True):
            dim.CopyFrom(onnx.helper.make_tensor_value_info("", 1, [size]).type.tensor_type.shape.dim[0])
    return model


@pytest.mark.parametrize(
    ("causal", "mask_dims", "past", "is_kept"),
    [
        (1, None, "past", True),  # the causal mask has a column for each key
        (1, ["batch", P + S], "past", True),
        (1, ["batch", P + S + 1], P, True),  # the number of new keys is open
        (0, None, "past", False),  # a shorter mask would hide keys
        (0, ["batch", P + S], "past", False),
    ],
)
def test_attention_of_open_sizes_stays_one_node(
    causal: int, mask_dims: list[str | int] | None, past: str | int, is_kept: bool
) -> None:
    graph = expanded(_continued(causal, mask_dims, past))
    assert any(True for _ in graph.nodes_of("Attention")) == is_kept


def test_attention_of_a_mask_of_all_open_sizes_is_as_in_ort() -> None:
    model = _continued(1, None)
    feeds = [QKV[0], np.ones((B, P + S), np.int32), floats(2, B, N, P, H)]
    feeds[1][0, :2] = 0
    arrays = [feeds[0], None, None, *feeds[1:]]
    expected = run_ort(model, feeds_of(model, arrays))
    graph, got = results_of(model, arrays)
    assert any(True for _ in graph.nodes_of("Attention"))
    for have, want in zip(got, expected, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_a_mask_of_more_columns_than_keys_is_refused(tmp_path: Path) -> None:
    onnx.save(_continued(1, None), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om", soc="Ascend910")
    session = atcpy.InferenceSession(tmp_path / "m.om", threads=1)
    for new, old, columns in ((1, 0, 5), (1, 3, 5), (S, P, P + S + 1)):
        feeds = {"i0": floats(B, new, D), "i3": np.ones((B, columns), np.int32), "i4": floats(2, B, N, old, H)}
        with pytest.raises(ModelInvalid, match="EZ8888"):
            session.run(None, feeds)


def test_attention_with_different_qkv_hidden_sizes() -> None:
    attrs = {"num_heads": N, "qkv_hidden_sizes": [D, D, 2 * D], "mask_filter_value": -500.0}
    arrays = [QKV[0], floats(D, 4 * D) / 4, floats(4 * D), ROWS]
    assert_as_in_ort("Attention", arrays, attrs, constants=(1,))
    for bias in (floats(B, N, S, S), floats(1, 1, S, S)):
        assert_as_in_ort("Attention", [*QKV, ROWS, None, bias], {"num_heads": N, "scale": 0.3})
    (y,) = results_of(make_model("Attention", [*QKV[:2]], {"num_heads": N}), QKV[:2])[1]
    (want,) = results_of(make_model("Attention", [*QKV[:2], 0 * QKV[2]], {"num_heads": N}), [*QKV[:2], 0 * QKV[2]])[1]
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arrays", "attrs"),
    [([*QKV, np.ones((B, 1, S, S), np.int32)], {}), (QKV, {"do_rotary": 1}), (QKV, {"past_present_share_buffer": 1}),
     ([*QKV, np.ones(5, np.int32)], {})],
)  # fmt: skip
def test_gpu_only_variants_are_refused(arrays: list[Array], attrs: dict[str, int]) -> None:
    with pytest.raises(Unsupported):
        expanded(make_model("Attention", arrays, {"num_heads": N, **attrs}))


L = 5
Q, K, V = floats(B, S, D), floats(B, L, D, seed=1), floats(B, L, 2 * D, seed=2)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("arrays", "causal"),
    [
        ([Q, K, V], 0),
        ([Q, K, V, floats(4 * D)], 0),
        ([Q, K, V, None, np.array([2, 5], np.int32)], 0),
        ([Q, K, V, None, np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 1]], np.int32), floats(1, N, S, L)], 0),
        ([Q, K, V, None, integers(0, 2, B, S, L, dtype="int32"), floats(B, 1, S, L)], 0),
        ([Q, Q, Q, floats(3 * D)], 1),
        ([Q, floats(B, N, L, H), floats(B, N, L, H)], 0),
    ],
)
def test_multi_head_attention(arrays: list[Array | None], causal: int, symbolic: bool) -> None:
    attrs = {"num_heads": N, "unidirectional": causal}
    assert_as_in_ort("MultiHeadAttention", arrays, attrs, symbolic=symbolic)


@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention_continues_a_past(causal: int) -> None:
    arrays = [Q, Q, Q, None, None, None, floats(B, N, P, H), floats(B, N, P, H, seed=4)]
    for symbolic in (False, True):
        attrs = {"num_heads": N, "unidirectional": causal, "scale": 0.3}
        assert_as_in_ort("MultiHeadAttention", arrays, attrs, outputs=3, symbolic=symbolic)


def test_packed_inputs_are_split() -> None:
    q, k, v = (array.reshape(B, S, N, H) for array in (Q, floats(B, S, D, seed=8), floats(B, S, D, seed=9)))
    flat = [array.reshape(B, S, D) for array in (q, k, v)]
    bias = floats(3 * D)
    model = make_model("MultiHeadAttention", [*flat, bias], {"num_heads": N})
    (want,) = results_of(model, [*flat, bias])[1]
    for arrays in ([np.stack([q, k, v], 3), None, None, bias], [flat[0], np.stack([k, v], 3), None, bias]):
        (y,) = results_of(make_model("MultiHeadAttention", arrays, {"num_heads": N}), arrays)[1]
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


# --- embeddings --------------------------------------------------------------------------------

IDS, SEGMENTS = integers(0, 9, B, S, dtype="int32"), integers(0, 2, B, S, dtype="int32")
TABLES = [floats(9, D), floats(7, D), floats(2, D)]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("segments", "mask", "position_ids"),
    [(SEGMENTS, ROWS, None), (None, None, None), (SEGMENTS, None, np.array([[3, 2, 1, 0]], np.int32))],
)
def test_embeddings_are_normalized(
    symbolic: bool, segments: Array | None, mask: Array | None, position_ids: Array | None
) -> None:
    tables = TABLES if segments is not None else [*TABLES[:2], None]
    arrays = [IDS, segments, *tables, floats(D), floats(D, seed=3), mask, position_ids]
    assert_as_in_ort(
        "EmbedLayerNormalization", arrays, {"epsilon": 1e-5}, outputs=3, symbolic=symbolic, constants=range(2, 7)
    )


def test_quantized_embeddings() -> None:
    tables = [integers(0, 255, 9, D), integers(0, 255, 7, D), integers(0, 255, 2, D), integers(0, 255, D),
              integers(0, 255, D)]  # fmt: skip
    scales = [np.array(scale, np.float32) for scale in (0.02, 0.03, 0.01, 0.05, 0.04)]
    zeros = [np.array(zero, np.uint8) for zero in (128, 120, 130, 127, 126)]
    arrays = [IDS, SEGMENTS, *tables, ROWS, *scales, *zeros]
    assert_as_in_ort("QEmbedLayerNormalization", arrays, {"epsilon": 1e-5}, outputs=2)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("partial", [0, 4])
def test_rotary_positions(interleaved: int, flat: bool, partial: int) -> None:
    x = floats(B, S, D) if flat else floats(B, N, S, H)
    half = (partial or H) // 2
    angles = np.arange(10)[:, None] / np.arange(1, half + 1)
    caches = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    attrs = {"interleaved": interleaved}
    attrs |= {"rotary_embedding_dim": partial, "num_heads": N} if partial else {}
    for position_ids in (np.array([3]), integers(0, 9, B, S, dtype="int64")):
        assert_as_in_ort("RotaryEmbedding", [x, position_ids, *caches], attrs, symbolic=flat, constants=(2, 3))

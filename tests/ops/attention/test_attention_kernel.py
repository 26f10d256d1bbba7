"""Attention: the kernel against the standard's reference, over layouts, masks and instruction sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir import DType, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels._kernels import Refused
from atcpy.kernels.table import ParamValue
from atcpy.ops.attention.attention import CACHE, CACHED, supports_attention
from atcpy.ops.core.half import MULTIPLIES_BF16
from tests.bf16 import rounded
from tests.effort import trials
from tests.harness import load_task, make_node, reference_op, run_op
from tests.isa import BF16_ISAS, ISAS

F32 = np.float32


def make_arrays(
    rng: np.random.Generator, sizes: tuple[int, ...], *, joined: bool, mask: str, past: int = 0
) -> tuple[list[Array | None], dict[str, object]]:
    """Operands and attributes for (batch, KV heads, query heads per KV head, query and key lengths, head sizes)."""
    batch, kv_heads, group, queries, keys, width, v_width = sizes
    heads = kv_heads * group
    shapes = [(batch, heads, queries, width), (batch, kv_heads, keys, width), (batch, kv_heads, keys, v_width)]
    arrays: list[Array | None] = [rng.standard_normal(shape).astype(F32) for shape in shapes]
    attrs: dict[str, object] = {}
    if joined:
        arrays = [a.transpose(0, 2, 1, 3).reshape(batch, a.shape[2], -1) for a in arrays if a is not None]
        attrs = {"q_num_heads": heads, "kv_num_heads": kv_heads}
    if mask != "none":
        # With a causal mask, the reference reads a mask row shared by all queries as the first query's row.
        dims = [*(int(size) if rng.integers(2) else 1 for size in (batch, heads)), queries]
        scores = rng.standard_normal((*dims, keys + past))
        added = np.where(scores > 1, -np.inf, scores).astype(F32)
        arrays.append(added if mask == "added" else scores > -0.5)
    if past:
        arrays += [None] if mask == "none" else []
        arrays += [rng.standard_normal((batch, kv_heads, past, size)).astype(F32) for size in (width, v_width)]
    return arrays, attrs


def sizes_of(
    queries: Sequence[int], keys: Sequence[int], widths: Sequence[int], v_widths: Sequence[int]
) -> st.SearchStrategy[tuple[int, ...]]:
    """Sizes for make_arrays: one or two batches and heads of keys, up to three heads of queries for each of these."""
    few, lengths = st.integers(1, 2), map(st.sampled_from, (queries, keys, widths, v_widths))
    return st.tuples(few, few, st.integers(1, 3), *lengths)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(40), deadline=None)
@given(
    sizes=sizes_of([1, 2, 15, 33, 130], [1, 3, 16, 31, 257, 530], [1, 8, 17, 64], [1, 8, 19, 40]),
    joined=st.booleans(),
    mask=st.sampled_from(["none", "added", "kept"]),
    causal=st.booleans(),
    scale=st.sampled_from([None, 0.3, 1.0]),
    softcap=st.sampled_from([0.0, 0.0, 0.7, 30.0]),
    threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_attention_agrees_with_the_reference(
    isa: str,
    sizes: tuple[int, ...],
    joined: bool,
    mask: str,
    causal: bool,
    scale: float | None,
    softcap: float,
    threads: int,
    seed: int,
) -> None:
    arrays, attrs = make_arrays(np.random.default_rng(seed), sizes, joined=joined, mask=mask)
    if mask != "none" and not causal and seed % 2:
        arrays[3] = arrays[3][:, :, :1]  # type: ignore[index]
    attrs |= {"is_causal": int(causal), "softcap": softcap} | ({} if scale is None else {"scale": scale})
    node = make_node("Attention", arrays, attrs)
    assert list(supports_attention(node)) == []
    ours = run_op(node, arrays, isa=isa, threads=threads)[0]
    np.testing.assert_allclose(ours, reference_op(node, arrays)[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(15), deadline=None)
@given(
    sizes=sizes_of([1, 2, 33, 130], [1, 3, 17, 270], [8, 17], [1, 8, 19]),
    past=st.sampled_from([1, 16, 255, 256, 300]),
    joined=st.booleans(),
    mask=st.sampled_from(["none", "added", "kept"]),
    causal=st.booleans(),
    threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_past_keys_precede_new_keys_and_present_holds_both(
    isa: str, sizes: tuple[int, ...], past: int, joined: bool, mask: str, causal: bool, threads: int, seed: int
) -> None:
    arrays, attrs = make_arrays(np.random.default_rng(seed), sizes, joined=joined, mask=mask, past=past)
    node = make_node("Attention", arrays, {**attrs, "is_causal": int(causal)}, outputs=3)
    assert list(supports_attention(node)) == []
    ours, expected = run_op(node, arrays, isa=isa, threads=threads), reference_op(node, arrays)
    np.testing.assert_allclose(ours[0], expected[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(ours[1], expected[1])
    np.testing.assert_array_equal(ours[2], expected[2])


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(40), deadline=None)
@given(
    sizes=sizes_of([1, 2, 15, 70], [1, 3, 17, 70], [1, 8, 17, 64], [1, 8, 19, 40]),
    past=st.sampled_from([0, 1, 16, 17, 255, 256, 300]),
    room=st.sampled_from([0, 1, 100]),
    joined=st.booleans(),
    mask=st.sampled_from(["none", "added", "kept"]),
    causal=st.booleans(),
    threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_keys_of_earlier_steps_lie_in_the_caches(
    isa: str, sizes: tuple[int, ...], past: int, room: int, joined: bool, mask: str, causal: bool, threads: int,
    seed: int,
) -> None:  # fmt: skip
    """The new rows are written behind them, and nothing else of the caches."""
    arrays, attrs = make_arrays(np.random.default_rng(seed), sizes, joined=joined, mask=mask, past=past)
    attrs["is_causal"] = int(causal)
    expected = reference_op(make_node("Attention", arrays, attrs, outputs=3), arrays)
    keys, rows = expected[1].shape[2], expected[1].shape[2] + room
    node = make_node("Attention", arrays, attrs, outputs=3)
    assert node.graph is not None
    node.graph.set_inputs(node, node.inputs[:4])
    before = {}
    for index, result in enumerate(expected[1:], start=1):
        before[index] = np.full((*result.shape[:2], rows, result.shape[3]), np.nan, F32)
        before[index][:, :, :past] = result[:, :, :past]
        node.outputs[index].desc = TensorDesc.plain(DType.FLOAT32, before[index].shape)
    node.attrs.update({CACHE: rows, CACHED: past})
    ours = run_op(node, arrays[:4], isa=isa, threads=threads, before=before)
    np.testing.assert_allclose(ours[0], expected[0], rtol=2e-5, atol=2e-5)
    for cache, result in zip(ours[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(cache[:, :, :keys], result)
        assert np.isnan(cache[:, :, keys:]).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("heads", [(1, 130), (2, 128), (3, 1)])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("mask", ["none", "added", "kept"])
def test_one_query_of_each_of_many_heads(isa: str, heads: tuple[int, int], joined: bool, mask: str) -> None:
    """Heads that share keys are the rows of an item, of which there are 128 at most."""
    sizes = (2, *heads, 1, 9, 8, 5)
    arrays, attrs = make_arrays(np.random.default_rng(6), sizes, joined=joined, mask=mask, past=300)
    attrs["is_causal"] = 1
    if mask != "none":  # of its own for each head
        arrays[3] = np.random.default_rng(7).standard_normal((1, heads[0] * heads[1], 1, 309)).astype(F32)
        arrays[3] = arrays[3] if mask == "added" else arrays[3] > -0.5
    node = make_node("Attention", arrays, attrs, outputs=3)
    ours, expected = run_op(node, arrays, isa=isa, threads=3), reference_op(node, arrays)
    np.testing.assert_allclose(ours[0], expected[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(ours[1], expected[1])
    np.testing.assert_array_equal(ours[2], expected[2])


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(30), deadline=None)
@given(
    sizes=sizes_of([1, 2, 33], [1, 3, 17], [1, 8, 17, 64], [1, 8, 19, 300]),
    past=st.sampled_from([1, 16, 17, 255, 256, 300]),
    is_kept=st.booleans(),
    joined=st.booleans(),
    threads=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_caches_may_be_of_float16(
    isa: str, sizes: tuple[int, ...], past: int, is_kept: bool, joined: bool, threads: int, seed: int
) -> None:
    """The past is read as the numbers that it has, new rows are rounded where they are kept."""
    arrays, attrs = make_arrays(np.random.default_rng(seed), sizes, joined=joined, mask="added", past=past)
    halves = [array.astype(np.float16) for array in arrays[4:] if array is not None]
    arrays[4:] = [array.astype(F32) for array in halves]
    expected = reference_op(make_node("Attention", arrays, attrs, outputs=3), arrays)
    before: dict[int, Array] = {}
    node = make_node("Attention", arrays, attrs, outputs=3)
    if is_kept:
        assert node.graph is not None
        node.graph.set_inputs(node, node.inputs[:4])
    operands = arrays[:4] if is_kept else [*arrays[:4], *halves]
    for value in node.operands[4:]:
        value.desc = TensorDesc.plain(DType.FLOAT16, value.desc.shape)
    for index, result in enumerate(expected[1:], start=1):
        rows = result.shape[2] + (2 if is_kept else 0)
        if is_kept:
            before[index] = np.full((*result.shape[:2], rows, result.shape[3]), np.nan, np.float16)
            before[index][:, :, :past] = halves[index - 1]
        node.outputs[index].desc = TensorDesc.plain(DType.FLOAT16, (*result.shape[:2], rows, result.shape[3]))
    if is_kept:
        node.attrs.update({CACHE: rows, CACHED: past})
    assert list(supports_attention(node)) == []
    ours = run_op(node, operands, isa=isa, threads=threads, before=before)
    np.testing.assert_allclose(ours[0], expected[0], rtol=2e-5, atol=2e-5)
    for cache, result in zip(ours[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(cache[:, :, : result.shape[2]], result.astype(np.float16))
        assert np.isnan(cache[:, :, result.shape[2] :]).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("joined", [False, True])
def test_without_a_past_present_holds_the_new_keys(isa: str, joined: bool) -> None:
    arrays, attrs = make_arrays(np.random.default_rng(1), (2, 2, 3, 140, 5, 8, 9), joined=joined, mask="none")
    for past in ([], [None, *(np.empty((2, 2, 0, size), F32) for size in (8, 9))]):
        node = make_node("Attention", [*arrays, *past], attrs, outputs=3)
        ours, expected = run_op(node, [*arrays, *past], isa=isa), reference_op(node, arrays)
        np.testing.assert_allclose(ours[0], expected[0], rtol=2e-5, atol=2e-5)
        np.testing.assert_array_equal(ours[1], expected[1])
        np.testing.assert_array_equal(ours[2], expected[2])


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ([(1, 1, 3, 8), (1, 1, 3, 9)], "heads"),
        ([(1, 2, 3, 8), (1, 1, 3, 8)], "heads"),
        ([(1, 1, 3, 8), (1, 1, 4, 8)], "heads"),
    ],
)
def test_a_past_of_mismatched_shape_is_rejected(shapes: list[tuple[int, ...]], reason: str) -> None:
    arrays, _ = make_arrays(np.random.default_rng(0), (1, 1, 1, 4, 4, 8, 8), joined=False, mask="none")
    past = [np.zeros(shape, F32) for shape in shapes]
    node = make_node("Attention", [*arrays, None, *past])
    assert [reject.reason for reject in supports_attention(node)] == [reason]


@pytest.mark.parametrize("isa", ISAS)
def test_large_scores_do_not_overflow_across_blocks_of_keys(isa: str) -> None:
    rng = np.random.default_rng(3)
    q, v = (rng.standard_normal((1, 1, 300, 16)).astype(F32) for _ in range(2))
    k = rng.standard_normal((1, 1, 300, 16)).astype(F32) * np.linspace(1, 300, 300, dtype=F32)[:, None]
    node = make_node("Attention", [q, k, v], {"scale": 1.0})
    wide = [np.float64(array) for array in (q, k, v)]
    expected = reference_op(make_node("Attention", wide, {"scale": 1.0}), wide)[0]
    np.testing.assert_allclose(run_op(node, [q, k, v], isa=isa)[0], expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("isa", ISAS)
def test_fully_masked_queries_give_zeros_and_nan_stays_in_its_row(isa: str) -> None:
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((1, 2, 20, 8)).astype(F32) for _ in range(3))
    mask = np.ones((20, 20), bool)
    mask[3] = False
    q[0, 1, 5, 2] = np.nan
    node = make_node("Attention", [q, k, v, mask])
    y = run_op(node, [q, k, v, mask], isa=isa)[0]
    assert (y[:, :, 3] == 0).all()
    assert np.isnan(y[0, 1, 5]).all()
    assert np.isfinite(np.delete(y[0, 1], 5, axis=0)).all() and np.isfinite(y[0, 0]).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("size", [43, 100, 300])
def test_causal_queries_see_the_keys_up_to_their_own(isa: str, size: int) -> None:
    """Queries in several strips and items, keys in several blocks; from one key on, all scores are NaN."""
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 2, size, width)).astype(F32) for width in (24, 24, 19))
    node = make_node("Attention", [q, k, v], {"is_causal": 1})
    wide = [np.float64(array) for array in (q, k, v)]
    expected = reference_op(make_node("Attention", wide, {"is_causal": 1}), wide)[0]
    np.testing.assert_allclose(run_op(node, [q, k, v], isa=isa)[0], expected, rtol=2e-5, atol=2e-5)

    seen = size - 20
    k[0, 0, seen, 3] = np.nan
    y = run_op(node, [q, k, v], isa=isa)[0]
    assert np.isnan(y[0, 0, seen:]).all()
    np.testing.assert_allclose(y[0, 0, :seen], expected[0, 0, :seen], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(y[0, 1], expected[0, 1], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("heads", [(2, 2), (6, 2)])
@pytest.mark.parametrize("queries", [1, 2, 6, 7])
@pytest.mark.parametrize("v_head", [7, 219])
def test_few_queries_over_many_keys(isa: str, heads: tuple[int, int], queries: int, v_head: int) -> None:
    """Few queries read keys and values where they lie, in several blocks; more of them pack these."""
    rng = np.random.default_rng(6)
    q = rng.standard_normal((1, heads[0], queries, 37)).astype(F32)
    k, v = (rng.standard_normal((1, heads[1], 530, width)).astype(F32) for width in (37, v_head))
    node = make_node("Attention", [q, k, v], {"is_causal": 0})
    wide = [np.float64(array) for array in (q, k, v)]
    expected = reference_op(make_node("Attention", wide, {"is_causal": 0}), wide)[0]
    np.testing.assert_allclose(run_op(node, [q, k, v], isa=isa)[0], expected, rtol=2e-5, atol=2e-5)

    k[0, 0, 400, 3] = np.nan
    y = run_op(node, [q, k, v], isa=isa)[0]
    shared = heads[0] // heads[1]
    assert np.isnan(y[0, :shared]).all()
    np.testing.assert_allclose(y[0, shared:], expected[0, shared:], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"softcap": 2.0}, ""),
        ({"softcap": -1.0}, "attention-variant"),
        ({"softcap": np.inf}, "attention-variant"),
        ({"left_window_size": 3}, "attention-variant"),
        ({}, ""),
    ],
)
def test_uncommon_variants_are_decomposed(attrs: dict[str, object], reason: str) -> None:
    arrays, _ = make_arrays(np.random.default_rng(0), (1, 1, 1, 4, 4, 8, 8), joined=False, mask="none")
    assert [reject.reason for reject in supports_attention(make_node("Attention", arrays, attrs))] == (
        [reason] if reason else []
    )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("heads", [(2, 2), (6, 2)])
@pytest.mark.parametrize("is_causal", [0, 1])
@pytest.mark.parametrize("past", [0, 11])
def test_q_k_v_are_read_from_one_packed_input(isa: str, heads: tuple[int, int], is_causal: int, past: int) -> None:
    rng = np.random.default_rng(5)
    head, v_head, (q_heads, kv_heads) = 9, 20, heads
    ends = [q_heads * head, (q_heads + kv_heads) * head]
    x = rng.standard_normal((2, 37, ends[1] + kv_heads * v_head)).astype(F32)
    mask = rng.standard_normal((37, 37 + past)).astype(F32)
    before = [rng.standard_normal((2, kv_heads, past, size)).astype(F32) for size in (head, v_head)] if past else []
    attrs: dict[str, object] = {"q_num_heads": q_heads, "kv_num_heads": kv_heads, "is_causal": is_causal}
    parts = {**attrs, "head_size": head, "v_head_size": v_head}
    node = make_node("FusedAttention", [x, mask, *before], parts, outputs=3)
    apart = [*np.split(x, ends, axis=-1), mask, *before]
    expected = reference_op(make_node("Attention", apart, attrs, outputs=3), apart)
    ours = run_op(node, [x, mask, *before], isa=isa)
    np.testing.assert_allclose(ours[0], expected[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(ours[1], expected[1])
    np.testing.assert_array_equal(ours[2], expected[2])


ONE_HEAD: dict[str, ParamValue] = {
    "batch": 1, "heads": 1, "kv_heads": 1, "q_len": 1, "kv_len": 6, "past": 5, "head": 8, "v_head": 4, "scale": 1.0,
    "row": [8, 8, 4], "at": [8, 8, 4], "mask": [0, 0, 0],
}  # fmt: skip


@pytest.mark.parametrize(
    ("cache", "rows", "results", "reason"),
    [
        (6, (6, 6), 3, ""),
        (5, (6, 6), 3, "the cache is too small"),
        (-1, (6, 6), 3, "the cache is too small"),
        (9, (9, 9), 3, ""),
        (9, (8, 9), 3, "no room for all keys"),
        (9, (9, 8), 3, "no room for all keys"),
        (2**62, (9, 9), 3, "no room for all keys"),
        (6, (6, 6), 1, "left out"),
        (0, (6, 6), 3, "the past is too small"),
    ],
)
def test_a_cache_has_room_for_all_rows(cache: int, rows: tuple[int, int], results: int, reason: str) -> None:
    sources = [np.zeros(8, F32), np.zeros(8, F32), np.zeros(4, F32), None, None, None, None, None]
    outputs = [np.zeros(4, F32), np.zeros((rows[0], 8), F32), np.zeros((rows[1], 4), F32)][:results]
    params = ONE_HEAD | {"cache": cache}
    if not reason:
        load_task("attention", params, sources, *outputs)
        return
    with pytest.raises(Refused, match=reason):
        load_task("attention", params, sources, *outputs)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"softcap": -1.0}, "the softcap"),
        ({"softcap": float("nan")}, "the softcap"),
        ({"softcap": float("inf")}, "the softcap"),
        ({"half": 2}, "a flag"),
        ({"bf16": 2}, "a flag"),
        ({"bf16": -1}, "a flag"),
        ({"half": 1}, "no room for all keys"),
    ],
)
def test_a_record_that_the_kernel_does_not_take_is_refused(changed: dict[str, ParamValue], reason: str) -> None:
    sources = [np.zeros(8, F32), np.zeros(8, F32), np.zeros(4, F32), None, None, None, None, None]
    outputs = [np.zeros(4, F32), np.zeros((6, 8), F32), np.zeros((6, 4), F32)]
    with pytest.raises(Refused, match=reason):
        load_task("attention", ONE_HEAD | {"cache": 6} | changed, sources, *outputs)


# --- factors of bfloat16 -------------------------------------------------------------------------

FEW_ROWS = 6  # csrc/attention/attention.h


def run_rounded(
    arrays: list[Array | None], attrs: dict[str, object], isa: str, threads: int = 1, rows: list[str] | None = None
) -> Array:
    """Attention that the model computes in bfloat16."""
    node = make_node("Attention", arrays, attrs)
    node.attrs[MULTIPLIES_BF16] = 1
    return run_op(node, arrays, isa=isa, threads=threads, rows=rows)[0]


def of_rounded_factors(arrays: list[Array | None], attrs: dict[str, object], scale: float) -> tuple[Array, Array]:
    """The result where all but the weights of values are rounded, and how far rounding those may lead from it."""
    query, keys, values, *others = arrays
    assert query is not None and keys is not None and values is not None
    operands = [rounded(query * F32(scale)), rounded(keys), rounded(values)]
    attrs = attrs | {"scale": 1.0}
    exact, of_sizes = (
        reference_op(make_node("Attention", each, attrs), each)[0]
        for each in ([*operands, *others], [*operands[:2], np.abs(operands[2]), *others])
    )
    return exact, 2**-8 * of_sizes + 2e-5


@pytest.mark.parametrize("isa", BF16_ISAS)
@settings(max_examples=trials(40), deadline=None)
@given(
    sizes=sizes_of([7, 15, 33, 130], [1, 3, 16, 31, 257, 530], [1, 8, 17, 64], [1, 8, 19, 40]),
    joined=st.booleans(),
    mask=st.sampled_from(["none", "added", "kept"]),
    causal=st.booleans(),
    scale=st.sampled_from([0.3, 1.0, 4.0]),
    softcap=st.sampled_from([0.0, 0.0, 30.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_factors_of_bfloat16(
    isa: str, sizes: tuple[int, ...], joined: bool, mask: str, causal: bool, scale: float, softcap: float, seed: int
) -> None:
    arrays, attrs = make_arrays(np.random.default_rng(seed), sizes, joined=joined, mask=mask)
    attrs |= {"is_causal": int(causal), "softcap": softcap}
    rows: list[str] = []
    ours = run_rounded(arrays, attrs | {"scale": scale}, isa, rows=rows)
    assert rows == [f"attention_f32_{'avx512bf16' if isa == 'amx' else isa}"]
    expected, bound = of_rounded_factors(arrays, attrs, scale)
    assert (np.abs(ours - expected) <= bound).all()
    np.testing.assert_array_equal(ours, run_rounded(arrays, attrs | {"scale": scale}, isa, threads=3))


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize(("past", "half"), [(1, False), (16, False), (255, True), (300, True)])
def test_rounded_keys_of_earlier_steps(isa: str, past: int, half: bool) -> None:
    sizes = (2, 2, 2, 20, 23, 17, 19)
    arrays, attrs = make_arrays(np.random.default_rng(3), sizes, joined=False, mask="none", past=past)
    kept = [array.astype(np.float16 if half else F32) for array in arrays[-2:] if array is not None]
    ours = run_rounded([*arrays[:-2], *kept], attrs | {"scale": 0.5}, isa)
    whole = [np.concatenate([old, new], 2, dtype=F32) for old, new in zip(kept, arrays[1:3], strict=True)]
    expected, bound = of_rounded_factors([arrays[0], *whole], attrs, 0.5)
    assert (np.abs(ours - expected) <= bound).all()


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize(("queries", "is_rounded"), [(FEW_ROWS, False), (FEW_ROWS + 1, True)])
def test_factors_of_few_rows_stay_float32(isa: str, queries: int, is_rounded: bool) -> None:
    arrays, attrs = make_arrays(np.random.default_rng(4), (1, 2, 1, queries, 40, 16, 16), joined=False, mask="none")
    plain = run_op(make_node("Attention", arrays, attrs), arrays, isa=isa)[0]
    assert np.array_equal(run_rounded(arrays, attrs, isa), plain) is not is_rounded
    query, keys, values = arrays
    assert query is not None and keys is not None and values is not None
    y = run_rounded([query, keys[:, :, :1], values[:, :, :1]], attrs, isa)
    value = rounded(values[:, :, :1]) if is_rounded else values[:, :, :1]
    np.testing.assert_array_equal(y, np.broadcast_to(value, y.shape))

"""FusedAttention with a token mask gives the same bits as with the float mask computed from it, on every ISA."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.ops.attention.attention import TOKENS, supports_fused
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import ISAS
from tests.kernels.test_index_refusals import Params, load, zeros

F32 = np.float32
LOWEST = float(np.finfo(F32).min)


def mask_of(tokens: Array, fill: float, *, linear: bool) -> Array:
    """The additive mask that exported models compute for each key."""
    one, low = F32(1), F32(fill)
    with np.errstate(invalid="ignore"):
        mask = (one - tokens.astype(F32)) * low if linear else np.where(tokens > 0, F32(0), low)
    return np.asarray(mask[:, None, None, :])


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(30), deadline=None)
@given(
    batch=st.integers(1, 2), queries=st.sampled_from([1, 2, 15, 33, 130, 270]), heads=st.integers(1, 3),
    width=st.sampled_from([1, 8, 17]), past=st.sampled_from([0, 1, 16, 255, 256]), linear=st.booleans(),
    of_each=st.booleans(), later=st.booleans(), causal=st.booleans(), fill=st.sampled_from([-10000.0, -1.5, LOWEST]),
    dtype=st.sampled_from(["i4", "i8"]), threads=st.sampled_from([1, 3]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_token_mask_agrees_with_the_additive_mask(
    isa: str, batch: int, queries: int, heads: int, width: int, past: int, linear: bool, of_each: bool, later: bool,
    causal: bool, fill: float, dtype: str, threads: int, seed: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    keys = past + queries
    x = rng.standard_normal((batch, queries, 3 * heads * width)).astype(F32)
    before = [rng.standard_normal((batch, heads, past, width)).astype(F32) if past else None for _ in range(2)]
    # The lowest float must not overflow: (1 - token) * fill is finite only for tokens of 0 and 1.
    numbers = [0, 1] if fill == LOWEST else [-1, 0, 1, 2, 3]
    tokens = rng.choice(numbers, (batch if of_each else 1, keys)).astype(dtype)
    added = np.triu(np.full((queries, keys), -1e4, F32), past + 1) if later else None
    mask = mask_of(tokens, fill, linear=linear)
    whole = mask if added is None else mask + added
    attrs = {
        "q_num_heads": heads, "kv_num_heads": heads, "head_size": width, "v_head_size": width, "is_causal": int(causal),
    }  # fmt: skip
    plain = [x, np.ascontiguousarray(whole), *before]
    by_tokens = [x, added, *before, tokens]
    node = make_node("FusedAttention", by_tokens, {**attrs, "fill": fill, "linear": int(linear)}, outputs=3)
    assert not list(supports_fused(node))
    ours = run_op(node, by_tokens, isa=isa, threads=threads)
    expected = run_op(make_node("FusedAttention", plain, attrs, outputs=3), plain, isa=isa)
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_tokens_of_other_dtypes_are_rejected() -> None:
    arrays = [np.ones((1, 2, 12), F32), *[None] * (TOKENS - 1), np.ones((1, 2), "u1")]
    attrs = {"head_size": 4, "v_head_size": 4}
    assert [reject.reason for reject in supports_fused(make_node("FusedAttention", arrays, attrs))] == ["index-dtype"]


ONES: Params = {
    "batch": 2, "heads": 1, "kv_heads": 1, "q_len": 3, "kv_len": 5, "head": 4, "v_head": 4, "past": 2,
    "mask": [0, 0, 5], "scale": 1.0, "token_item": 8, "tokens_step": 5, "fill": -1.0,
}  # fmt: skip
OPERANDS = [zeros(2, 3, 4), zeros(2, 3, 4), zeros(2, 3, 4), zeros(3, 5), zeros(2, 2, 4), zeros(2, 2, 4)]


@pytest.mark.parametrize(
    ("change", "tokens", "reason"),
    [
        ({"token_item": 0}, np.zeros((2, 5), "i8"), "tokens are missing"),
        ({"token_item": 4}, np.zeros((2, 5), "i8"), "neither int32 nor int64"),
        ({"tokens_step": 4}, np.zeros((2, 5), "i8"), "tokens_step"),
        ({"tokens_step": -5}, np.zeros((2, 5), "i8"), "tokens_step"),
        ({"linear": 2}, np.zeros((2, 5), "i8"), "neither 0 nor 1"),
        ({}, np.zeros(9, "i8"), "too small"),
        ({"tokens_step": 0}, np.zeros(4, "i8"), "too small"),
    ],
)
def test_tokens_of_wrong_size_or_step_are_refused(change: Params, tokens: Array, reason: str) -> None:
    load("attention", ONES, with_tokens(np.zeros((2, 5), "i8")), [zeros(2, 3, 4)])
    with pytest.raises(_kernels.Refused, match=reason):
        load("attention", ONES | change, with_tokens(tokens), [zeros(2, 3, 4)])
    with pytest.raises(_kernels.Refused, match="bools"):
        load("attention", ONES, with_tokens(tokens, kept=np.zeros((3, 5), bool)), [zeros(2, 3, 4)])


def with_tokens(tokens: Array, kept: Array | None = None) -> list[Array | None]:
    q, k, v, added, *past = OPERANDS
    return [q, k, v, added if kept is None else None, kept, *past, tokens]

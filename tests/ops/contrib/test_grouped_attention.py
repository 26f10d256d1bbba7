"""GroupQueryAttention against ONNX Runtime: prompts, steps, windows, sinks."""

from typing import Any

import numpy as np
import pytest

from atcpy.errors import Unsupported
from tests.ops.contrib.cases import assert_as_in_ort, expanded, feeds_of, floats, make_model, results_of
from tests.parsers.onnx.canonical import Array, ops_of, run_ort

B, N, M, H = 2, 4, 2, 16
ATTRS = {"num_heads": N, "kv_num_heads": M}
ANGLES = np.arange(12)[:, None] / np.arange(1, H // 2 + 1)
CACHES = [np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)]


def case(new: int, cache: int | None, ends: list[int], total: int, *, packed: bool = False) -> list[Array | None]:
    """S, P, seqlens_k, total_sequence_length"""
    q, k, v = floats(B, new, N * H), floats(B, new, M * H), floats(B, new, M * H, seed=1)
    past = [None, None] if cache is None else [floats(B, M, cache, H), floats(B, M, cache, H, seed=3)]
    inputs = [np.concatenate([q, k, v], -1), None, None] if packed else [q, k, v]
    return [*inputs, *past, np.array(ends, np.int32), np.array(total, np.int32)]


PROMPT, STEP = (4, None, [3, 3], 4), (1, 3, [3, 2], 4)
CASES = [PROMPT, (4, 0, [3, 3], 4), (4, 6, [3, 3], 4), STEP, (1, 8, [5, 3], 6), (1, 2, [2, 2], 3)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("sizes", CASES, ids=str)
def test_prompts_and_steps(sizes: tuple[Any, ...], packed: bool) -> None:
    arrays = case(*sizes, packed=packed)
    assert_as_in_ort("GroupQueryAttention", arrays, ATTRS, outputs=3, symbolic=packed, constants=(6,))


@pytest.mark.parametrize("sizes", [PROMPT, STEP], ids=str)
def test_lengths_may_be_a_column(sizes: tuple[Any, ...]) -> None:
    arrays = [*case(*sizes), *CACHES]
    assert arrays[5] is not None
    arrays[5] = arrays[5].reshape(B, 1)
    assert_as_in_ort("GroupQueryAttention", arrays, {**ATTRS, "do_rotary": 1}, outputs=3, constants=(6, 7, 8))


@pytest.mark.parametrize("cache", [None, 6])
def test_prompts_with_padding(cache: int | None) -> None:
    arrays = case(4, cache, [3, 1], 4)
    model = make_model("GroupQueryAttention", arrays, ATTRS, outputs=3, constants=(6,))
    (want, *_), (got, *_) = run_ort(model, feeds_of(model, arrays)), results_of(model, arrays)[1]
    # Rows of padding are unspecified: ONNX Runtime leaves them uninitialized.
    np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1, :2], want[1, :2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [PROMPT, (1, 8, [5, 3], 6)], ids=str)
@pytest.mark.parametrize(
    "attrs",
    [{"scale": 0.2, "softcap": 0.5}, {"local_window_size": 2}, {"smooth_softmax": 1}, {"causal": 0},
     {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}],
    ids=str,
)  # fmt: skip
def test_each_attribute_agrees_with_onnx_runtime(sizes: tuple[Any, ...], attrs: dict[str, Any]) -> None:
    arrays = [*case(*sizes), *CACHES] if "do_rotary" in attrs else case(*sizes)
    assert_as_in_ort("GroupQueryAttention", arrays, {**ATTRS, **attrs}, outputs=3, constants=(6, 7, 8))


def test_biases_sinks_and_positions() -> None:
    for heads in (1, N):
        arrays = [*case(*STEP), None, None, None, floats(B, heads, 1, 4)]
        assert_as_in_ort("GroupQueryAttention", arrays, {**ATTRS, "softcap": 0.5}, outputs=3)
    arrays = [*case(*STEP), None, None, None, None, floats(N)]
    assert_as_in_ort("GroupQueryAttention", arrays, ATTRS, outputs=3)
    arrays = [*case(*STEP), *CACHES, np.array([[7], [2]])]
    assert_as_in_ort("GroupQueryAttention", arrays, {**ATTRS, "do_rotary": 1}, outputs=3)


def test_gpu_only_variants_are_refused() -> None:
    for attrs in ({"sliding_window_cache": 1}, {"qk_output": 1}):
        with pytest.raises(Unsupported):
            expanded(make_model("GroupQueryAttention", case(*STEP), {**ATTRS, **attrs}))


@pytest.mark.parametrize(
    ("sizes", "attrs", "symbolic", "is_direct"),
    [
        (PROMPT, {}, False, True),
        ((4, 0, [3, 3], 4), {}, False, True),
        (STEP, {}, False, True),
        ((1, 8, [5, 3], 6), {}, False, True),
        (PROMPT, {"softcap": 0.5}, False, True),
        (PROMPT, {"smooth_softmax": 1}, False, False),
        (PROMPT, {}, True, False),
    ],
)
def test_static_sizes_become_standard_attention(
    sizes: tuple[Any, ...], attrs: dict[str, Any], symbolic: bool, is_direct: bool
) -> None:
    arrays = [*case(*sizes), *CACHES]
    model = make_model(
        "GroupQueryAttention", arrays, {**ATTRS, "do_rotary": 1, **attrs}, constants=(6, 7, 8), symbolic=symbolic
    )
    ops = ops_of(expanded(model))
    assert ops.count("RotaryEmbedding") == 2
    assert (ops.count("Attention"), ops.count("Softmax")) == ((1, 0) if is_direct else (0, 1))

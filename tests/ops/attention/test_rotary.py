"""RotaryEmbedding: every head against the definition in float64, and ONNX's reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from tests.effort import trials
from tests.harness import make_node, reference_op, rejections, run_call, run_op
from tests.isa import ISAS

SIZES = st.sampled_from([1, 2, 3, 5])


def operands(batch: int, heads: int, rows: int, head: int, half: int, joined: bool) -> tuple[list[Array], dict]:
    rng = np.random.default_rng(batch + 7 * half)
    shape = (batch, rows, heads * head) if joined else (batch, heads, rows, head)
    arrays = [rng.standard_normal(shape).astype("f4"), *rng.standard_normal((2, batch, rows, half)).astype("f4")]
    attrs: dict[str, object] = {"num_heads": heads} if joined else {}
    return arrays, {**attrs, "rotary_embedding_dim": 2 * half}


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(40))
@given(
    batch=SIZES, heads=SIZES, rows=SIZES, half=st.sampled_from([1, 3, 8, 15, 16, 17, 40]), unrotated=st.integers(0, 3),
    joined=st.booleans(), interleaved=st.integers(0, 1),
)  # fmt: skip
def test_agrees_with_the_reference(
    isa: str, batch: int, heads: int, rows: int, half: int, unrotated: int, joined: bool, interleaved: int
) -> None:
    arrays, attrs = operands(batch, heads, rows, 2 * half + unrotated, half, joined)
    node = make_node("RotaryEmbedding", arrays, {**attrs, "interleaved": interleaved})
    np.testing.assert_allclose(
        run_op(node, arrays, isa=isa, threads=2)[0], reference_op(node, arrays)[0], rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("interleaved", [0, 1])
def test_may_run_in_place_and_propagates_nan(isa: str, interleaved: int) -> None:
    arrays, attrs = operands(2, 40, 9, 130, 64, joined=False)
    arrays[0][0, 0, 0, :5] = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    node = make_node("RotaryEmbedding", arrays, {**attrs, "interleaved": interleaved})
    with np.errstate(invalid="ignore"):
        expected = reference_op(node, arrays)[0]
    opdef = find_opdef(node)
    assert opdef is not None and opdef.lower is not None
    [call] = opdef.lower(node)
    memory = {node.output: arrays[0], **dict(zip(node.operands, arrays, strict=True))}
    run_call(call, memory, isa=isa, threads=2)
    np.testing.assert_allclose(arrays[0], expected, rtol=0, atol=1e-6)


def test_each_unsupported_variant_is_rejected_with_its_reason() -> None:
    arrays, attrs = operands(2, 3, 4, 8, 4, joined=False)
    halves = [array.astype("f2") for array in arrays]
    positions = [arrays[0], arrays[1][0], arrays[2][0], np.zeros((2, 4), np.int64)]
    cases = [
        (arrays, attrs, []),
        (halves, attrs, ["dtype"]),
        ([*halves[:1], *arrays[1:]], attrs, ["mixed-types"]),
        (positions, attrs, ["positions"]),
        ([arrays[0], arrays[1][:1], arrays[2][:1]], attrs, ["broadcast"]),
        ([array[:0] for array in arrays], attrs, ["empty"]),
        (arrays, {"rotary_embedding_dim": 9}, ["heads"]),
    ]
    for case_arrays, case_attrs, reasons in cases:
        assert rejections(make_node("RotaryEmbedding", case_arrays, case_attrs)) == reasons


def test_what_onnx_forbids_is_refused() -> None:
    arrays, _ = operands(2, 3, 4, 8, 4, joined=True)
    with pytest.raises(ModelInvalid, match="num_heads = 0"):
        make_node("RotaryEmbedding", arrays)
    with pytest.raises(ModelInvalid, match="of neither 3 nor 4 dims"):
        make_node("RotaryEmbedding", [arrays[0][0], *arrays[1:]], {"num_heads": 3})

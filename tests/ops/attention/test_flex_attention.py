"""FlexAttention is decomposed into MatMul, Softmax and the nodes of its bodies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array

HEAD = '<ir_version: 10, opset_import: ["" : 24, "ai.onnx.preview" : 1]>\n'
RNG = np.random.default_rng(1)
Q, K, V = (RNG.normal(size=shape).astype(np.float32) for shape in ((2, 6, 4, 8), (2, 3, 5, 8), (2, 3, 5, 7)))
BIAS = RNG.normal(size=(4, 5)).astype(np.float32)


def model(call: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""{HEAD} g (float[2,6,4,8] q, float[2,3,5,8] k, float[2,3,5,7] v, float[4,5] bias) => (float[2,6,4,7] y)
          {{ y = ai.onnx.preview.FlexAttention {call} (q, k, v) }}"""
    )


def attention(scale: float, shift: Array, factor: float) -> Array:
    keys, values = (np.repeat(array.astype(np.float64), 2, 1) for array in (K, V))
    scores = scale * Q.astype(np.float64) @ keys.swapaxes(-1, -2) + shift
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return factor * (weights / weights.sum(-1, keepdims=True)) @ values


SCORES = "graph = s (float[B,H,L,S] scores) => (float[B,H,L,S] out) { out = Add(scores, bias) }"
PROBS = "graph = p (float[B,H,L,S] probs) => (float[B,H,L,S] out) <float two = {2.0}> { out = Mul(probs, two) }"


@pytest.mark.parametrize(
    ("call", "scale", "shift", "factor"),
    [
        ("", 8**-0.5, 0 * BIAS, 1.0),
        ("<scale = 0.5>", 0.5, 0 * BIAS, 1.0),
        (f"<score_mod: {SCORES}>", 8**-0.5, BIAS, 1.0),
        (f"<scale = 0.25, score_mod: {SCORES}, prob_mod: {PROBS}>", 0.25, BIAS, 2.0),
    ],
    ids=["plain", "scaled", "a body that reads an input", "both bodies"],
)
def test_the_result_agrees_with_the_formula(
    call: str, scale: float, shift: Array, factor: float, tmp_path: Path
) -> None:
    report = atcpy.convert(model(call), tmp_path / "m.om")
    assert report.host_cpu_ops == ()
    (found,) = atcpy.backend.run_model(model(call), [Q, K, V, BIAS])
    np.testing.assert_allclose(found, attention(scale, shift, factor), rtol=1e-5, atol=1e-6)


def test_an_if_in_a_body_is_replaced_by_the_branch_taken() -> None:
    both = """graph = s (float[B,H,L,S] scores) => (float[B,H,L,S] out) <bool yes = {1}> { out = If(yes)
      <then_branch: graph = t () => (float[B,H,L,S] a) { a = Neg(scores) },
       else_branch: graph = e () => (float[B,H,L,S] b) { b = Abs(scores) }> }"""
    one = "graph = s (float[B,H,L,S] scores) => (float[B,H,L,S] out) { out = Neg(scores) }"
    results = [atcpy.backend.run_model(model(f"<score_mod: {body}>"), [Q, K, V, BIAS])[0] for body in (both, one)]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("[2,6,4,8] q", "[6,4,8] q", "EZ8888"),
        ("[2,3,5,8] k", "[1,2,3,5,8] k", "EZ8888"),
        ("[2,3,5,7] v", "[2,3,4,7] v", "EZ8888"),
        ("[2,6,4,8] q", "[2,7,4,8] q", "EZ8888"),
        ("(q, k, v)", "<scale = -1.0>(q, k, v)", "E13014"),
    ],
)
def test_operands_that_do_not_fit_are_refused(old: str, new: str, code: str, tmp_path: Path) -> None:
    text = """g (float[2,6,4,8] q, float[2,3,5,8] k, float[2,3,5,7] v) => (y)
        { y = ai.onnx.preview.FlexAttention(q, k, v) }"""
    assert atcpy.convert(onnx.parser.parse_model(HEAD + text), tmp_path / "m.om").output
    with pytest.raises(ModelInvalid) as caught:
        atcpy.convert(onnx.parser.parse_model(HEAD + text.replace(old, new)), tmp_path / "m.om")
    assert (caught.value.code, caught.value.where.node) == (code, "y")

"""Formats of constants that several nodes read."""

from __future__ import annotations

import pytest

from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model


@pytest.mark.parametrize(
    "text",
    [
        "m (float[1,16,4,4] x) => (float[1,16,4,4] y) <float[16,16,1,1] w> { a = Conv(x, w) y = Conv(a, w) }",
        "m (float[1,16,4,4] x) => (float[1,16,4,4] y) <float[16,16,1,1] w, float[16,1,1] k>"
        "{ a = Conv(x, w) t = Tanh(a) b = Mul(t, k) s = Sin(b) y = Mul(s, k) }",
    ],
)
def test_a_shared_constant_is_stored_once(text: str) -> None:
    compiled, _ = compile_model(model(text), convert_options(None))
    assert [node.name for node in compiled.graph.nodes if node.op_type == "Const" and not node.output.use_count] == []
    stored = {weight.offset: weight.nbytes for weight in compiled.weights}
    assert sum(stored.values()) == 16 * 16 * 4 + (16 * 4 if "k>" in text else 0)

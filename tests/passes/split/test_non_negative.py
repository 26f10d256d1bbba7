"""Operands that are never negative: which ops say so of their results, and where −0 counts."""

from __future__ import annotations

import pytest

from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model

SUM = "a = ReduceL1(x, axes)"


def applied(text: str, name: str) -> int:
    compiled, _ = compile_model(model(text), convert_options({}))
    return sum(record.applied for record in compiled.graph.decisions.passes if record.name == name)


@pytest.mark.parametrize(
    ("node", "count"), [("a = Relu(x)", 1), ("a = Abs(x)", 1), (SUM, 1), ("a = Neg(x)", 0), ("a = Tanh(x)", 0)]
)
def test_a_pool_pads_what_is_not_negative(node: str, count: int) -> None:
    constants = "int64[1] axes = {1}, int64[8] pads = {0,0,1,1,0,0,1,1}"
    text = f"""m (float[1,2,4,4] x) => (float[1,C,5,5] y) <{constants}> {{
        {node} p = Pad(a, pads) y = MaxPool<kernel_shape = [2, 2]>(p) }}"""
    assert applied(text, "PadPoolFusionPass") == count


@pytest.mark.parametrize(("node", "count"), [("a = Relu(x)", 0), ("a = Abs(x)", 1), (SUM, 1), ("a = Tanh(x)", 0)])
def test_a_root_needs_what_is_not_negative_zero(node: str, count: int) -> None:
    text = f"""m (float[2,3] x) => (float[N,M] y) <int64[1] axes = {{1}}, float half = {{0.5}}> {{
        {node} y = Pow(a, half) }}"""
    assert applied(text, "PowSqrtFusionPass") == count

"""A part of a model as a model of its own."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from atcpy.debug.submodel import IndexedModel
from tests.models_in_text import model as model_of

TEXT = """part (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
    a = Add(x, w)
    b = Relu(a)
    d = If(c) <then_branch = one () => (float[2] t) { t = Mul(a, w) },
               else_branch = two () => (float[2] e) { e = Neg(b) }>
    y = Sub(d, b)
}"""


@pytest.fixture
def source() -> IndexedModel:
    return IndexedModel(model_of(TEXT))


def test_what_bodies_capture_is_read(source: IndexedModel) -> None:
    assert source.inputs([2]) == ["c", "a", "b"]
    assert source.values([2]) == ["c", "a", "b", "d"]


def test_outputs_are_what_others_read(source: IndexedModel) -> None:
    assert source.outputs([0]) == ["a"]
    assert source.outputs([0, 1]) == ["a", "b"]  # the bodies of the If read `a`
    assert source.outputs([0, 1, 2, 3]) == ["y"]


def test_a_part_is_a_model_with_the_arrays_types(source: IndexedModel) -> None:
    arrays = {"a": np.array([-1, 3], np.float32), "c": np.array(True)}
    part = source.cut([1, 2], arrays)
    assert [value.name for value in part.graph.input] == ["a", "c"]
    assert [value.name for value in part.graph.output] == ["b", "d"]
    b, d = ReferenceEvaluator(part).run(None, arrays)
    assert b.tolist() == [0, 3]
    assert d.tolist() == [-1, 6]


def test_neighbours_are_reached_in_both_directions(source: IndexedModel) -> None:
    assert source.around([1], 0) == [1]
    assert source.around([1], 1) == [0, 1, 2, 3]
    assert source.around([0], 1) == [0, 1, 2]

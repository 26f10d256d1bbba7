"""Optional, OptionalGetElement and OptionalHasElement, chained."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import atcpy

X = np.array([1, 2], np.float32)
HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'


def run(text: str) -> tuple[object, ...]:
    return atcpy.backend.run_model(onnx.parser.parse_model(HEAD + text), [X])


def test_get_element_returns_the_wrapped_tensor() -> None:
    there, has = run(
        """g (float[2] x) => (float[2] y, bool has)
          { o = Optional(x) y = OptionalGetElement(o) has = OptionalHasElement(o) }"""
    )
    assert np.array_equal(there, X)
    assert has


def test_get_element_returns_the_wrapped_sequence() -> None:
    (found,) = run("g (float[2] x) => (optional(seq(float[2])) o) { s = SequenceConstruct(x, x) o = Optional(s) }")
    assert isinstance(found, list)
    assert [array.tolist() for array in found] == [[1, 2], [1, 2]]


@pytest.mark.parametrize("type_", ["float[2]", "seq(float[2])"])
def test_an_empty_optional_has_no_element(type_: str) -> None:
    empty, has = run(
        f"""g (float[2] x) => (optional({type_}) o, bool has)
          {{ o = Optional<type: type_proto = {type_}>() has = OptionalHasElement(o) }}"""
    )
    assert empty is None
    assert not has

"""--status_check=1: a run ends at the first node that computes NaN or infinity from numbers."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import ModelInvalid, Unsupported, UsageError
from tests.models_in_text import package

CHECKED = {"status_check": 1}
CHAIN = """g (float[1,3,4,4] x) => (float[1,5,4,4] y) <float[5,3,1,1] w> {
    [conv] c = Conv(x, w)  [root] r = Sqrt(c)  [last] y = Softmax<axis = 1>(r)
}"""
MASKED = """g (float[2,4] x, bool[2,4] keep) => (float[2,4] y) <float low = {-inf}> {
    [mask] m = Where(keep, x, low)  [soft] y = Softmax<axis = 1>(m)
}"""


def failed_at(content: bytes, **feeds: object) -> str:
    """The node at which a run ends; nothing if it comes to its end."""
    session = InferenceSession(content, threads=1)
    try:
        session.run(None, feeds)
    except ModelInvalid as error:
        assert error.code == "D0001"
        assert "--status_check=1" in error.what
        return error.where.node
    return ""


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_the_node_that_computes_nan_is_named(level: str) -> None:
    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(1, 3, 4, 4)
    content = package(CHAIN, {**CHECKED, "oo_level": level})
    assert "root" in failed_at(content, x=x)
    assert failed_at(content, x=np.zeros_like(x)) == ""
    assert failed_at(package(CHAIN, {"oo_level": level}), x=x) == ""


def test_counts_are_those_of_the_values_and_not_of_their_padding() -> None:
    """Log of the zeros that fill up a block of channels is infinite, and no value."""
    text = "g (float[1,3,4,4] x) => (float[1,5,4,4] y) <float[5,3,1,1] w> { c = Conv(x, w)  a = Abs(c)  y = Log(a) }"
    x = np.ones((1, 3, 4, 4), np.float32)
    content = package(text, {**CHECKED, "oo_level": "O1"})
    assert failed_at(content, x=x) == ""
    [y] = InferenceSession(content).run(None, {"x": x})
    assert np.isfinite(y).all()


def test_overflow_of_float16_is_found() -> None:
    text = "g (float[4] x) => (float[4] y) { p = Mul(x, x)  [half] h = Cast<to = 10>(p)  y = Cast<to = 1>(h) }"
    content = package(text, {**CHECKED, "oo_level": "O0"})
    assert failed_at(content, x=np.full(4, 300, np.float32)) == "half"
    assert failed_at(content, x=np.full(4, 3, np.float32)) == ""


def test_infinity_of_operands_explains_infinity_and_not_nan() -> None:
    x = np.ones((2, 4), np.float32)
    keep = np.array([[True, False, True, True]] * 2)
    content = package(MASKED, {**CHECKED, "oo_level": "O0"})
    assert failed_at(content, x=x, keep=keep) == ""
    keep[1] = False
    assert failed_at(content, x=x, keep=keep) == "soft"
    assert failed_at(content, x=x * np.inf, keep=keep[:1].repeat(2, 0)) == "soft"  # inf - inf
    assert failed_at(content, x=x * np.nan, keep=keep) == ""


def test_views_hand_on_what_they_are_given() -> None:
    text = """g (float[4] x) => (float[4] y) { s = Constant<value_ints = [2, 2]>() t = Constant<value_ints = [4]>()
        a = Reshape(x, s)  [n] b = Neg(a)  y = Reshape(b, t) }"""
    content = package(text, {**CHECKED, "oo_level": "O0"})
    assert failed_at(content, x=np.float32([1, np.inf, np.nan, 2])) == ""


def test_each_gear_is_checked() -> None:
    text = CHAIN.replace("float[1,", "float[N,")
    content = package(text, {**CHECKED, "input_shape": "x:-1,3,4,4", "dynamic_batch_size": "1,2"})
    for batch in (1, 2):
        assert "root" in failed_at(content, x=np.linspace(-1, 1, 48 * batch, dtype=np.float32).reshape(batch, 3, 4, 4))


def test_nodes_of_the_host_are_checked() -> None:
    text = "g (float[1,2,2] x) => (float[1,2,2] y) { [d] a = DFT<inverse = 1>(x)  [r] y = Log(a) }"
    content = package(text, {**CHECKED, "oo_level": "O0"})
    assert failed_at(content, x=np.full((1, 2, 2), 3e38, np.float32)) == "d"
    assert failed_at(content, x=np.zeros((1, 2, 2), np.float32)) == "r"


def test_outputs_of_the_caller_are_filled_as_without_a_check() -> None:
    x = np.zeros((1, 3, 4, 4), np.float32)
    out = np.empty((1, 5, 4, 4), np.float32)
    [y] = InferenceSession(package(CHAIN, CHECKED)).run(None, {"x": x}, out=[out])
    assert y is out
    np.testing.assert_array_equal(y, InferenceSession(package(CHAIN)).run(None, {"x": x})[0])


def test_shapes_must_be_known() -> None:
    with pytest.raises(Unsupported) as caught:
        package(CHAIN.replace("float[1,", "float[N,"), CHECKED)
    assert (caught.value.code, caught.value.where.option) == ("E10055", "status_check")


def test_iterations_within_a_session_are_refused() -> None:
    session = InferenceSession(package("g (float[4] x) => (float[4] y) { y = Exp(x) }", CHECKED))
    with pytest.raises(UsageError) as caught:
        session.run_iterations({"x": np.zeros(4, np.float32)}, 2)
    assert caught.value.code == "E13025"

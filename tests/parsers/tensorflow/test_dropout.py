"""Random dropout: removed if it drops nothing, else refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from tests.parsers.tensorflow.graphs import TfBuilder, Type

X = np.array([[1.5, -2, 3], [0, 4, -0.5]], np.float32)


def drawn(g: TfBuilder, x: str) -> str:
    return g.add("RandomUniform", g.add("Shape", x), dtype=Type("float32"), seed=3)


def by_floor(g: TfBuilder, x: str, keep: str) -> str:
    """Dropout as TensorFlow 1 writes it."""
    scaled = g.add("Add", g.add("Mul", drawn(g, x), g.const(np.float32(1))), g.const(np.float32(0)))
    kept = g.add("Floor", g.add("Add", keep, scaled))
    return g.add("Mul", g.add("RealDiv", x, keep), kept)


def by_rate(g: TfBuilder, x: str, keep: str) -> str:
    """Dropout as TensorFlow 2 writes it."""
    one = g.const(np.float32(1))
    kept = g.add("GreaterEqual", drawn(g, x), g.add("Sub", one, keep))
    return g.add("Mul", g.add("Mul", x, g.add("RealDiv", one, keep)), g.add("Cast", kept, DstT=Type("float32")))


@pytest.mark.parametrize("dropout", [by_floor, by_rate])
def test_a_dropout_that_drops_nothing_is_removed(tmp_path: Path, dropout) -> None:  # type: ignore[no-untyped-def]
    g = TfBuilder()
    x = g.input("x", "float32", (None, 3))
    keep = g.add("PlaceholderWithDefault", g.const(np.float32(1)), name="keep", dtype=Type("float32"))
    (y,) = g.run(tmp_path, {"x": X}, g.add("Neg", dropout(g, x, keep)))
    np.testing.assert_array_equal(y, -X)


def test_a_rate_with_a_default_becomes_a_constant(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (None, 3))
    keep = g.add("PlaceholderWithDefault", g.const(np.float32(1)), name="keep", dtype=Type("float32"))
    g.add("Neg", by_rate(g, x, keep), name="y")
    (tmp_path / "m.pb").write_bytes(g.graph.SerializeToString())
    warnings = atcpy.convert(tmp_path / "m.pb", tmp_path / "p.om").warnings
    assert [(warning.code, '"keep"' in warning.message) for warning in warnings] == [("W0009", True)]
    assert atcpy.InferenceSession(tmp_path / "p.om").get_overridable_initializers() == []


@pytest.mark.parametrize("dropout", [by_floor, by_rate])
def test_an_active_dropout_is_refused(tmp_path: Path, dropout) -> None:  # type: ignore[no-untyped-def]
    g = TfBuilder()
    y = dropout(g, g.input("x", "float32", (2, 3)), g.const(np.float32(0.9)))
    with pytest.raises(AtcError, match="random numbers") as caught:
        g.run(tmp_path, {"x": X}, y)
    assert caught.value.code == "E10055"


def test_a_random_output_is_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    g.add("Identity", drawn(g, g.input("x", "float32", (2, 3))), name="y")
    with pytest.raises(AtcError, match='"y:0" is a random number'):
        g.run(tmp_path, {"x": X}, "y")


@pytest.mark.parametrize("is_carried", [False, True])
def test_loops_accept_random_numbers_only_for_an_inactive_dropout(tmp_path: Path, is_carried: bool) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (2, 3))
    types = {"i": "int32", "x": "float32", "r": "float32"}
    cond, body = TfBuilder(), TfBuilder()
    less = g.function("less", cond, types, cond.add("Less", "i", cond.const(3, "int32")))
    kept = body.add("Cast", body.add("GreaterEqual", "r", body.const(np.float32(0))), DstT=Type("float32"))
    result = body.add("AddV2", body.add("Mul", "x", kept), body.const(np.float32(1)))
    again = body.add("Neg", "r") if is_carried else "r"
    body_function = g.function("body", body, types, body.add("AddV2", "i", body.const(1, "int32")), result, again)
    g.add("While", g.const(0, "int32"), x, drawn(g, x), name="y", cond=less, body=body_function)
    if is_carried:
        with pytest.raises(AtcError, match="random numbers"):
            g.run(tmp_path, {"x": X}, "y:1")
    else:
        np.testing.assert_array_equal(g.run(tmp_path, {"x": X}, "y:1")[0], X + 3)


@pytest.mark.parametrize("training", [False, True])
def test_an_active_dropout_in_a_v1_branch_never_taken_is_accepted(tmp_path: Path, training: bool) -> None:
    """Its random numbers depend on the branch only through control edges."""
    g = TfBuilder()
    x = g.input("x", "float32", (2, 3))
    is_training = g.add("PlaceholderWithDefault", g.const(np.array(training)), name="training", dtype=Type("bool"))
    switch = g.add("Switch", x, is_training, name="switch")
    g.add("Switch", is_training, is_training, name="pivot")
    yes = g.add("Identity", "pivot:1", name="yes")
    rate, shape = g.const(np.float32(0.5), name="rate"), g.const([2, 3], "int32", name="shape")
    for item in g.graph.node:
        if item.name in (rate, shape):
            item.input.append(f"^{yes}")
    kept = g.add("GreaterEqual", g.add("RandomUniform", shape, dtype=Type("float32")), rate)
    dropped = g.add("Mul", f"{switch}:1", g.add("Cast", kept, DstT=Type("float32")))
    merge = g.add("Merge", g.add("Identity", switch), dropped)
    if training:
        with pytest.raises(AtcError, match="random numbers"):
            g.run(tmp_path, {"x": X}, merge)
    else:
        np.testing.assert_array_equal(g.run(tmp_path, {"x": X}, merge)[0], X)

"""Packages whose plans for all sizes are not what they say."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import PackageCorrupt
from atcpy.ir import CompiledModel, SymbolicDim, SymbolicPlan
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model

TEXT = "m (float[b,n] x, float[n] c) => (float[b,n] y) { t = Exp(x) u = Transpose(t) v = Transpose(u) y = Add(v, c) }"
FEEDS = {"x": np.zeros((2, 3), np.float32), "c": np.ones(3, np.float32)}
Change = Callable[[SymbolicPlan], SymbolicPlan]


def compiled() -> CompiledModel:
    return compile_model(model(TEXT), convert_options({}))[0]


def symbols(*dims: SymbolicDim) -> Change:
    return lambda plan: replace(plan, symbols=dims)


def program(change: Callable[[bytes], bytes]) -> Change:
    return lambda plan: replace(plan, program=change(plan.program))


def other_output(blob: bytes) -> bytes:
    """The slot of the output's last dim, which ends a program, becomes that of a symbol."""
    return blob[:-4] + struct.pack("<I", 0)


B, N = SymbolicDim("b", 0, 0), SymbolicDim("n", 0, 1)
BROKEN: dict[str, Change] = {
    "no such input": symbols(B, SymbolicDim("n", 2, 0)),
    "no such axis": symbols(B, SymbolicDim("n", 1, 1)),
    "a negative axis": symbols(B, SymbolicDim("n", 0, -1)),
    "too few symbols": symbols(B),
    "too many symbols": symbols(B, N, N),
    "no program": program(lambda blob: b"\0"),
    "a program that is cut": program(lambda blob: blob[:-4]),
    "another output": program(other_output),
    "fewer tasks": lambda plan: replace(plan, tasks=plan.tasks[:-1]),
}


def test_the_package_as_it_is() -> None:
    session = InferenceSession(writer.to_bytes(compiled()), threads=1)
    [y] = session.run(None, FEEDS)
    np.testing.assert_array_equal(y, np.full((2, 3), 2, np.float32))
    assert session.shape_cache is not None and session.shape_cache.misses == 0


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_broken_plans_are_refused(change: Change) -> None:
    good = compiled()
    plans = tuple(change(plan) for plan in good.plans)
    with pytest.raises(PackageCorrupt) as caught:
        InferenceSession(writer.to_bytes(replace(good, plans=plans)), threads=1).run(None, FEEDS)
    assert caught.value.code == "P0005"


@pytest.mark.parametrize(
    "text", ["", "[", "{}", "[[]]", "[[[1, 0, 0]]]", '[[["b", 0]]]', '[[["b", 0, 0.5]]]', "[" * 100_000]
)
def test_symbols_that_are_no_list_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        writer, "_json", lambda value: text if value == [[("b", 0, 0), ("n", 0, 1)]] * len(value) else "{}"
    )
    good = replace(compiled(), plans=compiled().plans[:1])
    with pytest.raises(PackageCorrupt):
        InferenceSession(writer.to_bytes(good), threads=1)

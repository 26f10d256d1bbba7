"""Table-driven tests of single ops: all cases of a table are converted and run in one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.parsers.tensorflow.graphs import Array, TfBuilder

MODES = ("known", "sizes unknown", "computed")  # what is static: sizes and operands, only operands, neither
TOLERANCES = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-6, "float64": 1e-12}


@dataclass(frozen=True, slots=True)
class Const:
    """An input that is a Const node in every mode."""

    array: Any
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Either:
    """An input that is a Const node except in the mode "computed"."""

    array: Array


@dataclass(frozen=True, slots=True)
class Case:
    """One node: its inputs, the expected outputs (arrays, or a function of the inputs), and its attributes."""

    op: str
    inputs: Sequence[Any]
    expected: Any
    attrs: dict[str, Any] = field(default_factory=dict)
    is_dynamic: bool = False
    tolerance: float | None = None
    modes: Sequence[str] = MODES

    def results(self) -> list[Array]:
        """The expected outputs."""
        if isinstance(self.expected, Callable):
            with np.errstate(all="ignore"):
                results = self.expected(
                    *[item.array if isinstance(item, Const | Either) else item for item in self.inputs]
                )
        else:
            results = self.expected
        return [np.asarray(item) for item in (results if isinstance(results, tuple | list) else (results,))]


def check(folder: Path, cases: Sequence[Case], mode: str = "known") -> None:
    """Run all cases that have the mode in one graph, and compare their outputs."""
    cases = [case for case in cases if mode in case.modes]
    g = TfBuilder()
    feeds: dict[str, Array] = {}
    outputs: list[str] = []
    for index, case in enumerate(cases):
        inputs = []
        for input_index, item in enumerate(case.inputs):
            if isinstance(item, Const) or (isinstance(item, Either) and mode != "computed"):
                inputs.append(g.const(item.array, item.dtype if isinstance(item, Const) else ""))
                continue
            name = f"x{index}_{input_index}"
            array = feeds[name] = np.asarray(item.array if isinstance(item, Either) else item)
            is_known = isinstance(item, Either) or not (case.is_dynamic or mode != "known")
            inputs.append(g.input(name, str(array.dtype), array.shape if is_known else [None] * array.ndim))
        node = g.add(case.op, *inputs, name=f"y{index}", **case.attrs)
        outputs += [f"{node}:{output}" for output in range(len(case.results()))]
    results = iter(g.run(folder, feeds, *outputs))
    for index, case in enumerate(cases):
        for output, expected in enumerate(case.results()):
            _compare(f"case {index}, {case.op}:{output} {case.attrs}, {mode}", next(results), expected, case.tolerance)


def _compare(what: str, result: Array, expected: Array, tolerance: float | None) -> None:
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape), what
    if expected.dtype.kind not in "fV":
        np.testing.assert_array_equal(result, expected, what)
        return
    bound = TOLERANCES[str(expected.dtype)] if tolerance is None else tolerance
    np.testing.assert_allclose(result.astype(np.float64), expected.astype(np.float64), bound, bound * 1e-3, True, what)


def ints(*numbers: Any, dtype: str = "int32") -> Array:
    """An integer array: a scalar for one number, else 1-D."""
    return np.array(numbers[0] if len(numbers) == 1 else numbers, dtype)


BFLOAT16 = ml_dtypes.bfloat16

"""The cases that are traced beside the general one: their sizes, and their order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from atcpy.ir import DType, Sym, TensorDesc
from atcpy.ir.symbolic import Tracer
from atcpy.stages.cases import Cases
from atcpy.stages.symbols import Case, Symbols, Untraceable


def traced(ask: Callable[[int, int], object], case: Case | None = None) -> Symbols:
    """The symbols of a trace of `x [b, s]` that asked something about its sizes: 5 and 352, or those of a case."""
    symbols = Symbols(case or Case(), {}, Tracer())
    symbols.add_dims(0, TensorDesc.plain(DType.FLOAT32, (Sym("b"), Sym("s"))))
    ask(symbols.sizes["b"], symbols.sizes["s"])
    return symbols


def sizes(symbols: Symbols) -> list[int]:
    return [case.sizes["s"] for question, case in symbols.beyond() if question is not None]


@pytest.mark.parametrize(
    ("ask", "border"),
    [
        (lambda b, s: s // 64 < 5, 319),
        (lambda b, s: s // 64 < 6, 384),
        (lambda b, s: s // 1024 == 0, 1024),
        (lambda b, s: s // 8 == 44, 351),
        (lambda b, s: (s - 1) // 351 == 1, 351),
        (lambda b, s: s * s < 352 * 352, 351),
        (lambda b, s: s * s < 353 * 353, 353),
    ],
)
def test_a_case_is_next_to_the_example_on_the_other_side(ask: Callable[[int, int], object], border: int) -> None:
    symbols = traced(ask)
    found = sizes(symbols)
    assert border in found[:2]
    [guard] = symbols.tracer.guards.values()
    assert not any(symbols.tracer.all_hold([guard], {"b": 5, "s": size}) for size in found)


def test_sizes_out_of_bounds_are_no_cases() -> None:
    symbols = Symbols(Case(), {}, Tracer())
    symbols.add_dims(0, TensorDesc.plain(DType.FLOAT32, (Sym("b"), Sym("s"))), (1, 8, 330, 400))
    assert symbols.sizes["s"] // 64 >= 5
    assert not sizes(symbols)


def test_what_resembles_a_failure_comes_last() -> None:
    def ask(b: int, s: int) -> object:
        return s < 32, s // 64 < 5, b == 2

    cases = Cases(traced(ask))
    order: list[int] = []
    for question, case in cases:
        if question is None:
            continue
        order.append(case.sizes["s"])
        if order[-1] < 32:
            cases.refuse(question, case, Untraceable("too short", tracer=traced(ask, case).tracer))
    assert order[0] < 32 and order[1] == 319
    last = order.index(next(size for size in order[1:] if size < 32))
    assert len(order) > last + 3 and all(size < 32 for size in order[last:])

"""Symbolic sizes against the numbers that they stand for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.ir.symbolic import (
    NoSizesLeft,
    SizesMustAgree,
    Terms,
    Tracer,
    agree,
    always_below,
    below,
    example,
    is_symbolic,
    maximum,
    minimum,
    same,
    same_shape,
    scaled,
    terms_of,
)

VALUES = (1, 2, 3, 7, 16, 17)


def symbols(low: int = 1) -> tuple[Tracer, int, int]:
    tracer = Tracer()
    return tracer, tracer.symbol("b", low, 2**40, 5), tracer.symbol("s", low, 2**40, 32)


def check(tracer: Tracer, size: int, expected: Callable[[int, int], int]) -> None:
    for b, s in product(VALUES, VALUES):
        if tracer.all_hold(tracer.guards.values(), {"b": b, "s": s}):
            assert tracer.value(size, {"b": b, "s": s}) == expected(b, s), (size, b, s)


EXPRESSIONS: tuple[Callable[[int, int], int], ...] = (
    lambda b, s: b * s + 3 - s * b,
    lambda b, s: (b + s) * (b - s),
    lambda b, s: (2 * s + 4) // 2,
    lambda b, s: (s + 31) // 32 * 32,
    lambda b, s: -(-s // 4),
    lambda b, s: (s - 1) // 2 + 1,
    lambda b, s: (7 * s) % 4 + 4 * b % 4,
    lambda b, s: b * s // b,
    lambda b, s: (b * s * 64) // (s * 8),
    lambda b, s: (100 - s) // 7,
    lambda b, s: 64 // s + 64 % s,
    lambda b, s: divmod(s, 3)[1] * divmod(9, b)[0],
    lambda b, s: abs(b - s),
    lambda b, s: max(b, s) - min(b, s, 4),
    lambda b, s: (b - s) // 3,
    lambda b, s: -((s - 1 - -1) // -1),
    lambda b, s: max(0, -((b - s) // -2)),
    lambda b, s: (b - s) % -3 - (2 * b - 7) % 5,
    lambda b, s: max(0, -(b // (0 - s))),
)


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_arithmetic_is_that_of_the_numbers(number: int) -> None:
    tracer, b, s = symbols()
    size = EXPRESSIONS[number](b, s)
    if is_symbolic(size):
        check(tracer, size, EXPRESSIONS[number])
        assert example(size) == EXPRESSIONS[number](5, 32)
    else:
        assert size == EXPRESSIONS[number](5, 32)


@given(
    st.lists(
        st.tuples(st.sampled_from(["+", "-", "*", "//", "%", "max", "min"]), st.integers(0, 7), st.integers(-4, 9)),
        max_size=9,
    )
)
def test_random_arithmetic_is_that_of_the_numbers(steps: list[tuple[str, int, int]]) -> None:
    def run(b: int, s: int) -> int:
        found = [b, s]
        for sign, index, number in steps:
            left = found[index % len(found)]
            match sign:
                case "+":
                    found.append(left + found[-1] * number)
                case "-":
                    found.append(left - found[-1] + number)
                case "*":
                    found.append(left * (number % 3 + 1))
                case "//":
                    found.append(left // (number or 1))
                case "%":
                    found.append(left % (number or 1))
                case "max":
                    found.append(max(left, found[-1] - number))
                case _:
                    found.append(min(left, number))
        return found[-1]

    tracer, b, s = symbols()
    size = run(b, s)
    if is_symbolic(size):
        check(tracer, size, run)
        low, high = tracer.range(terms_of(size))
        [bound] = tracer.upper_bounds([size], open_from=2**41)
        assert bound <= high
        for first, second in product(VALUES, VALUES):
            if tracer.all_hold(tracer.guards.values(), {"b": first, "s": second}):
                assert low <= run(first, second) <= bound
    else:
        for first, second in product(VALUES, VALUES):
            if tracer.all_hold(tracer.guards.values(), {"b": first, "s": second}):
                assert run(first, second) == size


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda b, s: b * s > 0, True),
        (lambda b, s: b * s - s < 0, False),
        (lambda b, s: b == 0, False),
        (lambda b, s: 64 * b == 64 * b, True),
        (lambda b, s: b + 1 > b, True),
        (lambda b, s: 0 in (b, s), False),
        (lambda b, s: s // 2 >= 0, True),
        (lambda b, s: s % 4 < 4, True),
        (lambda b, s: b <= 2**40, True),
        (lambda b, s: bool(b), True),
    ],
)
def test_what_holds_for_all_sizes_needs_no_guard(ask: Callable[[int, int], bool], answer: bool) -> None:
    tracer, b, s = symbols()
    assert ask(b, s) is answer
    assert not tracer.guards


@pytest.mark.parametrize("relation", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize("number", [4, 5, 6])
def test_a_guard_holds_where_the_answer_is_the_same(relation: Callable[[int, int], bool], number: int) -> None:
    tracer, b, _ = symbols()
    answer = relation(b, number)
    assert answer is relation(5, number)
    for value in (1, 3, 4, 5, 6, 7, 9):
        assert tracer.all_hold(tracer.guards.values(), {"b": value, "s": 1}) is (relation(value, number) is answer)


def test_a_number_that_is_needed_is_fixed_by_a_guard() -> None:
    for use in (lambda s: list(range(s)), lambda s: np.array([s], np.int64), lambda s: [0] * s, float, lambda s: 7 / s):
        tracer, _, s = symbols()
        use(s)
        holds = [value for value in (31, 32, 33) if tracer.all_hold(tracer.guards.values(), {"b": 1, "s": value})]
        assert holds == [32]


def test_guards_on_a_symbol_narrow_its_range() -> None:
    tracer, b, _ = symbols()
    assert b != 1
    count = len(tracer.guards)
    assert b > 1 and b != 1 and not b < 2
    assert len(tracer.guards) == count
    assert not b > 9
    assert b <= 9 and b < 10
    assert len(tracer.guards) == count + 1


def test_questions_that_need_no_answer_for_some_sizes() -> None:
    tracer, b, s = symbols()
    assert same(b * s, s * b) and not same(b, 1) and not same(b, s) and same(3, 3) and not same(3, b)
    assert same_shape((b, 4), (b, 4)) and not same_shape((b,), (s,)) and not same_shape((b,), (b, 1))
    assert same_shape(None, None) and not same_shape(None, ())
    assert below(s, b * s) and not below(b * s, s) and not below(s, s) and below(2, 3)
    assert always_below(s, b * s + 1) and not always_below(s, b * s)
    assert always_below(2, 3) and not always_below(3, 3) and not always_below(s, 4097)
    assert not tracer.guards
    assert below(b, s)
    assert tracer.guards


def test_sizes_that_must_agree() -> None:
    tracer, b, s = symbols()
    assert agree(3, 3) and not agree(3, 4) and agree(b * s, s * b)
    assert agree(s, 32)  # the example says so: a guard
    assert [guard.answer for guard in tracer.guards.values()] == [True]
    with pytest.raises(SizesMustAgree):
        agree(b, s)


def test_sizes_of_two_compilations_are_never_equal() -> None:
    (first, b, _), (second, other, _) = symbols(), symbols()
    assert b != other and hash(b) == hash(other)
    assert not first.guards and not second.guards


def test_depth_costs_no_recursion() -> None:
    tracer, _, s = symbols()
    for _ in range(5000):
        s = (s + 1) // 2 * 2 - 1
    assert tracer.value(s, {"b": 1, "s": 9}) == 9
    assert len(str(s)) < 100


def test_an_equality_is_asked_without_factors_that_are_never_0() -> None:
    tracer = Tracer()
    b, s, n = (tracer.symbol(name, low, 100, size) for name, low, size in (("b", 1, 5), ("s", 1, 7), ("n", 0, 3)))
    assert tracer.simplified(terms_of(2 * b * s - 2 * b)) == terms_of(1 - s)
    assert tracer.simplified(terms_of(b - b * s)) == terms_of(1 - s)
    assert tracer.simplified(terms_of(n * s - n)) in (terms_of(n * s - n), terms_of(n - n * s)), "n may be 0"
    assert tracer.simplified(terms_of(b * s)) == terms_of(1)
    assert b * s != b and 3 * b != 3 * b * s
    assert len(tracer.guards) == 1


def test_sizes_that_cannot_be_equal_do_not_agree() -> None:
    tracer = Tracer()
    s = tracer.symbol("s", 1, 100, 7)
    assert not agree(s, 2 * s)
    with pytest.raises(SizesMustAgree):
        agree(s * s, 2 * s)


def test_what_is_assumed_is_a_guard() -> None:
    difference: Terms = ()
    for _ in range(2):
        tracer = Tracer([difference] if difference else [])
        a, b, c = (tracer.symbol(name, 1, 100, size) for name, size in (("a", 5), ("b", 7), ("c", 3)))
        if not difference:
            with pytest.raises(SizesMustAgree) as caught:
                agree(a, b * c)
            difference = caught.value.difference
        else:
            assert agree(a, b * c) and agree(b * c, a)
            assert tracer.all_hold(tracer.guards.values(), {"a": 6, "b": 2, "c": 3})
            assert not tracer.all_hold(tracer.guards.values(), {"a": 5, "b": 2, "c": 3})


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_no_value_is_above_the_upper_bound(number: int) -> None:
    tracer = Tracer()
    sizes = tracer.symbol("b", 2, 9, 5), tracer.symbol("s", 3, 20, 7)
    [bound] = tracer.upper_bounds([EXPRESSIONS[number](*sizes)], open_from=2**40)
    values = [
        EXPRESSIONS[number](b, s)
        for b, s in product(range(2, 10), range(3, 21))
        if tracer.all_hold(tracer.guards.values(), {"b": b, "s": s})
    ]
    assert max(values) <= bound


def test_upper_bounds_are_those_of_the_dims() -> None:
    tracer = Tracer()
    b, s, n = tracer.symbol("b", 1, 8, 5), tracer.symbol("s", 2, 100, 7), tracer.symbol("n", 1, 2**40, 9)
    three = tracer.symbol("three", 3, 3, 3)
    sizes = [
        three * n,
        b * s * 4,
        -(-s // 64) * 64,
        200 - s,
        5,
        maximum(b, s),
        minimum(n, 64),
        n,
        b * n,
        n // 1024,
        n - n + s,
    ]
    expected = [inf, 3200, 128, 198, 5, 100, 64, inf, inf, inf, 100]
    assert tracer.upper_bounds(sizes, open_from=2**40) == expected
    assert b <= 3 or s < 20  # guards that the examples keep: s < 20
    assert tracer.upper_bounds([b * s, s // 2], open_from=2**40) == [8 * 19, 9]
    assert n < 50
    assert tracer.upper_bounds([n], open_from=2**40) == [49]


@pytest.mark.parametrize(("a", "b"), [(1, 50), (50, 1), (7, 7), (101, 3)])
def test_the_smaller_and_the_larger_size(a: int, b: int) -> None:
    tracer = Tracer()
    x, y = tracer.symbol("x", 1, 200, 9), tracer.symbol("y", 1, 100, 4)
    cases = ((minimum(x, y), min(a, b)), (maximum(x, y), max(a, b)), (maximum(x, 0), a), (minimum(y, 0), 0))
    for found, expected in cases:
        assert tracer.value(found, {"x": a, "y": b}) == expected
    assert not tracer.guards


def test_what_is_assumed_may_not_contradict_a_guard() -> None:
    tracer = Tracer()
    a, b = tracer.symbol("a", 1, 100, 5), tracer.symbol("b", 1, 100, 7)
    with pytest.raises(SizesMustAgree) as caught:
        agree(a * b, 2)
    tracer = Tracer([caught.value.difference])
    a, b = tracer.symbol("a", 1, 100, 5), tracer.symbol("b", 1, 100, 7)
    assert int(b) == 7
    with pytest.raises(NoSizesLeft):
        agree(a * b, 2)


@pytest.mark.parametrize("scale", [0.5, 0.7, 1.5, 2.6])
def test_a_scaled_size_is_that_of_float32(scale: float) -> None:
    tracer = Tracer()
    x = tracer.symbol("x", 1, 2**20, 9)
    found = scaled(x, scale)
    assert not found > 2.6 * 2**20 + 1 and found >= 0 and not tracer.guards
    for size in (1, 2, 10, 1000, 12345):
        expected = int(np.floor(np.float32(size) * np.float32(scale)))
        assert tracer.value(found, {"x": size}) == expected == scaled(size, scale)


def test_what_is_only_attempted_is_forgotten() -> None:
    tracer = Tracer()
    a = tracer.symbol("a", 1, 100, 5)
    atoms = list(tracer.atoms)
    with tracer.attempt():
        b = tracer.symbol("b", 1, 100, 7)
        assert a < b and a // b == 0 and a > 4
    assert tracer.atoms == atoms and not tracer.guards
    assert tracer.value(a // 7, {"a": 15}) == 2


def test_the_last_guard_is_the_one_that_was_asked_last() -> None:
    tracer = Tracer()
    a = tracer.symbol("a", 1, 100, 5)
    assert tracer.last is None
    assert a != 7
    last = tracer.last
    assert last is not None
    assert a % 3 != 0 and tracer.last is not last
    assert a != 7
    assert tracer.last is last
    assert a > 0 and tracer.last is last, "what the range decides is no guard"
    with tracer.attempt():
        assert a != 9 and tracer.last is not last
    assert tracer.last is last


def test_a_stated_answer_is_given_though_examples_say_otherwise() -> None:
    question = (terms_of(Tracer().symbol("a", 1, 100, 5) - 3), "<")
    tracer = Tracer(stated={question: True})
    a = tracer.symbol("a", 1, 100, 5)
    assert a < 3 and a < 4, "what follows from it needs no guard"
    [guard] = tracer.guards.values()
    assert not tracer.is_exampled(guard)
    assert tracer.all_hold([guard], {"a": 2}) and not tracer.all_hold([guard], {"a": 3})


def test_no_size_is_divided_by_an_example_of_0() -> None:
    tracer = Tracer()
    a, b = tracer.symbol("a", 1, 100, 5), tracer.symbol("b", -9, 9, 0)
    with pytest.raises(NoSizesLeft, match="b divides"):
        a // b


def test_the_symbols_of_a_computed_size() -> None:
    tracer = Tracer()
    a, b, c = (tracer.symbol(name, 1, 100, 5) for name in "abc")
    assert tracer.symbols_of(terms_of(minimum(a * 3, b) // 2 + 1)) == {"a", "b"} and c


def test_products_that_cancel_or_are_of_one_value_have_bounds() -> None:
    tracer = Tracer()
    a, b, c = (tracer.symbol(name, 1, 2**40, size) for name, size in (("a", 5), ("b", 7), ("c", 11)))
    x, y = ((b - 1) // 2 - 1) // 2, ((c - 1) // 2 - 1) // 2  # at least -1, so that the shares of a, x and y cancel
    size = -4 * a * (x + 1) * (y + 1)
    assert tracer.upper_bounds([size, size // 64 + 1, a * b], 2**40) == [0, inf, inf]
    assert a == 5 and tracer.upper_bounds([(a - 5) * b + 3, a], 2**40) == [3, 5]


@pytest.mark.parametrize("number", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("offset", [-129, -64, -1, 0, 1, 63, 64, 127])
def test_multiples_of_a_divisor_come_out_of_numbers(number: int, offset: int) -> None:
    tracer = Tracer()
    s = tracer.symbol("s", 1, 10**6, 352)
    quotient = (64 * s + offset) // number
    for size in (1, 2, 352, 999):
        assert tracer.value(quotient, {"s": size}) == (64 * size + offset) // number
    assert not tracer.guards
    assert same((s + number + 3) // number, (s + 3) // number + 1)
    assert same((s - 1) // number + 1, (s + number - 1) // number)


def test_a_computed_size_is_written_as_what_a_guard_says_it_is() -> None:
    tracer = Tracer()
    s = tracer.symbol("s", 4, 10**6, 352)
    half = s // 2
    quarter = half // 2
    assert not same(half, 2 * quarter) and not same(half * 3, 6 * quarter)
    assert 2 * quarter == half  # a guard: 352 is a multiple of 4
    [guard] = tracer.guards.values()
    assert same(half, 2 * quarter) and same(half * half * 3, 12 * quarter * quarter) and same(half + s, s + 2 * quarter)
    assert half == 2 * quarter and (half * s) // (2 * s) == quarter and half % quarter == 0
    assert [*tracer.guards.values()] == [guard], "nothing of it is asked again"
    assert not same(s, 2 * half), "what is fed is written as it is"
    for size in (352, 4, 5, 1001):
        assert tracer.all_hold([guard], {"s": size}) == (size // 2 % 2 == 0)


def test_sizes_that_several_guards_equate() -> None:
    tracer = Tracer()
    a, b = tracer.symbol("a", 1, 10**6, 64), tracer.symbol("b", 1, 10**6, 64)
    first, second, third = a // 3, b // 3, (a + b) // 6
    assert first == second and second == third
    assert same(first, third) and same(first * second * third, third * third * third)
    with tracer.attempt():
        assert a // 5 == b // 5 and same(a // 5, b // 5)
    assert not same(a // 5, b // 5)


def test_sizes_that_must_agree_and_do_are_the_same_afterwards() -> None:
    tracer = Tracer()
    s = tracer.symbol("s", 1, 10**6, 352)
    with pytest.raises(SizesMustAgree) as raised:
        agree(s // 3, 2 * (s // 6))
    tracer = Tracer(assumed={raised.value.difference})
    s = tracer.symbol("s", 1, 10**6, 352)
    third, sixth = s // 3, s // 6
    assert agree(third, 2 * sixth) and agree(third, 2 * sixth) and same(third, 2 * sixth)
    assert len(tracer.guards) == 1

"""Integer arithmetic on what is known of a value's elements: numbers, or sizes known by name.

A result that is no number is a symbol named after its formula, so that equal formulas stay equal
sizes: `(batch*8)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import prod

from atcpy.ir import Value
from atcpy.ir.shape import Dim, Sym, is_static

Elements = tuple[Dim, ...]
Combine = Callable[[Dim, Dim], Dim]

_MAX_FACTORS = 8  # factors kept of a product: a model may multiply a size by itself without end
UNNAMED = Sym("?")  # a size of which nothing is known: two of them need not be equal


def add(a: Dim, b: Dim) -> Dim:
    """a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return a if b == 0 else b if a == 0 else formula(a, "+", b)


def sub(a: Dim, b: Dim) -> Dim:
    """a − b."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else 0 if a == b != UNNAMED else formula(a, "-", b)


def mul(a: Dim, b: Dim) -> Dim:
    """a · b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    return a if b == 1 else b if a == 1 else formula(a, "*", b)


def div(a: Dim, b: Dim) -> Dim:
    """a / b, towards zero, as ONNX divides integers; a divisor of 0 gives the unnamed size."""
    if b == 0:
        return UNNAMED
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a if b == 1 else formula(a, "/", b)


def formula(a: Dim, sign: str, b: Dim) -> Sym:
    """The symbol that stands for `a sign b`."""
    if UNNAMED in (a, b):
        return UNNAMED
    factors = (*_factors(a), *_factors(b)) if sign == "*" else ()
    return Sym(f"({a}{sign}{b})", factors if len(factors) <= _MAX_FACTORS else ())


def _factors(dim: Dim) -> tuple[Dim, ...]:
    return (dim,) if isinstance(dim, int) else dim.factors or (dim,)


def broadcast(combine: Combine, a: Elements, b: Elements) -> Elements | None:
    """Element by element, where one side may be a single element; None if lengths do not fit."""
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        return None
    length = len(a) if len(b) == 1 else len(b)
    return tuple(
        combine(a[0] if len(a) == 1 else a[index], b[0] if len(b) == 1 else b[index]) for index in range(length)
    )


def product(dims: Iterable[Dim]) -> Dim:
    """The product of sizes, the number first and symbols in order of their names."""
    factors = tuple(dims)
    if is_static(factors):
        return prod(factors)
    number, symbols = split_product(factors)
    if number == 0:
        return 0
    result: Dim = number
    for symbol in sorted(symbols.elements(), key=lambda sym: sym.name):
        result = mul(result, symbol)
    return result


def split_product(dims: Iterable[Dim]) -> tuple[int, Counter[Sym]]:
    """The product of sizes as a number and the symbols that it is multiplied by."""
    number, symbols = 1, Counter[Sym]()
    for dim in dims:
        if isinstance(dim, int):
            number *= dim
        else:
            for factor in dim.factors or (dim,):
                if isinstance(factor, int):
                    number *= factor
                else:
                    symbols[factor] += 1
    return number, symbols


def quotient(dims: Sequence[Dim], divisors: Sequence[Dim]) -> Dim | None:
    """The product of `dims` over that of `divisors`, or None if nothing natural comes out."""
    number, symbols = split_product(dims)
    below, below_symbols = split_product(divisors)
    if symbols[UNNAMED] or below_symbols[UNNAMED] or below_symbols - symbols or below == 0 or number % below:
        return None
    return product([number // below, *(symbols - below_symbols).elements()])


def is_vector(value: Value) -> bool:
    """True for rank 0 or 1: where an element's index is a single number."""
    return value.desc.shape is not None and len(value.desc.shape) <= 1


def integers(elements: Elements | None) -> tuple[int, ...] | None:
    """The elements if all are numbers."""
    if elements is None:
        return None
    numbers = tuple(item for item in elements if isinstance(item, int))
    return numbers if len(numbers) == len(elements) else None

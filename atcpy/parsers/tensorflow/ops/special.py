"""Functions that the standard lacks, in formulas that lose nothing where the plain ones would."""

from __future__ import annotations

import math
from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps

# erfc(z) = t · exp(−z² + c(t)), t = 2 / (2 + z), z ≥ 0: c as a Chebyshev series in 2t − 1
_ERFC = (
    -1.3026537197817094, 6.4196979235649026e-1, 1.9476473204185836e-2, -9.561514786808631e-3, -9.46595344482036e-4,
    3.66839497852761e-4, 4.2523324806907e-5, -2.0278578112534e-5, -1.624290004647e-6, 1.303655835580e-6,
    1.5626441722e-8, -8.5238095915e-8, 6.529054439e-9, 5.059343495e-9, -9.91364156e-10, -2.27365122e-10,
    9.6467911e-11, 2.394038e-12, -6.886027e-12, 8.94487e-13, 3.13092e-13, -1.12708e-13, 3.81e-16, 7.106e-15,
    -1.523e-15, -9.4e-17, 1.21e-16, -2.8e-17,
)  # fmt: skip
# The inverse of the normal distribution: quotients of polynomials, near the middle and in two parts of a tail.
_MIDDLE = (
    (-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1, 1.39312609387279679503e1,
     -1.23916583867381258016),
    (1.0, 1.95448858338141759834, 4.67627912898881538453, 8.63602421390890590575e1, -2.25462687854119370527e2,
     2.00260212380060660359e2, -8.20372256168333339912e1, 1.59056225126211695515e1, -1.18331621121330003142),
)  # fmt: skip
_TAIL = (
    (4.05544892305962419923, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.40805073893200834700e1,
     1.46849561928858024014e1, 2.18663306850790267539, -1.40256079171354495875e-1, -3.50424626827848203418e-2,
     -8.57456785154685413611e-4),
    (1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1, 1.50425385692907503408e1,
     2.50464946208309415979, -1.42182922854787788574e-1, -3.80806407691578277194e-2, -9.33259480895457427372e-4),
)  # fmt: skip
_FAR_TAIL = (
    (3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415, 1.33303460815807542389,
     2.01485389549179081538e-1, 1.23716634817820021358e-2, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
     6.23974539184983293730e-9),
    (1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271, 2.16236993594496635890e-1,
     1.34204006088543189037e-2, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9),
)  # fmt: skip
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
_LANCZOS_SHIFT = 7.0
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)  # of ψ's series in 1/x²
_DIGAMMA_STEPS = 10


@maps("Log1p")
def log1p(op: Op) -> Value:
    """Log(1 + x), exact near 0"""
    return _log1p(op, op.input(0))


def _log1p(op: Op, x: Value) -> Value:
    """x · log(u) / (u − 1), u = 1 + x: what the sum rounds off, the quotient puts back."""
    one = op.like(1, x)
    u = op.add("Add", x, one)
    log = op.add("Log", u)
    exact = op.add("Mul", log, op.add("Div", x, op.add("Sub", u, one)))
    near = op.add("Where", op.add("Equal", u, one), x, exact)
    return op.add("Where", op.add("Less", x, op.like(2, x)), near, log)


@maps("Xlog1py")
def x_log1p_y(op: Op) -> Value:
    """x · Log1p(y); 0 where x is 0"""
    x = op.input(0)
    zero = op.like(0, x)
    return op.add("Where", op.add("Equal", x, zero), zero, op.add("Mul", x, _log1p(op, op.input(1))))


@maps("Expm1")
def expm1(op: Op) -> Value:
    """Exp(x) − 1, exact near 0"""
    x = op.input(0)
    one = op.like(1, x)
    tanh = op.add("Tanh", op.add("Mul", x, op.like(0.5, x)))
    near = op.add("Div", op.add("Mul", tanh, op.like(2, x)), op.add("Sub", one, tanh))
    far = op.add("Sub", op.add("Exp", x), one)
    return op.add("Where", op.add("Less", op.add("Abs", x), one), near, far)


@maps("Erfc")
def erfc(op: Op) -> Value:
    """1 − Erf(x), exact where that is small"""
    x = op.input(0)
    wide = op.cast(x, DType.FLOAT64)
    z = op.add("Abs", wide)
    t = op.add("Div", op.like(2, z), op.add("Add", z, op.like(2, z)))
    series = _chebyshev(op, op.add("Sub", op.add("Mul", t, op.like(4, t)), op.like(2, t)), _ERFC)
    tail = op.add("Mul", t, op.add("Exp", op.add("Sub", series, op.add("Mul", z, z))))
    below = op.add("Less", wide, op.like(0, wide))
    return op.cast(op.add("Where", below, op.add("Sub", op.like(2, tail), tail), tail), x.desc.dtype)


def _chebyshev(op: Op, doubled: Value, factors: Sequence[float]) -> Value:
    """A series of Chebyshev's polynomials, of an argument that is given twice as large."""
    last, before = op.like(factors[-1], doubled), op.like(0, doubled)
    for factor in reversed(factors[1:-1]):
        step = op.add("Sub", op.add("Mul", doubled, last), before)
        last, before = op.add("Add", step, op.like(factor, doubled)), last
    half = op.add("Sub", op.add("Mul", doubled, op.add("Mul", last, op.like(0.5, last))), before)
    return op.add("Add", half, op.like(factors[0] / 2, doubled))


@maps("Ndtri")
def ndtri(op: Op) -> Value:
    """The inverse of the normal distribution"""
    p = op.cast(op.input(0), DType.FLOAT64)
    centred = op.add("Sub", p, op.like(0.5, p))
    return op.cast(_quantile(op, centred, p, op.add("Sub", op.like(1, p), p)), op.dtype(0))


@maps("Erfinv")
def erfinv(op: Op) -> Value:
    """The inverse of Erf"""
    x = op.cast(op.input(0), DType.FLOAT64)
    half = op.like(0.5, x)
    halved = op.add("Mul", x, half)
    quantile = _quantile(op, halved, op.add("Add", half, halved), op.add("Sub", half, halved))
    return op.cast(op.add("Mul", quantile, op.like(math.sqrt(0.5), x)), op.dtype(0))


def _quantile(op: Op, centred: Value, low: Value, high: Value) -> Value:
    """The place of a probability, which is given as itself less ½, as itself, and as 1 less itself."""
    square = op.add("Mul", centred, centred)
    inner = op.add("Mul", centred, op.add("Mul", square, _quotient(op, square, _MIDDLE)))
    middle = op.add("Mul", op.add("Add", centred, inner), op.like(math.sqrt(2 * math.pi), centred))
    tail = op.add("Min", low, high)
    x = op.add("Sqrt", op.add("Mul", op.add("Log", tail), op.like(-2, tail)))
    z = op.add("Reciprocal", x)
    quotient = op.add("Where", op.add("Less", x, op.like(8, x)), _quotient(op, z, _TAIL), _quotient(op, z, _FAR_TAIL))
    outer = op.add("Sub", op.add("Sub", x, op.add("Div", op.add("Log", x), x)), op.add("Mul", z, quotient))
    # At 0 and 1 the terms are ∞ − NaN; outside NaN, as the logarithm is.
    outer = op.add("Where", op.add("Equal", tail, op.like(0, tail)), op.like(math.inf, tail), outer)
    signed = op.add("Where", op.add("Less", centred, op.like(0, centred)), op.add("Neg", outer), outer)
    return op.add("Where", op.add("Less", tail, op.like(math.exp(-2), tail)), signed, middle)


def _quotient(op: Op, x: Value, factors: tuple[Sequence[float], Sequence[float]]) -> Value:
    return op.add("Div", _polynomial(op, x, factors[0]), _polynomial(op, x, factors[1]))


def _polynomial(op: Op, x: Value, factors: Sequence[float]) -> Value:
    total = op.like(factors[0], x)
    for factor in factors[1:]:
        total = op.add("Add", op.add("Mul", total, x), op.like(factor, x))
    return total


@maps("Lgamma")
def lgamma(op: Op) -> Value:
    """log |Γ(x)|"""
    x = op.cast(op.input(0), DType.FLOAT64)
    half, one = op.like(0.5, x), op.like(1, x)
    is_low = op.add("Less", x, half)
    z = op.add("Sub", op.add("Where", is_low, op.add("Sub", one, x), x), one)
    total = op.like(_LANCZOS[0], z)
    for place, factor in enumerate(_LANCZOS[1:], start=1):
        total = op.add("Add", total, op.add("Div", op.like(factor, z), op.add("Add", z, op.like(place, z))))
    t = op.add("Add", z, op.like(_LANCZOS_SHIFT + 0.5, z))
    powers = op.add("Sub", op.add("Mul", op.add("Add", z, half), op.add("Log", t)), t)
    right = op.add("Add", op.add("Add", powers, op.add("Log", total)), op.like(math.log(2 * math.pi) / 2, z))
    right = op.add("Where", op.add("IsInf", x), op.like(math.inf, x), right)
    # Γ(x) · Γ(1 − x) = π / sin(πx)
    sine = op.add("Abs", op.add("Sin", op.add("Mul", _fraction(op, x), op.like(math.pi, x))))
    left = op.add("Sub", op.add("Sub", op.like(math.log(math.pi), x), op.add("Log", sine)), right)
    at_pole = op.add("And", is_low, op.add("Equal", x, op.add("Floor", x)))
    result = op.add("Where", is_low, left, right)
    return op.cast(op.add("Where", at_pole, op.like(math.inf, x), result), op.dtype(0))


@maps("Digamma")
def digamma(op: Op) -> Value:
    """The derivative of log Γ(x)"""
    x = op.cast(op.input(0), DType.FLOAT64)
    one = op.like(1, x)
    is_low = op.add("LessOrEqual", x, op.like(0, x))
    z = op.add("Where", is_low, op.add("Sub", one, x), x)
    total = op.add("Neg", op.add("Reciprocal", z))
    for step in range(1, _DIGAMMA_STEPS):
        total = op.add("Sub", total, op.add("Reciprocal", op.add("Add", z, op.like(step, z))))
    far = op.add("Add", z, op.like(_DIGAMMA_STEPS, z))
    inverse = op.add("Reciprocal", far)
    square = op.add("Mul", inverse, inverse)
    series = op.add("Mul", square, _polynomial(op, square, _BERNOULLI[::-1]))
    series = op.add("Add", op.add("Mul", inverse, op.like(0.5, z)), series)
    right = op.add("Add", total, op.add("Sub", op.add("Log", far), series))
    # ψ(x) = ψ(1 − x) − π / tan(πx)
    tangent = op.add("Tan", op.add("Mul", _fraction(op, x), op.like(math.pi, x)))
    left = op.add("Sub", right, op.add("Div", op.like(math.pi, x), tangent))
    at_pole = op.add("And", is_low, op.add("Equal", x, op.add("Floor", x)))
    return op.cast(op.add("Where", at_pole, op.like(math.nan, x), op.add("Where", is_low, left, right)), op.dtype(0))


def _fraction(op: Op, x: Value) -> Value:
    """x less the next integer: the functions of π·x repeat, and are exact near the integers."""
    return op.add("Sub", x, op.add("Round", x))


@maps("Atan2")
def atan2(op: Op) -> Value:
    """Atan of y / x, in the quadrant of the two"""
    return arc_tangent(op, op.input(0), op.input(1))


def arc_tangent(op: Op, y: Value, x: Value) -> Value:
    """The angle of a point, between −π and π."""
    high, wide = op.add("Abs", y), op.add("Abs", x)
    steep = op.add("Greater", high, wide)
    low = op.add("Where", steep, wide, high)
    ratio = op.add("Div", low, op.add("Where", steep, high, wide))
    # Equal ones may be 0/0 or ∞/∞.
    zero, one = op.like(0, x), op.like(1, x)
    same = op.add("Where", op.add("Equal", x, zero), zero, one)
    angle = op.add("Atan", op.add("Where", op.add("Equal", high, wide), same, ratio))
    angle = op.add("Where", steep, op.add("Sub", op.like(math.pi / 2, x), angle), angle)
    angle = op.add("Where", _is_negative(op, x), op.add("Sub", op.like(math.pi, x), angle), angle)
    return op.add("Where", _is_negative(op, y), op.add("Neg", angle), angle)


def _is_negative(op: Op, x: Value) -> Value:
    """The sign, of 0 too: 1 / −0 is −∞."""
    zero = op.like(0, x)
    return op.add("Or", op.add("Less", x, zero), op.add("Less", op.add("Reciprocal", x), zero))

"""Functions that the standard lacks, in formulas that lose nothing where the plain ones would."""

from __future__ import annotations

import math
from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps

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
def log1p(b: OpBuilder) -> Value:
    """Log(1 + x), exact near 0"""
    return _log1p(b, b.input(0))


def _log1p(b: OpBuilder, x: Value) -> Value:
    """x · log(u) / (u − 1), u = 1 + x: what the sum rounds off, the quotient puts back."""
    one = b.like(1, x)
    u = b.op("Add", x, one)
    log = b.op("Log", u)
    exact = b.op("Mul", log, b.op("Div", x, b.op("Sub", u, one)))
    near = b.op("Where", b.op("Equal", u, one), x, exact)
    return b.op("Where", b.op("Less", x, b.like(2, x)), near, log)


@maps("Xlog1py")
def x_log1p_y(b: OpBuilder) -> Value:
    """x · Log1p(y); 0 where x is 0"""
    x = b.input(0)
    zero = b.like(0, x)
    return b.op("Where", b.op("Equal", x, zero), zero, b.op("Mul", x, _log1p(b, b.input(1))))


@maps("Expm1")
def expm1(b: OpBuilder) -> Value:
    """Exp(x) − 1, exact near 0"""
    x = b.input(0)
    one = b.like(1, x)
    tanh = b.op("Tanh", b.op("Mul", x, b.like(0.5, x)))
    near = b.op("Div", b.op("Mul", tanh, b.like(2, x)), b.op("Sub", one, tanh))
    far = b.op("Sub", b.op("Exp", x), one)
    return b.op("Where", b.op("Less", b.op("Abs", x), one), near, far)


@maps("Erfc")
def erfc(b: OpBuilder) -> Value:
    """1 − Erf(x), exact where that is small"""
    x = b.input(0)
    wide = b.cast(x, DType.FLOAT64)
    z = b.op("Abs", wide)
    t = b.op("Div", b.like(2, z), b.op("Add", z, b.like(2, z)))
    series = _chebyshev(b, b.op("Sub", b.op("Mul", t, b.like(4, t)), b.like(2, t)), _ERFC)
    tail = b.op("Mul", t, b.op("Exp", b.op("Sub", series, b.op("Mul", z, z))))
    below = b.op("Less", wide, b.like(0, wide))
    return b.cast(b.op("Where", below, b.op("Sub", b.like(2, tail), tail), tail), x.desc.dtype)


def _chebyshev(b: OpBuilder, doubled: Value, factors: Sequence[float]) -> Value:
    """A series of Chebyshev's polynomials, of an argument that is given twice as large."""
    last, before = b.like(factors[-1], doubled), b.like(0, doubled)
    for factor in reversed(factors[1:-1]):
        step = b.op("Sub", b.op("Mul", doubled, last), before)
        last, before = b.op("Add", step, b.like(factor, doubled)), last
    half = b.op("Sub", b.op("Mul", doubled, b.op("Mul", last, b.like(0.5, last))), before)
    return b.op("Add", half, b.like(factors[0] / 2, doubled))


@maps("Ndtri")
def ndtri(b: OpBuilder) -> Value:
    """The inverse of the normal distribution"""
    p = b.cast(b.input(0), DType.FLOAT64)
    centred = b.op("Sub", p, b.like(0.5, p))
    return b.cast(_quantile(b, centred, p, b.op("Sub", b.like(1, p), p)), b.dtype(0))


@maps("Erfinv")
def erfinv(b: OpBuilder) -> Value:
    """The inverse of Erf"""
    x = b.cast(b.input(0), DType.FLOAT64)
    half = b.like(0.5, x)
    halved = b.op("Mul", x, half)
    quantile = _quantile(b, halved, b.op("Add", half, halved), b.op("Sub", half, halved))
    return b.cast(b.op("Mul", quantile, b.like(math.sqrt(0.5), x)), b.dtype(0))


def _quantile(b: OpBuilder, centred: Value, low: Value, high: Value) -> Value:
    """The place of a probability, which is given as itself less ½, as itself, and as 1 less itself."""
    square = b.op("Mul", centred, centred)
    inner = b.op("Mul", centred, b.op("Mul", square, _quotient(b, square, _MIDDLE)))
    middle = b.op("Mul", b.op("Add", centred, inner), b.like(math.sqrt(2 * math.pi), centred))
    tail = b.op("Min", low, high)
    x = b.op("Sqrt", b.op("Mul", b.op("Log", tail), b.like(-2, tail)))
    z = b.op("Reciprocal", x)
    quotient = b.op("Where", b.op("Less", x, b.like(8, x)), _quotient(b, z, _TAIL), _quotient(b, z, _FAR_TAIL))
    outer = b.op("Sub", b.op("Sub", x, b.op("Div", b.op("Log", x), x)), b.op("Mul", z, quotient))
    # At 0 and 1 the terms are ∞ − NaN; outside NaN, as the logarithm is.
    outer = b.op("Where", b.op("Equal", tail, b.like(0, tail)), b.like(math.inf, tail), outer)
    signed = b.op("Where", b.op("Less", centred, b.like(0, centred)), b.op("Neg", outer), outer)
    return b.op("Where", b.op("Less", tail, b.like(math.exp(-2), tail)), signed, middle)


def _quotient(b: OpBuilder, x: Value, factors: tuple[Sequence[float], Sequence[float]]) -> Value:
    return b.op("Div", _polynomial(b, x, factors[0]), _polynomial(b, x, factors[1]))


def _polynomial(b: OpBuilder, x: Value, factors: Sequence[float]) -> Value:
    total = b.like(factors[0], x)
    for factor in factors[1:]:
        total = b.op("Add", b.op("Mul", total, x), b.like(factor, x))
    return total


@maps("Lgamma")
def lgamma(b: OpBuilder) -> Value:
    """log |Γ(x)|"""
    x = b.cast(b.input(0), DType.FLOAT64)
    half, one = b.like(0.5, x), b.like(1, x)
    is_low = b.op("Less", x, half)
    z = b.op("Sub", b.op("Where", is_low, b.op("Sub", one, x), x), one)
    total = b.like(_LANCZOS[0], z)
    for place, factor in enumerate(_LANCZOS[1:], start=1):
        total = b.op("Add", total, b.op("Div", b.like(factor, z), b.op("Add", z, b.like(place, z))))
    t = b.op("Add", z, b.like(_LANCZOS_SHIFT + 0.5, z))
    powers = b.op("Sub", b.op("Mul", b.op("Add", z, half), b.op("Log", t)), t)
    right = b.op("Add", b.op("Add", powers, b.op("Log", total)), b.like(math.log(2 * math.pi) / 2, z))
    right = b.op("Where", b.op("IsInf", x), b.like(math.inf, x), right)
    # Γ(x) · Γ(1 − x) = π / sin(πx)
    sine = b.op("Abs", b.op("Sin", b.op("Mul", _fraction(b, x), b.like(math.pi, x))))
    left = b.op("Sub", b.op("Sub", b.like(math.log(math.pi), x), b.op("Log", sine)), right)
    at_pole = b.op("And", is_low, b.op("Equal", x, b.op("Floor", x)))
    result = b.op("Where", is_low, left, right)
    return b.cast(b.op("Where", at_pole, b.like(math.inf, x), result), b.dtype(0))


@maps("Digamma")
def digamma(b: OpBuilder) -> Value:
    """The derivative of log Γ(x)"""
    x = b.cast(b.input(0), DType.FLOAT64)
    one = b.like(1, x)
    is_low = b.op("LessOrEqual", x, b.like(0, x))
    z = b.op("Where", is_low, b.op("Sub", one, x), x)
    total = b.op("Neg", b.op("Reciprocal", z))
    for step in range(1, _DIGAMMA_STEPS):
        total = b.op("Sub", total, b.op("Reciprocal", b.op("Add", z, b.like(step, z))))
    far = b.op("Add", z, b.like(_DIGAMMA_STEPS, z))
    inverse = b.op("Reciprocal", far)
    square = b.op("Mul", inverse, inverse)
    series = b.op("Mul", square, _polynomial(b, square, _BERNOULLI[::-1]))
    series = b.op("Add", b.op("Mul", inverse, b.like(0.5, z)), series)
    right = b.op("Add", total, b.op("Sub", b.op("Log", far), series))
    # ψ(x) = ψ(1 − x) − π / tan(πx)
    tangent = b.op("Tan", b.op("Mul", _fraction(b, x), b.like(math.pi, x)))
    left = b.op("Sub", right, b.op("Div", b.like(math.pi, x), tangent))
    at_pole = b.op("And", is_low, b.op("Equal", x, b.op("Floor", x)))
    return b.cast(b.op("Where", at_pole, b.like(math.nan, x), b.op("Where", is_low, left, right)), b.dtype(0))


def _fraction(b: OpBuilder, x: Value) -> Value:
    """x less the next integer: the functions of π·x repeat, and are exact near the integers."""
    return b.op("Sub", x, b.op("Round", x))


@maps("Atan2")
def atan2(b: OpBuilder) -> Value:
    """Atan of y / x, in the quadrant of the two"""
    return arc_tangent(b, b.input(0), b.input(1))


def arc_tangent(b: OpBuilder, y: Value, x: Value) -> Value:
    """The angle of a point, between −π and π."""
    high, wide = b.op("Abs", y), b.op("Abs", x)
    steep = b.op("Greater", high, wide)
    low = b.op("Where", steep, wide, high)
    ratio = b.op("Div", low, b.op("Where", steep, high, wide))
    # Equal ones may be 0/0 or ∞/∞.
    zero, one = b.like(0, x), b.like(1, x)
    same = b.op("Where", b.op("Equal", x, zero), zero, one)
    angle = b.op("Atan", b.op("Where", b.op("Equal", high, wide), same, ratio))
    angle = b.op("Where", steep, b.op("Sub", b.like(math.pi / 2, x), angle), angle)
    angle = b.op("Where", _is_negative(b, x), b.op("Sub", b.like(math.pi, x), angle), angle)
    return b.op("Where", _is_negative(b, y), b.op("Neg", angle), angle)


def _is_negative(b: OpBuilder, x: Value) -> Value:
    """The sign, of 0 too: 1 / −0 is −∞."""
    zero = b.like(0, x)
    return b.op("Or", b.op("Less", x, zero), b.op("Less", b.op("Reciprocal", x), zero))

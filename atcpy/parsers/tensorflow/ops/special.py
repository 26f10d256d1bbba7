"""Functions that the standard lacks, in formulas that lose nothing where the plain ones would."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from atcpy.ir import DType
from atcpy.ir.arithmetic import Expr
from atcpy.parsers.tensorflow.op import MappingFunction, formula, maps_all

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


def _log1p(x: Expr) -> Expr:
    """x · log(u) / (u − 1), u = 1 + x: the quotient restores what the sum rounds off."""
    u = x + 1
    log = u.apply("Log")
    near = x.where(u.equals(1), log * (x / (u - 1)))
    return near.where(x < 2, log)


def _x_log1p_y(x: Expr, y: Expr) -> Expr:
    return (x * _log1p(y)).masked_fill(x.equals(0), 0)


def _expm1(x: Expr) -> Expr:
    tanh = (x * 0.5).apply("Tanh")
    return (tanh * 2 / (1 - tanh)).where(abs(x) < 1, x.exp() - 1)


def _erfc(x: Expr) -> Expr:
    z = abs(x)
    t = 2 / (z + 2)
    tail = t * (_chebyshev(t * 4 - 2, _ERFC) - z * z).exp()
    return (2 - tail).where(x < 0, tail)


def _chebyshev(doubled: Expr, coefficients: Sequence[float]) -> Expr:
    """A series of Chebyshev polynomials, of twice its argument, by Clenshaw's recurrence."""
    last, before = doubled.like(coefficients[-1]), doubled.like(0)
    for coefficient in reversed(coefficients[1:-1]):
        last, before = doubled * last - before + coefficient, last
    return doubled * (last * 0.5) - before + coefficients[0] / 2


def _ndtri(p: Expr) -> Expr:
    return _quantile(p - 0.5, p, 1 - p)


def _erfinv(x: Expr) -> Expr:
    half = x * 0.5
    return _quantile(half, half + 0.5, 0.5 - half) * math.sqrt(0.5)


def _quantile(centred: Expr, low: Expr, high: Expr) -> Expr:
    """The quantile of the normal distribution for a probability p, given as p − ½, p and 1 − p."""
    square = centred * centred
    middle = (centred + centred * (square * _quotient(square, _MIDDLE))) * math.sqrt(2 * math.pi)
    tail = low.min(high)
    x = (tail.apply("Log") * -2).apply("Sqrt")
    z = x.apply("Reciprocal")
    quotient = _quotient(z, _TAIL).where(x < 8, _quotient(z, _FAR_TAIL))
    # At 0 and 1 the terms are ∞ − NaN; outside NaN, as the logarithm is.
    outer = (x - x.apply("Log") / x - z * quotient).masked_fill(tail.equals(0), math.inf)
    return (-outer).where(centred < 0, outer).where(tail < math.exp(-2), middle)


def _quotient(x: Expr, coefficients: tuple[Sequence[float], Sequence[float]]) -> Expr:
    return _polynomial(x, coefficients[0]) / _polynomial(x, coefficients[1])


def _polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """A polynomial by Horner's rule, the highest power first."""
    total = x.like(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def _lgamma(x: Expr) -> Expr:
    """Lanczos's approximation; below ½ by the reflection Γ(x) · Γ(1 − x) = π / sin(πx)."""
    is_low = x < 0.5
    z = (1 - x).where(is_low, x) - 1
    total = z.like(_LANCZOS[0])
    for index, coefficient in enumerate(_LANCZOS[1:], start=1):
        total = total + coefficient / (z + index)
    t = z + (_LANCZOS_SHIFT + 0.5)
    right = (z + 0.5) * t.apply("Log") - t + total.apply("Log") + math.log(2 * math.pi) / 2
    right = right.masked_fill(x.apply("IsInf"), math.inf)
    sine = abs((_fraction(x) * math.pi).sin())
    left = math.log(math.pi) - sine.apply("Log") - right
    at_pole = is_low & x.equals(x.floor())
    return left.where(is_low, right).masked_fill(at_pole, math.inf)


def _digamma(x: Expr) -> Expr:
    """The recurrence ψ(z) = ψ(z + 1) − 1 / z, then the asymptotic series; up to 0 by the reflection
    ψ(x) = ψ(1 − x) − π / tan(πx).
    """
    is_low = x <= 0
    z = (1 - x).where(is_low, x)
    total = -z.apply("Reciprocal")
    for step in range(1, _DIGAMMA_STEPS):
        total = total - (z + step).apply("Reciprocal")
    far = z + _DIGAMMA_STEPS
    inverse = far.apply("Reciprocal")
    square = inverse * inverse
    right = total + (far.apply("Log") - (inverse * 0.5 + square * _polynomial(square, _BERNOULLI[::-1])))
    left = right - math.pi / (_fraction(x) * math.pi).apply("Tan")
    at_pole = is_low & x.equals(x.floor())
    return left.where(is_low, right).masked_fill(at_pole, math.nan)


def _fraction(x: Expr) -> Expr:
    """x less the nearest integer: the functions of π·x repeat, and are exact near the integers."""
    return x - x.round_half_even()


def arc_tangent(y: Expr, x: Expr) -> Expr:
    """Return the angle of a point, between −π and π."""
    high, wide = abs(y), abs(x)
    steep = high > wide
    ratio = wide.where(steep, high) / high.where(steep, wide)
    # Equal ones may be 0/0 or ∞/∞.
    same = x.like(1).masked_fill(x.equals(0), 0)
    angle = same.where(high.equals(wide), ratio).apply("Atan")
    angle = (math.pi / 2 - angle).where(steep, angle)
    angle = (math.pi - angle).where(_is_negative(x), angle)
    return (-angle).where(_is_negative(y), angle)


def _is_negative(x: Expr) -> Expr:
    """The sign, of 0 too: 1 / −0 is −∞."""
    return (x < 0) | (x.apply("Reciprocal") < 0)


def _in_float64(function: Callable[[Expr], Expr]) -> MappingFunction:
    return formula(lambda x: function(x.cast(DType.FLOAT64)).cast(x.value.desc.dtype))


maps_all(
    {
        "Log1p": ("Log(1 + x), exact near 0", formula(_log1p)),
        "Xlog1py": ("x · Log1p(y); 0 where x is 0", formula(_x_log1p_y)),
        "Expm1": ("Exp(x) − 1, exact near 0", formula(_expm1)),
        "Erfc": ("1 − Erf(x), exact where that is small", _in_float64(_erfc)),
        "Ndtri": ("The inverse of the normal distribution", _in_float64(_ndtri)),
        "Erfinv": ("The inverse of Erf", _in_float64(_erfinv)),
        "Lgamma": ("log |Γ(x)|", _in_float64(_lgamma)),
        "Digamma": ("The derivative of log Γ(x)", _in_float64(_digamma)),
        "Atan2": ("Atan of y / x, in the quadrant of the two", formula(arc_tangent)),
    }
)

"""Gradients of elementwise functions: dx from dy and the function's input x or its result y."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi, sqrt
from typing import Final

from atcpy.ir.arithmetic import Expr

Gradient = Callable[..., Expr]  # of dy, x or y, and the function's attributes

_SELU_ALPHA: Final = 1.6732632423543772
_SELU_GAMMA: Final = 1.0507009873554805


def _relu6(dy: Expr, x: Expr) -> Expr:
    return dy.where((x > 0) & (x < 6), 0)


def _leaky_relu(dy: Expr, x: Expr, alpha: float) -> Expr:
    """Work for x and y alike: they have one sign."""
    return dy.where(x > 0, dy * alpha)


def _softsign(dy: Expr, x: Expr) -> Expr:
    divisor = abs(x) + 1
    return dy / (divisor * divisor)


def _gelu(dy: Expr, x: Expr) -> Expr:
    """dy · (Φ(x) + x · φ(x)), where Φ and φ are those of the normal distribution."""
    below = ((x * sqrt(0.5)).apply("Erf") + 1) * 0.5
    density = (x * x * -0.5).exp() * (1 / sqrt(2 * pi))
    return dy * (below + x * density)


def _fast_gelu(dy: Expr, x: Expr) -> Expr:
    """dy · (1 + t + (1 − t²) · x · u′) / 2, where t = tanh(u) and u = √(2/π) · (x + 0.044715 x³)."""
    scale, cubic = sqrt(2 / pi), x * x * (0.044715 * sqrt(2 / pi))
    t = (x * (cubic + scale)).apply("Tanh")
    rise = (1 - t * t) * (x * (cubic * 3 + scale))
    return dy * ((t + 1 + rise) * 0.5)


def _quick_gelu(dy: Expr, x: Expr, alpha: float) -> Expr:
    """dy · s · (1 + z · (1 − s)), where s = Sigmoid(z) and z = alpha · x."""
    z = x * alpha
    s = z.apply("Sigmoid")
    return dy * (s * (z * (1 - s) + 1))


def _elu(dy: Expr, y: Expr) -> Expr:
    return (dy * (y + 1)).where(y < 0, dy)


def _selu(dy: Expr, y: Expr) -> Expr:
    return (dy * (y + _SELU_GAMMA * _SELU_ALPHA)).where(y < 0, dy * _SELU_GAMMA)


BY_INPUT: Final[Mapping[str, Gradient]] = {
    "FastGelu": _fast_gelu,
    "Gelu": _gelu,
    "LeakyRelu": _leaky_relu,
    "Log": lambda dy, x: dy / x,
    "QuickGelu": _quick_gelu,
    "Relu": lambda dy, x: dy.where(x > 0, 0),
    "Relu6": _relu6,
    "Sin": lambda dy, x: dy * x.apply("Cos"),
    "Softplus": lambda dy, x: dy * x.apply("Sigmoid"),
    "Softsign": _softsign,
}
BY_RESULT: Final[Mapping[str, Gradient]] = {
    "Elu": _elu,
    "Exp": lambda dy, y: dy * y,
    "Identity": lambda dy, y: dy,
    "Neg": lambda dy, y: -dy,
    "Reciprocal": lambda dy, y: -(dy * y * y),
    "Rsqrt": lambda dy, y: dy * (y * y * y * -0.5),
    "Selu": _selu,
    "Sigmoid": lambda dy, y: dy * (y * (1 - y)),
    "Sqrt": lambda dy, y: dy * 0.5 / y,
    "Tanh": lambda dy, y: dy * (1 - y * y),
}

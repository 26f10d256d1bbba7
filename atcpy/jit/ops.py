"""The ops of MindSpore's articles, as functions (`ops.mul(x, 2.0)`) and as classes (`ops.Mul()(x, 2.0)`).

They are functions of the array API: of the library of their first array, numpy or the one that traces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# MindSpore's names, and those of the array API.
_FUNCTIONS = {
    "abs": "abs",
    "add": "add",
    "div": "divide",
    "exp": "exp",
    "log": "log",
    "matmul": "matmul",
    "maximum": "maximum",
    "minimum": "minimum",
    "mul": "multiply",
    "neg": "negative",
    "pow": "pow",
    "sqrt": "sqrt",
    "square": "square",
    "sub": "subtract",
    "tanh": "tanh",
}
_CLASSES = {
    "Abs": "abs",
    "Add": "add",
    "Div": "div",
    "Exp": "exp",
    "Log": "log",
    "MatMul": "matmul",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "Mul": "mul",
    "Neg": "neg",
    "Pow": "pow",
    "Sqrt": "sqrt",
    "Square": "square",
    "Sub": "sub",
    "Tanh": "tanh",
}

__all__ = ["namespace", *_FUNCTIONS, *_CLASSES]


def namespace(*values: Any) -> Any:
    """The functions of the array API for these arrays: those of numpy only if all are numpy's."""
    others = [value for value in values if hasattr(value, "__array_namespace__") and not isinstance(value, np.ndarray)]
    return others[0].__array_namespace__() if others else np


def _function(name: str) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        return getattr(namespace(*values), _FUNCTIONS[name])(*values)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`{_FUNCTIONS[name]}` of the array API."
    return call


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return lambda: _function(_CLASSES[name])
    if name in _FUNCTIONS:
        return _function(name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

"""Constructors of operators: `op.Conv2D("conv").set_input_x(x).set_input_filter(w).set_attr_strides([2, 2])`.

There is one for each op of the standard and of the records in `atcpy/ops`, by ONNX's name or GE's. `dir(op)` lists
them, and `help(op.Conv2D)` prints inputs, outputs and attributes.
"""

from __future__ import annotations

from typing import Any

from atcpy.ge.constructors import operator_class, operator_names


def __getattr__(name: str) -> Any:  # the class of an operator, whose methods no type checker knows
    return operator_class(name)


def __dir__() -> list[str]:
    return [name for name in operator_names() if "::" not in name]

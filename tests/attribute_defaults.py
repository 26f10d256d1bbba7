"""Compares every default that the compiler reads an attribute with, in any test, with the default of the op's schema.

`node.float_attr("epsilon", 1e-5)` states a default that the standard, or ONNX Runtime for its own ops, has set. Tests
give most attributes, so that a wrong default would show in no result. `check_reads` makes each read of an attribute
check the stated default, whether the node has the attribute or not.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import numpy as np
import onnx

from atcpy.ir import Node

GETTERS = ("int_attr", "ints_attr", "float_attr", "str_attr")


@cache
def defaults_of(domain: str, op_type: str) -> dict[str, list[Any]]:
    """Map each attribute that has a default to those of all versions of the op, the newest first."""
    found: dict[str, list[Any]] = {}
    for schema in sorted(_schemas(domain).get(op_type, ()), key=lambda schema: -schema.since_version):
        for name, attr in schema.attributes.items():
            default = attr.default_value if domain != "com.microsoft" else _parsed(attr._default_value)
            if default.type:
                value = onnx.helper.get_attribute_value(default)
                found.setdefault(name, []).append(value.decode() if isinstance(value, bytes) else value)
    return found


@cache
def _schemas(domain: str) -> dict[str, list[Any]]:
    """The schemas of a domain by op: those of the standard, or of ONNX Runtime for its own."""
    if domain == "com.microsoft":
        from onnxruntime.capi import onnxruntime_pybind11_state

        schemas = onnxruntime_pybind11_state.get_all_operator_schema()
    else:
        schemas = onnx.defs.get_all_schemas_with_history()
    by_name: dict[str, list[Any]] = {}
    for schema in schemas:
        if schema.domain == domain:
            by_name.setdefault(schema.name, []).append(schema)
    return by_name


def _parsed(text: bytes) -> onnx.AttributeProto:
    return onnx.AttributeProto.FromString(text)


def problem(domain: str, op_type: str, name: str, default: object, file: str) -> str:
    """Describe what is wrong with a default, or return nothing. Code for older opsets may state an older one."""
    expected = defaults_of(domain, op_type).get(name, [])
    if "/opsets/" not in file:
        expected = expected[:1]
    if not expected or any(_is_same(value, default) for value in expected):
        return ""
    return f"{domain}::{op_type} has {name} = {expected[0]!r} by default; {file} reads it with {default!r}"


def _is_same(expected: Any, default: object) -> bool:
    if isinstance(expected, float):
        return isinstance(default, int | float) and np.float32(expected) == np.float32(default)
    if isinstance(expected, list | tuple):
        return isinstance(default, tuple) and tuple(expected) == default
    return bool(expected == default)


def check_reads() -> None:
    """Make the getters of nodes check each default that they are called with for the first time."""
    seen: set[tuple[object, ...]] = set()
    for getter in GETTERS:
        setattr(Node, getter, _checked(getattr(Node, getter), seen))


def _checked(getter: Any, seen: set[tuple[object, ...]]) -> Any:
    def checked(self: Node, name: str, default: Any = ()) -> Any:
        if isinstance(default, list | range):
            default = tuple(default)
        key = (self.op_type, self.domain, name, default)
        if key not in seen:
            frame = inspect.currentframe()
            assert frame is not None and frame.f_back is not None
            file = frame.f_back.f_code.co_filename
            if found := problem(self.domain, self.op_type, name, default, file):
                raise AssertionError(found)
            seen.add(key)
        return getter(self, name, default)

    return checked

"""Nodes of every op with nonsensical inputs and attributes give an AtcError or a graph, never another exception."""

from collections.abc import Iterator

import numpy as np
import onnx
import pytest

from atcpy.errors import AtcError
from atcpy.ops import OpDef, all_opdefs
from atcpy.parsers.onnx.contrib_rules import RULES
from tests.ops.contrib.cases import expanded, make_model
from tests.parsers.onnx.canonical import Array, parsed

_ATTR = onnx.AttributeProto
DOMAIN = "com.microsoft"


def values(kind: int, odd: int) -> object:
    """A value of an attribute's type, varied by `odd`."""
    number = (0, 1, -1, 3, 2**40)[odd % 5]
    return {
        _ATTR.INT: number,
        _ATTR.FLOAT: float(number),
        _ATTR.STRING: ("", "Relu", "Clip", "nonsense")[odd % 4],
        _ATTR.INTS: [number] * (odd % 4 + 1),
        _ATTR.FLOATS: [float(number)] * (odd % 4 + 1),
        _ATTR.STRINGS: ["Tanh"] * (odd % 3 + 1),
    }[kind]  # type: ignore[index]


def models(domain: str, op: str) -> Iterator[onnx.ModelProto]:
    rule = RULES[(domain, op)]
    for odd in range(14):
        count = min(rule.inputs[odd % 2], 8)
        dtype = ("float32", "int32", "uint8", "float16", "bool", "int8")[odd % 6]
        arrays: list[Array | None] = [
            np.ones((2, 3, 1, 4, 2)[: (odd + index * (odd // 6)) % 6], dtype) for index in range(count)
        ]
        if odd % 7 == 5 and count > 1:
            arrays[odd % count] = None
        attrs = {name: values(kind, odd + index) for index, (name, kind) in enumerate(rule.attrs.items())}
        constants = range(count) if odd % 3 == 0 else ()
        outputs = max(min(rule.outputs[1], odd % 5), rule.outputs[0], 1)
        yield make_model(op, arrays, attrs, constants=constants, outputs=outputs, domain=domain, symbolic=odd % 4 == 1)


VARIADIC = [
    opdef for opdef in all_opdefs() if opdef.domain == DOMAIN and opdef.signature and opdef.signature.is_variadic
]


@pytest.mark.parametrize("opdef", VARIADIC, ids=lambda opdef: opdef.name)
def test_variadic_operands_cannot_be_omitted(opdef: OpDef) -> None:
    assert opdef.signature is not None
    count = opdef.signature.input_count[0]
    for index, is_missing in ((count - 1, True), (count, True), (count + 1, True), (None, False)):
        arrays = [None if index == i else np.ones((2, 3), np.float32) for i in range(count + 3)]
        try:
            parsed(make_model(opdef.name, arrays))
            problems = []
        except AtcError as error:
            problems = [problem.code for problem in error.problems if "is missing" in problem.what]
        assert problems == (["E13014"] if is_missing else [])


@pytest.mark.parametrize("key", RULES, ids=":".join)
def test_nonsense_never_raises_an_internal_error(key: tuple[str, str]) -> None:
    for model in models(*key):
        try:
            expanded(model)
        except AtcError as error:
            assert error.code in ("E13014", "E10055", "EZ8888", "R0001")

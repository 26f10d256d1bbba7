"""Prototypes of operators, as GE declares them by REG_OP: here they follow from the records of ops/ and the standard.

Names of inputs are those of the standard in lower case. GE's own are understood where they mean the same: `x` (or `x1`
and `x2`) for the first inputs, `y` for the first output, and those of `_GE_NAMES`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import onnx

from atcpy.errors import AtcError
from atcpy.ops.core.opdef import all_opdefs, find_signed
from atcpy.ops.core.signature import UNBOUNDED, Signature
from atcpy.parsers.onnx.op_rule import OpRule
from atcpy.parsers.onnx.rules import NEWEST, find_rule

# Inputs and attributes of GE that have the meaning, and the values, of one that ONNX names otherwise.
_GE_NAMES: Mapping[str, Mapping[str, str]] = {
    "Conv": {"filter": "w", "bias": "b", "groups": "group"},
    "ConvTranspose": {"filter": "w", "bias": "b", "groups": "group"},
    "Gemm": {"transpose_a": "transA", "transpose_b": "transB"},
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or an output: it may be left out, or stand for any number of values."""

    name: str
    is_optional: bool = False
    is_dynamic: bool = False


@dataclass(frozen=True, slots=True)
class Prototype:
    """Inputs, outputs and attributes of an operator. `attrs` gives the type of each attribute, as a number of
    AttributeProto, `defaults` the value of those that have one; `aliases` leads from GE's names to those here.
    """

    op_type: str
    domain: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attrs: Mapping[str, int]
    required_attrs: tuple[str, ...]
    defaults: Mapping[str, onnx.AttributeProto]
    aliases: Mapping[str, str]

    def find_input(self, name: str) -> Parameter | None:
        """The input of that name, or of that name in GE."""
        own = self.aliases.get(name, name)
        return next((parameter for parameter in self.inputs if parameter.name == own), None)

    def output_index(self, name: str) -> int | None:
        """The index of the output of that name; GE calls the first `y`."""
        names = [parameter.name for parameter in self.outputs]
        return names.index(name) if name in names else 0 if name == "y" else None


@cache
def operator_types() -> Mapping[str, tuple[str, str]]:
    """Domain and op by the name of its constructor: ONNX's name, with the domain in front of it if it is not the
    standard's, or GE's type. Where several ops have a name, it is the standard's, then that of the first domain.
    """
    standard = {(s.domain, s.name) for s in onnx.defs.get_all_schemas() if s.domain in NEWEST and not s.deprecated}
    signed = {(opdef.domain, opdef.name) for opdef in all_opdefs() if opdef.signature is not None}
    known = standard | signed
    found: dict[str, tuple[str, str]] = {}
    for domain, name in sorted(known):
        found.setdefault(name, (domain, name))
        if domain:
            found[f"{domain}::{name}"] = domain, name
    for opdef in all_opdefs():
        if (opdef.domain, opdef.name) in known:
            for name in opdef.ge_types:
                found.setdefault(name, (opdef.domain, opdef.name))
    return found


@cache
def prototype_of(domain: str, op_type: str) -> Prototype:
    """The prototype of an op of `operator_types`."""
    rule = find_rule(op_type, domain, NEWEST.get(domain))
    assert not isinstance(rule, AtcError), f"{domain}::{op_type} is known"
    if onnx.defs.has(op_type, NEWEST.get(domain, 1), domain):
        schema = onnx.defs.get_schema(op_type, NEWEST[domain], domain)
        inputs, outputs = _formal(schema.inputs), _formal(schema.outputs)
        defaults = {name: attr.default_value for name, attr in schema.attributes.items() if attr.default_value.type}
    else:
        record = find_signed(op_type, domain)
        assert record is not None
        assert record.signature is not None
        inputs, outputs, defaults = _inputs_of(record.signature), _outputs_of(record.signature), {}
    return Prototype(
        op_type, domain, inputs, outputs, rule.attrs, rule.required, defaults, _aliases(op_type, inputs, rule)
    )


def _formal(parameters: Sequence[onnx.defs.OpSchema.FormalParameter]) -> tuple[Parameter, ...]:
    option = onnx.defs.OpSchema.FormalParameterOption
    return tuple(
        Parameter(
            formal.name.lower(),
            formal.option is option.Optional or (formal.option is option.Variadic and not formal.min_arity),
            formal.option is option.Variadic,
        )
        for formal in parameters
    )


def _inputs_of(signature: Signature) -> tuple[Parameter, ...]:
    last = len(signature.inputs) - 1
    return tuple(
        Parameter(name.lower(), index not in signature.required_inputs, signature.is_variadic and index == last)
        for index, name in enumerate(signature.inputs)
    )


def _outputs_of(signature: Signature) -> tuple[Parameter, ...]:
    """Records do not name the outputs."""
    least, most = signature.output_count
    if most == UNBOUNDED:
        return (Parameter("y", is_dynamic=True),)
    return tuple(Parameter(f"y{index or ''}", index >= least) for index in range(most))


def _aliases(op_type: str, inputs: tuple[Parameter, ...], rule: OpRule) -> Mapping[str, str]:
    names = [parameter.name for parameter in inputs]
    numbered = dict(zip(("x1", "x2"), names, strict=False)) if len(names) == 2 else {}
    found = {"x": names[0], **numbered} if names else {}
    found |= _GE_NAMES.get(op_type, {})
    return {alias: name for alias, name in found.items() if alias not in (*names, *rule.attrs)}

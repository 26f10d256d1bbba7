"""What the ONNX standard says of an op at a version, as far as a node can be checked against it."""

from collections.abc import Collection
from functools import cache

import onnx

from atcpy.errors import AtcError, ModelInvalid, Unsupported, Where, did_you_mean
from atcpy.ir import DType
from atcpy.ops import all_opdefs
from atcpy.ops.contrib.record import DOMAIN, REFUSED
from atcpy.ops.core.signature import UNBOUNDED
from atcpy.ops.custom import CustomOp
from atcpy.parsers.onnx.contrib_rules import extra_rule
from atcpy.parsers.onnx.op_rule import FREE, OpRule
from atcpy.parsers.onnx.text import are_texts

# The newest opset of each domain of the standard.
NEWEST: dict[str, int] = {}
for _schema in onnx.defs.get_all_schemas():
    if _schema.domain in ("", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "ai.onnx.preview"):
        NEWEST[_schema.domain] = max(NEWEST.get(_schema.domain, 0), _schema.since_version)

_BLOCKED = """it is laid out for one kind of CPU: save the model at ONNX Runtime's level "extended" or below"""
# Who writes ops of these domains, and how to have the model without them.
_WRITERS = (
    ("com.microsoft.nchwc", _BLOCKED),
    ("com.ms.", _BLOCKED),
    ("com.microsoft", "it has no form in ONNX: export the model without ONNX Runtime's optimization"),
    ("org.pytorch", "PyTorch's exporter writes it where it knows no ONNX op: export with a newer opset"),
    ("aten", "PyTorch's exporter writes it where it knows no ONNX op: export with a newer opset"),
    ("ai.onnx.contrib", "it is an op of onnxruntime-extensions: do that step before the model"),
    ("mmdeploy", "it is an op of mmdeploy: export for the backend onnxruntime, or register it"),
)
# What attributes of few values may be, whichever op has them: programs differ in what they make of others.
_FLAGS = (
    "align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "count_include_pad", "detect_negative",
    "detect_positive", "exclude_outside", "exclusive", "fmod", "input_forget", "interleaved", "inverse", "is_causal",
    "keepdims", "largest", "layout", "linear_before_reset", "noop_with_empty_axes", "onesided", "periodic", "reverse",
    "saturate", "select_last_index", "sorted", "storage_order", "training_mode", "transA", "transB", "upper",
)  # fmt: skip
_DTYPES = ("dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "stash_type", "to")
_VALUES: dict[str, Collection[int | bytes]] = {
    "auto_pad": (b"", b"NOTSET", b"SAME_UPPER", b"SAME_LOWER", b"VALID"),
    **dict.fromkeys(_FLAGS, (0, 1)),
    **dict.fromkeys(_DTYPES, tuple(dtype.onnx for dtype in DType)),
}
_STRING = onnx.AttributeProto.STRING
_REGISTER = "register it: --custom-ops my_ops.py with @atcpy.register_operator"


@cache
def known_ops() -> frozenset[tuple[str, str]]:
    """The ops beyond the standard whose records say nothing of how their nodes look."""
    return frozenset((opdef.domain, opdef.name) for opdef in all_opdefs() if opdef.domain and opdef.signature is None)


def custom_rule(operator: CustomOp) -> OpRule:
    """How a node of a user's operator must look; its attributes are the operator's own affair."""
    max_outputs = FREE.outputs[1] if operator.outputs is None else operator.outputs
    return OpRule({}, (), operator.inputs, (1, max_outputs), is_free=True)


def find_rule(op_type: str, domain: str, opset: int | None) -> OpRule | AtcError:
    """The rule of an op at an opset (None: not imported), or why a node of it cannot be converted."""
    if domain not in NEWEST:
        if (domain, op_type) in known_ops():
            return FREE
        return extra_rule(op_type, domain) or _unknown(op_type, domain)
    if opset is None:
        what = f"{_full(op_type, domain)}: the model imports no opset of {domain or 'ai.onnx'}"
        return Unsupported(
            "E10501", what, hint=f"add opset_import {domain or 'ai.onnx'} = {NEWEST[domain]} to the model"
        )
    if not 1 <= opset <= NEWEST[domain]:
        what = f"the model imports opset {opset} of {domain or 'ai.onnx'}, the newest that is known is {NEWEST[domain]}"
        return Unsupported("E10501", what, hint=f"export the model with opset {NEWEST[domain]} or earlier")
    return _rule_of_standard(op_type, domain, opset)


@cache
def _rule_of_standard(op_type: str, domain: str, opset: int) -> OpRule | AtcError:
    if not onnx.defs.has(op_type, opset, domain) and (extra := extra_rule(op_type, domain)) is not None:
        return extra
    if not onnx.defs.has(op_type, NEWEST[domain], domain) and not onnx.defs.has(op_type, opset, domain):
        return _unknown(op_type, domain)
    if not onnx.defs.has(op_type, opset, domain):
        since = min(s.since_version for s in _history() if (s.domain, s.name) == (domain, op_type))
        what = f"{_full(op_type, domain)} is new in opset {since}, the model imports {opset}"
        return Unsupported("E10501", what, hint=f"export the model with opset {since} or later")
    schema = onnx.defs.get_schema(op_type, opset, domain)
    return OpRule(
        # The stubs of onnx do not know that AttrType is an enum.
        attrs={name: attr.type.value for name, attr in schema.attributes.items()},  # type: ignore[attr-defined]
        required=tuple(name for name, attr in schema.attributes.items() if attr.required),
        inputs=(_min_inputs(schema), schema.max_input),
        first_variadic=len(schema.inputs) - 1 if schema.max_input == UNBOUNDED else None,
        outputs=(schema.min_output, schema.max_output),
        values={name: _VALUES[name] for name, attr in schema.attributes.items() if name in _VALUES and _is_plain(attr)},
    )


def _is_plain(attr: onnx.defs.OpSchema.Attribute) -> bool:
    """Whether an attribute has the type that those of its name have; the first opset wrote element types as texts."""
    kind: int = attr.type.value  # type: ignore[attr-defined]
    return kind == (_STRING if attr.name == "auto_pad" else onnx.AttributeProto.INT)


def _min_inputs(schema: onnx.defs.OpSchema) -> int:
    """The number of inputs up to the last one that may not be left out. `min_input` counts optional ones in front of a
    variadic one that may be empty, as a Loop's that carries nothing.
    """
    option = onnx.defs.OpSchema.FormalParameterOption
    required = [
        index
        for index, formal in enumerate(schema.inputs, 1)
        if formal.option is option.Single or (formal.option is option.Variadic and formal.min_arity)
    ]
    return max(required, default=0)


@cache
def _history() -> tuple[onnx.defs.OpSchema, ...]:
    return tuple(onnx.defs.get_all_schemas_with_history())


def _unknown(op_type: str, domain: str) -> AtcError:
    domains = [s.domain for s in onnx.defs.get_all_schemas() if s.name == op_type and s.domain != domain]
    names = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == domain})
    full = _full(op_type, domain)
    why = f"{domain or 'ai.onnx'} is not a domain of the ONNX standard" if domain not in NEWEST else ""
    if domain == DOMAIN and op_type in REFUSED:
        hint = f"{REFUSED[op_type]}; or {_REGISTER}"
    elif writer := next((text for prefix, text in _WRITERS if domain.startswith(prefix)), ""):
        hint = f"{writer}; or {_REGISTER}"
    elif domains:
        hint = f"{domains[0] or 'ai.onnx'} has an op of that name: set the node's domain"
    else:
        hint = did_you_mean(op_type, names) or (_REGISTER if domain else f"give it a domain of its own and {_REGISTER}")
    return Unsupported("E19010", f"{full} is not a known operator", why=why, hint=hint)


def check_node(node: onnx.NodeProto, rule: OpRule, inputs: int, outputs: int, where: Where) -> list[AtcError]:
    """Everything in which a node breaks the rule of its op."""
    found: list[AtcError] = []

    def invalid(what: str, hint: str = "") -> None:
        found.append(ModelInvalid("E13014", f"{node.op_type}: {what}", where=where, hint=hint))

    for word, count, (low, high) in (("inputs", inputs, rule.inputs), ("outputs", outputs, rule.outputs)):
        if not low <= count <= high:
            invalid(f"has {count} {word}, {low if low == high else f'{low} to {high}'} are possible")
    seen = set()
    for attr in node.attribute:
        name = attr.name
        if not are_texts((name,)):
            continue  # reported already
        if name in seen:
            invalid(f"attribute {name} is given twice")
        seen.add(name)
        if rule.is_free:
            continue
        if name in rule.values and attr.type == rule.attrs[name] and value_of(attr) not in rule.values[name]:
            listed = ", ".join(_shown(value) for value in rule.values[name] if value != b"")
            invalid(f"{name} = {_shown(value_of(attr))} is none of {listed}")
        expected = rule.attrs.get(name)
        if expected is None:
            invalid(f"has no attribute {name}", did_you_mean(name, rule.attrs))
        elif attr.type != expected and not attr.ref_attr_name:
            invalid(f"attribute {name} must be of type {_type_name(expected)}, it is {_type_name(attr.type)}")
    for name in rule.required:
        if name not in seen:
            invalid(f"attribute {name} is required")
    return found


def value_of(attr: onnx.AttributeProto) -> int | bytes:
    """The value of an attribute that is a number or a text."""
    return attr.s if attr.type == _STRING else attr.i


def _shown(value: int | bytes) -> str:
    return f'"{value.decode(errors="replace")}"' if isinstance(value, bytes) else str(value)


def _type_name(number: int) -> str:
    names = {value: key for key, value in onnx.AttributeProto.AttributeType.items()}
    return names.get(number, str(number))


def _full(op_type: str, domain: str) -> str:
    return f"{domain or 'ai.onnx'}::{op_type}"

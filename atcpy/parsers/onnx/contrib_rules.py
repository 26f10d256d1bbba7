"""How nodes of the ops that only ONNX Runtime has must look, from the signatures in their records."""

from onnx import AttributeProto

from atcpy.ops import all_opdefs
from atcpy.ops.core.signature import Signature
from atcpy.parsers.onnx.op_rule import OpRule

_TYPES = {
    "i": AttributeProto.INT, "f": AttributeProto.FLOAT, "s": AttributeProto.STRING,
    "I": AttributeProto.INTS, "F": AttributeProto.FLOATS, "S": AttributeProto.STRINGS,
}  # fmt: skip


def _rule_of(signature: Signature) -> OpRule:
    attrs = {name: _TYPES[letter] for name, letter in signature.attrs.items()}
    return OpRule(attrs, signature.required_attrs, signature.input_count, signature.output_count)


# By domain and op. Of ai.onnx.ml's ops the standard says more than their signatures.
RULES = {
    (opdef.domain, opdef.name): _rule_of(opdef.signature)
    for opdef in all_opdefs()
    if opdef.signature is not None and opdef.domain != "ai.onnx.ml"
}


def extra_rule(op_type: str, domain: str) -> OpRule | None:
    """Return how a node of an op that only ONNX Runtime has must look; None for other ops."""
    return RULES.get((domain, op_type))
